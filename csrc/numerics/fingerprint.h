// The fingerprint of a tensor's bits: what every backend computes, by integers only.
//
// Definition. The elements in row-major order, as bytes (bool as 0 or 1), zero-padded to whole blocks of 2048 bytes, are
// read as little-endian words of 64 bits, 256 a block. With keys K[n] = fingerprint_key(n), all sums modulo 2^64:
//   row r of a block, r = 0..3:  h[r] = sum over i of lo(w[i] + K[i + 64 r]) * hi(w[i] + K[i + 64 r]),
//                                where + is done on each half of 32 bits by itself and lo, hi are the halves;
//   lane l, l = 0, 1:            s[l] = sum over blocks b of mix64(mix64(h[2 l] + (b + 1) M[l]) + h[2 l + 1]);
//   header:                      t[l] = M[l], then for each v of dtype (torch's ScalarType number), the number of
//                                dimensions, every size in turn: t[l] = mix64((t[l] ^ v) + M[l]);
//   digest:                      d[l] = mix64(t[l] + s[l]).
//
// Guarantee. The digest is a function of dtype, shape and bits: sums wrap around, so blocks and words may be taken in any
// order by any number of threads.
//
// Why different bits differ. A row is the NH hash of UMAC: for two blocks that are not equal and keys drawn at random, a row
// agrees with probability at most 2^-32. The four rows share keys as a Toeplitz matrix does: where i is the last word that
// differs, K[i + 64 r] enters the difference of no row before r, so all four agree with probability at most 2^-128. The keys
// are fixed but were not chosen with any data in mind, and data does not know them. mix64 is a bijection without structure
// that data has, so a lane's sum over differing blocks meets by chance only, 2^-64, and the two lanes, which share neither
// rows nor constants, with 2^-128. The last step is a bijection of s for given dtype and shape: it loses nothing. It is no
// defence against someone who knows the keys and constructs a collision.
#pragma once

#include "config.h"

namespace reprocuda {

inline constexpr int kFingerprintWords = 256;  // of a block
inline constexpr int kFingerprintBlockBytes = 8 * kFingerprintWords;
inline constexpr int kFingerprintRows = 4;
inline constexpr int kFingerprintKeyStep = 64;  // from a row's keys to the next row's
inline constexpr int kFingerprintKeys = kFingerprintWords + (kFingerprintRows - 1) * kFingerprintKeyStep;

// Both lanes of a sum or a digest.
struct Fingerprint {
  uint64_t lane[2];

  REPROCUDA_HD void add(const Fingerprint& other) {
    lane[0] += other.lane[0];
    lane[1] += other.lane[1];
  }
};

// The finaliser of SplitMix64.
REPROCUDA_HD constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

REPROCUDA_HD constexpr uint64_t fingerprint_multiplier(int lane) {
  return lane == 0 ? 0x9e3779b97f4a7c15u : 0xd1342543de82ef95u;
}

// The stream of SplitMix64 from seed 0.
REPROCUDA_HD constexpr uint64_t fingerprint_key(int n) {
  return mix64((static_cast<uint64_t>(n) + 1) * 0x9e3779b97f4a7c15u);
}

// What one word adds to a row.
REPROCUDA_HD constexpr uint64_t fingerprint_product(uint64_t word, uint64_t key) {
  const uint32_t low = static_cast<uint32_t>(word) + static_cast<uint32_t>(key);
  const uint32_t high = static_cast<uint32_t>(word >> 32) + static_cast<uint32_t>(key >> 32);
  return static_cast<uint64_t>(low) * high;
}

// What a block adds to one lane: `first` and `second` are that lane's two rows.
REPROCUDA_HD constexpr uint64_t fingerprint_fold(uint64_t first, uint64_t second, int64_t block, int lane) {
  const uint64_t place = (static_cast<uint64_t>(block) + 1) * fingerprint_multiplier(lane);
  return mix64(mix64(first + place) + second);
}

// One value of the header.
REPROCUDA_HD constexpr void fingerprint_append(Fingerprint& header, int64_t value) {
  for (int lane = 0; lane < 2; ++lane) {
    header.lane[lane] = mix64((header.lane[lane] ^ static_cast<uint64_t>(value)) + fingerprint_multiplier(lane));
  }
}

REPROCUDA_HD Fingerprint fingerprint_digest(const Fingerprint& header, const Fingerprint& sums) {
  return {{mix64(header.lane[0] + sums.lane[0]), mix64(header.lane[1] + sums.lane[1])}};
}

}  // namespace reprocuda
