// The CUDA backend under the operators: registers every family for the CUDA key, on torch's current stream and out of
// torch's caching allocator.
#include <cuda_runtime_api.h>
#include <torch/csrc/stable/accelerator.h>

#include <array>
#include <mutex>

#include "../ops/elementary.h"
#include "../ops/embedding.h"
#include "../ops/embedding_bag.h"
#include "../ops/extremum.h"
#include "../ops/fingerprint.h"
#include "../ops/forcing.h"
#include "../ops/histogram.h"
#include "../ops/index_put.h"
#include "../ops/overwrite.h"
#include "../ops/reduce.h"
#include "../ops/running.h"
#include "../ops/scan.h"
#include "../ops/scatter_add.h"
#include "../ops/segment.h"
#include "../ops/text.h"
#include "accumulate.h"
#include "bags.h"
#include "elementary.h"
#include "extremum.h"
#include "fingerprint.h"
#include "histogram.h"
#include "linearize.h"
#include "overwrite.h"
#include "running.h"
#include "scan.h"

namespace reprocuda {
namespace {

struct DeviceProperties {
  int num_sms;
  int compute_capability;
};

// Attributes do not change; asking the driver for them does cost.
DeviceProperties device_properties(int device) {
  constexpr int kMaxDevices = 128;
  static std::array<std::once_flag, kMaxDevices> asked;
  static std::array<DeviceProperties, kMaxDevices> known;
  check<std::runtime_error>(device >= 0 && device < kMaxDevices, "reprocuda: no device has the number ", device);
  std::call_once(asked[device], [&] {
    const auto attribute = [&](cudaDeviceAttr name) {
      int value = 0;
      const cudaError_t status = cudaDeviceGetAttribute(&value, name, device);
      check<std::runtime_error>(status == cudaSuccess, "CUDA: ", cudaGetErrorString(status));
      return value;
    };
    known[device] = {attribute(cudaDevAttrMultiProcessorCount),
                     10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor)};
  });
  return known[device];
}

// One operator call: the device made current, its stream, and the temporary memory that lives until the call returns.
// Handing memory back before the kernels have run is safe: the caching allocator reuses it in stream order only.
class DeviceCall {
 public:
  explicit DeviceCall(const Tensor& like) : like_(like), guard_(like.get_device_index()) {
    const int device = like.get_device_index();
    const DeviceProperties properties = device_properties(device);
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
    context_.stream = static_cast<CUstream_st*>(stream);
    context_.num_sms = properties.num_sms;
    context_.compute_capability = properties.compute_capability;
    context_.owner = this;
    context_.allocate = [](void* owner, size_t bytes) { return static_cast<DeviceCall*>(owner)->allocate(bytes); };
  }

  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  const cuda::Context& context() const { return context_; }

 private:
  void* allocate(size_t bytes) {
    memory_.push_back(new_tensor({static_cast<int64_t>(bytes)}, ScalarType::Byte, like_));
    return memory_.back().mutable_data_ptr();
  }

  const Tensor& like_;
  torch::stable::accelerator::DeviceGuard guard_;
  std::vector<Tensor> memory_;
  cuda::Context context_;
};

struct CudaBackend {
  static constexpr int64_t kNoneKnown = -1;  // a bad index traps on the device

  static int64_t accumulate(const Accumulation& problem, const Tensor& out) {
    cuda::accumulate(problem, DeviceCall(out).context());
    return kNoneKnown;
  }

  static int64_t accumulate(const ElementAccumulation& problem, const Tensor& out) {
    cuda::accumulate(problem, DeviceCall(out).context());
    return kNoneKnown;
  }

  static int64_t linearize(const IndexLinearization& problem, const Tensor& out) {
    cuda::linearize(problem, DeviceCall(out).context());
    return kNoneKnown;
  }

  static bool overwrite(const Overwrite& problem, const Tensor& out) {
    cuda::overwrite(problem, DeviceCall(out).context());
    return true;
  }

  static int64_t extremum(const Extremum& problem, const Tensor& out) {
    cuda::extremum(problem, DeviceCall(out).context());
    return kNoneKnown;
  }

