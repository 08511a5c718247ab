// exp, log and sqrt for every instruction set. They run in round-to-nearest with subnormals kept.
#pragma once

#include "../../problems/elementary.h"

namespace reprocuda::cpu {

template <class T>
using MapElements = void (*)(Elementary function, const T* in, T* out, int64_t count);

// For the instruction set in use.
template <class T>
MapElements<T> map_kernel();

}  // namespace reprocuda::cpu
