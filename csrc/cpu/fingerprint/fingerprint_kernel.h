// What the fingerprint asks of its vector kernels, which exist once per instruction set (fingerprint.inl).
#pragma once

#include <cstdint>

#include "../../numerics/fingerprint.h"

namespace reprocuda::cpu {

// What `count` whole blocks of packed bytes, the first of which has the number `first_block`, add to the lanes.
using HashBlocks = Fingerprint (*)(const unsigned char* bytes, int64_t count, int64_t first_block);

struct FingerprintKeys {
  alignas(64) uint64_t key[kFingerprintKeys];
};
inline constexpr FingerprintKeys kFingerprintKeyTable = [] {
  FingerprintKeys keys{};
  for (int n = 0; n < kFingerprintKeys; ++n) keys.key[n] = fingerprint_key(n);
  return keys;
}();

// For the instruction set in use.
HashBlocks block_hash();

}  // namespace reprocuda::cpu
