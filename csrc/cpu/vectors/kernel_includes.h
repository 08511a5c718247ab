// What the kernel sources need, included before any target option is set: inline functions of the standard library must not
// be compiled for an instruction set that only some processors have.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "../../numerics/double_double.h"
#include "../../numerics/elementary.h"
#include "../../numerics/interval.h"
#include "../../numerics/product.h"
#include "isa.h"
