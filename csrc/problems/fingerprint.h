// The canonical problem of hashing a tensor's bits.
#pragma once

#include <cstdint>

#include "../numerics/fingerprint.h"
#include "dims.h"

namespace reprocuda {

// The bits of a tensor to be hashed, in row-major order (numerics/fingerprint.h). Neighbouring dimensions that one stride
// serves are merged; a contiguous tensor has at most one.
struct FingerprintProblem {
  const void* data = nullptr;
  int element_bytes = 1;                           // 1, 2, 4, 8 or 16
  bool is_bool = false;                            // bytes count as 0 or not 0
  int ndim = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};                  // in elements
  int64_t num_elements = 1;
  Fingerprint header = {};

  bool is_contiguous() const { return ndim == 0 || (ndim == 1 && strides[0] == 1); }
  int64_t num_blocks() const {
    return (num_elements * element_bytes + kFingerprintBlockBytes - 1) / kFingerprintBlockBytes;
  }
};

}  // namespace reprocuda
