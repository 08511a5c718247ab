// The vector kernels of sums for the instruction set in use. Those of each set are a file of their own, since they are many.
#include "../vectors/isa.h"
#include "cells_kernel.h"
#include "rows_kernel.h"

namespace reprocuda::cpu {

namespace portable {
template <class T, class Position>
RowsKernels<T, Position> rows_kernels(InstructionSet, Reduction reduction);
template <class T>
CellKernels<T> cell_kernels(InstructionSet, Reduction reduction, bool include_self);
}
namespace avx2 {
template <class T, class Position>
RowsKernels<T, Position> rows_kernels(InstructionSet, Reduction reduction);
template <class T>
CellKernels<T> cell_kernels(InstructionSet, Reduction reduction, bool include_self);
}
namespace avx512 {
template <class T, class Position>
RowsKernels<T, Position> rows_kernels(InstructionSet, Reduction reduction);
template <class T>
CellKernels<T> cell_kernels(InstructionSet, Reduction reduction, bool include_self);
}

template <class T, class Position>
RowsKernels<T, Position> rows_kernels(Reduction reduction) {
  return with_isa([&](auto isa) { return rows_kernels<T, Position>(isa, reduction); });
}
template RowsKernels<float, int32_t> rows_kernels(Reduction);
template RowsKernels<float, int64_t> rows_kernels(Reduction);
template RowsKernels<double, int32_t> rows_kernels(Reduction);
template RowsKernels<double, int64_t> rows_kernels(Reduction);
template RowsKernels<Half, int32_t> rows_kernels(Reduction);
template RowsKernels<Half, int64_t> rows_kernels(Reduction);
template RowsKernels<BFloat16, int32_t> rows_kernels(Reduction);
template RowsKernels<BFloat16, int64_t> rows_kernels(Reduction);

template <class T>
CellKernels<T> cell_kernels(Reduction reduction, bool include_self) {
  return with_isa([&](auto isa) { return cell_kernels<T>(isa, reduction, include_self); });
}
template CellKernels<float> cell_kernels(Reduction, bool);
template CellKernels<double> cell_kernels(Reduction, bool);
template CellKernels<Half> cell_kernels(Reduction, bool);
template CellKernels<BFloat16> cell_kernels(Reduction, bool);

}  // namespace reprocuda::cpu
