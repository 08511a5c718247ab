// The rows of the fingerprint, kLanes words at a time. Included once for every instruction set.

// The product of the two halves of every word.
template <int L>
inline typename Vectors<L>::Bits multiply_halves(typename Vectors<L>::Bits x) {
  using Bits = typename Vectors<L>::Bits;
  const Bits high = x >> 32;
#if defined(__x86_64__)
  if constexpr (L == 8) return (Bits)_mm512_mul_epu32((__m512i)x, (__m512i)high);
  if constexpr (L == 4) return (Bits)_mm256_mul_epu32((__m256i)x, (__m256i)high);
  if constexpr (L == 2) return (Bits)_mm_mul_epu32((__m128i)x, (__m128i)high);
#endif
  return (x & 0xffffffffu) * high;
}

inline uint64_t add_lanes(typename Vectors<kLanes>::Bits sums) {
  uint64_t sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  return sum;
}

Fingerprint hash_blocks(const unsigned char* bytes, int64_t count, int64_t first_block) {
  using Bits = typename Vectors<kLanes>::Bits;
  typedef uint32_t Halves __attribute__((vector_size(8 * kLanes)));
  const uint64_t* keys = kFingerprintKeyTable.key;
  Fingerprint sums = {};
  for (int64_t block = 0; block < count; ++block) {
    Bits rows[kFingerprintRows] = {};
    const unsigned char* from = bytes + block * kFingerprintBlockBytes;
    for (int i = 0; i < kFingerprintWords; i += kLanes) {
      const Halves words = load_vector<Halves>(from + 8 * i);
      for (int r = 0; r < kFingerprintRows; ++r) {
        rows[r] += multiply_halves<kLanes>((Bits)(words + load_vector<Halves>(keys + i + r * kFingerprintKeyStep)));
      }
    }
    for (int lane = 0; lane < 2; ++lane) {
      sums.lane[lane] += fingerprint_fold(add_lanes(rows[2 * lane]), add_lanes(rows[2 * lane + 1]), first_block + block, lane);
    }
  }
  return sums;
}

HashBlocks block_hash(InstructionSet) { return hash_blocks; }
