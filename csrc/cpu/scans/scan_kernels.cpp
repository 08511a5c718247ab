// The filtered prefix sums for every instruction set.
#include "scan_kernel.h"

#define REPROCUDA_KERNELS "cpu/scans/scan.inl"
#include "../vectors/every_isa.inl"

namespace reprocuda::cpu {

template <class T>
ScanKernels<T> scan_kernels(int parts) {
  return with_isa([&](auto isa) { return scan_kernels<T>(isa, parts); });
}
template ScanKernels<float> scan_kernels<float>(int);
template ScanKernels<double> scan_kernels<double>(int);
template ScanKernels<Half> scan_kernels<Half>(int);
template ScanKernels<BFloat16> scan_kernels<BFloat16>(int);

}  // namespace reprocuda::cpu
