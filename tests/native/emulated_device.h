// The device memory of one call of a launcher: every buffer is guarded, inputs are read-only, whatever nobody has written yet
// holds a pattern.
#pragma once

#include <pybind11/numpy.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cuda/accumulate.h"
#include "cuda/context.h"
#include "emulation/api.h"
#include "emulation/guarded_memory.h"
#include "numerics/dtype.h"

namespace reprocuda::testing {

inline const std::map<std::string, Dtype> kDtypes = {
    {"uint8", Dtype::kUInt8},     {"int8", Dtype::kInt8},         {"int16", Dtype::kInt16},     {"int32", Dtype::kInt32},
    {"int64", Dtype::kInt64},     {"bool", Dtype::kBool},         {"float16", Dtype::kFloat16}, {"bfloat16", Dtype::kBFloat16},
    {"float32", Dtype::kFloat32}, {"float64", Dtype::kFloat64},
};

// For one call, where every output enters: at the exact sums, if that is forced.
class FirstStageScope {
 public:
  explicit FirstStageScope(bool force_exact) {
    cuda::set_first_stage(force_exact ? cuda::FirstStage::kExact : cuda::FirstStage::kFilter);
  }
  ~FirstStageScope() { cuda::set_first_stage(cuda::FirstStage::kFilter); }
  FirstStageScope(const FirstStageScope&) = delete;
  FirstStageScope& operator=(const FirstStageScope&) = delete;
};

// The memory of one call. What a launcher asks for is given back when the call is over.
class Device {
 public:
  Device(int num_sms, int compute_capability) {
    context_.num_sms = num_sms;
    context_.compute_capability = compute_capability;
    context_.owner = this;
    context_.allocate = [](void* owner, size_t bytes) { return static_cast<Device*>(owner)->temporary(bytes); };
  }

  const cuda::Context& context() const { return context_; }
  size_t temporary_bytes() const { return temporary_bytes_; }

  // Not aligned beyond its elements: tensors may begin anywhere.
  const void* upload(const pybind11::array& array, bool writable = false) {
    const size_t bytes = static_cast<size_t>(array.nbytes());
    const emulation::GuardedMemory& memory = allocate(bytes, static_cast<size_t>(array.itemsize()));
    if (bytes != 0) std::memcpy(memory.data(), array.data(), bytes);
    if (!writable) memory.forbid_writes();
    return memory.data();
  }

  void* unwritten(size_t bytes, size_t alignment) {
    const emulation::GuardedMemory& memory = allocate(bytes, alignment);
    emulation::poison(memory.data(), bytes);
    return memory.data();
  }

  void check_guards() const {
    for (const emulation::GuardedMemory& memory : buffers_) {
      if (memory.is_intact()) continue;
      throw emulation::KernelError("a write beside a buffer of " + std::to_string(memory.size()) + " bytes");
    }
  }

 private:
  const emulation::GuardedMemory& allocate(size_t bytes, size_t alignment) {
    return buffers_.emplace_back(bytes, alignment, emulation::flip_coin());
  }
  void* temporary(size_t bytes) {
    temporary_bytes_ += bytes;
    return unwritten(bytes, 256);
  }

  cuda::Context context_;
  std::vector<emulation::GuardedMemory> buffers_;
  size_t temporary_bytes_ = 0;
};

}  // namespace reprocuda::testing
