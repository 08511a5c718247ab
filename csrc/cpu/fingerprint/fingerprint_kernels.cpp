// The rows of the fingerprint for every instruction set.
#include "fingerprint_kernel.h"

#define REPROCUDA_KERNELS "cpu/fingerprint/fingerprint.inl"
#include "../vectors/every_isa.inl"

namespace reprocuda::cpu {

HashBlocks block_hash() {
  return with_isa([](auto isa) { return block_hash(isa); });
}

}  // namespace reprocuda::cpu