  static void histogram(const Histogram& problem, const Tensor& out, bool counts) {
    int64_t* const result = static_cast<int64_t*>(out.mutable_data_ptr());
    const DeviceCall call(out);
    counts ? cuda::histogram_counts(problem, result, call.context()) : cuda::histogram_keys(problem, result, call.context());
  }

  static void scan(Dtype dtype, const Tensor& in, const Tensor& out, int64_t outer, int64_t length, int64_t inner) {
    cuda::scan({dtype, out.mutable_data_ptr(), in.const_data_ptr(), outer, length, inner}, DeviceCall(out).context());
  }

  static int64_t bag_sum(const BagSum& problem, const Tensor& out) {
    cuda::bag_sum(problem, DeviceCall(out).context());
    return kNoneKnown;
  }
  static void bag_maximum(const BagMaximum& problem, const Tensor& out) {
    cuda::bag_maximum(problem, DeviceCall(out).context());
  }
  static void row_products(const RowProducts& problem, const Tensor& out) {
    cuda::row_products(problem, DeviceCall(out).context());
  }

  static void fingerprint(const FingerprintProblem& problem, int64_t* digest, const Tensor& x) {
    cuda::fingerprint(problem, digest, DeviceCall(x).context());
  }

  static void running(const RunningScan& problem, const Tensor& out) {
    cuda::running(problem, DeviceCall(out).context());
  }

  static void map(const ElementaryMap& problem, const Tensor& out) { cuda::map(problem, DeviceCall(out).context()); }

  static int64_t first_out_of_range(const Tensor&, int64_t, int64_t) { return kNoneKnown; }

  static int64_t build_plan(const Tensor& index, int64_t num_targets, int64_t* permutation, int64_t* offsets) {
    cuda::build_plan(index.const_data_ptr(), index.scalar_type() == ScalarType::Long, index.numel(), num_targets,
                     permutation, offsets, DeviceCall(index).context());
    return kNoneKnown;
  }

  // What the offsets and the permutation hold cannot be read without waiting for the device.
  static void check_plan(const Tensor*, const Tensor&, int64_t, const char*) {}
};

void set_forced_algorithm(StringHandle name) { cuda::set_forced_algorithm(algorithm_named(take_string(name))); }

// The CPU's stages, of which the last two are one here.
void set_first_stage(int64_t stage) {
  check<std::runtime_error>(stage >= 0 && stage <= 2, "_set_first_stage_cuda(): stage must be 0, 1 or 2, not ", stage);
  cuda::set_first_stage(stage == 0 ? cuda::FirstStage::kFilter : cuda::FirstStage::kExact);
}

// This library's own hooks: it is loaded beside _C, which holds the CPU's.
STABLE_TORCH_LIBRARY_FRAGMENT(reprocuda, library) {
  library.def("_set_forced_algorithm_cuda(str name) -> ()");
  library.def("_set_first_stage_cuda(int stage) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(reprocuda, CompositeExplicitAutograd, library) {
  library.impl("_set_forced_algorithm_cuda", TORCH_BOX(&set_forced_algorithm));
  library.impl("_set_first_stage_cuda", TORCH_BOX(&set_first_stage));
}

STABLE_TORCH_LIBRARY_IMPL(reprocuda, CUDA, library) {
  register_index_add<CudaBackend>(library);
  register_scatter_add<CudaBackend>(library);
  register_reduce<CudaBackend>(library);
  register_index_put<CudaBackend>(library);
  register_overwrite<CudaBackend>(library);
  register_extremum<CudaBackend>(library);
  register_embedding<CudaBackend>(library);
  register_segment<CudaBackend>(library);
  register_histogram<CudaBackend>(library);
  register_scan<CudaBackend>(library);
  register_embedding_bag<CudaBackend>(library);
  register_running<CudaBackend>(library);
  register_elementary<CudaBackend>(library);
  register_fingerprint<CudaBackend>(library);
}

}  // namespace
}  // namespace reprocuda
