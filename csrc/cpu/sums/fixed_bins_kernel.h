// What integer sums in a window ask of their vector kernels, which exist once per instruction set (fixed_bins.inl).
#pragma once

#include <cstdint>

namespace reprocuda::cpu {

// The window: x is high * 2^(unit + low_bits) + low * 2^unit with |low| <= 2^(low_bits - 1), if |x| is small enough and nothing
// is left over.
struct FixedWindow {
  int unit;           // exponent of the last bit
  int low_bits;       // at most 50
  double to_high;     // 2^-(unit + low_bits)
  double most_high;   // of |x| * to_high; at most 2^50
};

// Cells [high, low], one a target, whose lower parts stay below 2^62 for so many contributions after a normalisation.
inline int64_t fixed_batch(const FixedWindow& window) { return int64_t{1} << (62 - window.low_bits); }

struct FixedBinsKernels {
  // cells[t] becomes self[t]; returns whether all fit.
  bool (*start)(const FixedWindow&, int64_t* cells, const double* self, int64_t count);
  // Adds src[i] to the cell that keys[i] names, for a batch at most. Sets *fits: whether all did, else the cells are worth
  // nothing. Returns the position of the first key out of range, where it stops, or -1.
  int64_t (*add_int32)(const FixedWindow&, int64_t* cells, int64_t num_targets, const int32_t* keys, const double* src,
                       int64_t first, int64_t last, bool* fits);
  int64_t (*add_int64)(const FixedWindow&, int64_t* cells, int64_t num_targets, const int64_t* keys, const double* src,
                       int64_t first, int64_t last, bool* fits);
  // Carries from the lower parts, which become numbers of low_bits bits, to the higher ones.
  void (*normalize)(const FixedWindow&, int64_t* cells, int64_t count);
  // Rounds the sums over `num_sets` normalised sets for targets [first, last).
  void (*finish)(const FixedWindow&, const int64_t* sets, int64_t num_sets, int64_t set_stride, double* out, int64_t first,
                 int64_t last);

  int64_t add(const FixedWindow& window, int64_t* cells, int64_t num_targets, const int32_t* keys, const double* src,
              int64_t first, int64_t last, bool* fits) const {
    return add_int32(window, cells, num_targets, keys, src, first, last, fits);
  }
  int64_t add(const FixedWindow& window, int64_t* cells, int64_t num_targets, const int64_t* keys, const double* src,
              int64_t first, int64_t last, bool* fits) const {
    return add_int64(window, cells, num_targets, keys, src, first, last, fits);
  }
};

// For the instruction set in use.
FixedBinsKernels fixed_bins_kernels();

}  // namespace reprocuda::cpu
