// Running products and log-sum-exps for every instruction set.
#include "../../problems/elementary.h"
#include "running_kernel.h"

#define REPROCUDA_KERNELS "cpu/scans/running.inl"
#include "../vectors/every_isa.inl"

namespace reprocuda::cpu {

template <class Op, class T>
RunningKernels<Op, T> running_kernels() {
  return with_isa([](auto isa) { return running_kernels<Op, T>(isa); });
}
template RunningKernels<IntegerProduct, uint8_t> running_kernels();
template RunningKernels<IntegerProduct, uint16_t> running_kernels();
template RunningKernels<IntegerProduct, uint32_t> running_kernels();
template RunningKernels<IntegerProduct, uint64_t> running_kernels();
template RunningKernels<RealProduct, Half> running_kernels();
template RunningKernels<RealProduct, BFloat16> running_kernels();
template RunningKernels<RealProduct, float> running_kernels();
template RunningKernels<RealProduct, double> running_kernels();
template RunningKernels<ComplexProduct, Half> running_kernels();
template RunningKernels<ComplexProduct, float> running_kernels();
template RunningKernels<ComplexProduct, double> running_kernels();
template RunningKernels<LogSumExp, Half> running_kernels();
template RunningKernels<LogSumExp, BFloat16> running_kernels();
template RunningKernels<LogSumExp, float> running_kernels();
template RunningKernels<LogSumExp, double> running_kernels();

}  // namespace reprocuda::cpu
