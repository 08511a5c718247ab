// From the chosen instruction set to its kernels.
#pragma once

#include <type_traits>

#include "../fingerprint/fingerprint_kernel.h"
#include "../rounding_mode.h"
#include "../vectors/isa.h"
#include "cells_kernel.h"
#include "rows_kernel.h"

namespace reprocuda::cpu {

// The rounding mode that the filter of an element type needs: intervals go up, compensated sums to nearest.
template <class T>
inline constexpr RoundingMode kRoundingMode = std::is_same_v<T, double> ? RoundingMode::kNearest : RoundingMode::kUpward;

// Each names the kernels of one namespace.
struct PortableKernels {
  template <class T, class Position>
  static RowsKernels<T, Position> rows(Reduction reduction) {
    return portable::rows_kernels<T, Position>(reduction);
  }
  template <class T>
  static CellKernels<T> cells(Reduction reduction, bool include_self) {
    return portable::cell_kernels<T>(reduction, include_self);
  }
  static HashBlocks fingerprint() { return portable::hash_blocks; }
};

#if defined(__x86_64__)
struct Avx2Kernels {
  template <class T, class Position>
  static RowsKernels<T, Position> rows(Reduction reduction) {
    return avx2::rows_kernels<T, Position>(reduction);
  }
  template <class T>
  static CellKernels<T> cells(Reduction reduction, bool include_self) {
    return avx2::cell_kernels<T>(reduction, include_self);
  }
  static HashBlocks fingerprint() { return avx2::hash_blocks; }
};

struct Avx512Kernels {
  template <class T, class Position>
  static RowsKernels<T, Position> rows(Reduction reduction) {
    return avx512::rows_kernels<T, Position>(reduction);
  }
  template <class T>
  static CellKernels<T> cells(Reduction reduction, bool include_self) {
    return avx512::cell_kernels<T>(reduction, include_self);
  }
  static HashBlocks fingerprint() { return avx512::hash_blocks; }
};
#endif

// Calls pick(XKernels{}) for the instruction set in use.
template <class Pick>
auto select_kernels(Pick&& pick) {
  switch (selected_isa()) {
#if defined(__x86_64__)
    case Isa::kAvx512: return pick(Avx512Kernels{});
    case Isa::kAvx2: return pick(Avx2Kernels{});
#endif
    default: return pick(PortableKernels{});
  }
}

}  // namespace reprocuda::cpu
