// The filtered prefix sums of every instruction set. They run in the rounding mode of the element type (rounding_mode.h).
#pragma once

#include <cstdint>

#include "../../numerics/pair_sum.h"

namespace reprocuda::cpu {

// How many numbers describe a running sum.
inline constexpr int kScanStates = 4;

// The most sums that may take turns in a run.
inline constexpr int kMostParts = 15;

// Columns whose sums stay in the first cache.
inline constexpr int64_t kColumnBlock = 256;

// `width` runs of `length` elements, `stride` apart. A run is contiguous and holds `parts` sums that take turns, so its
// state is [parts, kScanStates].
template <class T>
struct Streams {
  const T* in;
  T* out;
  int64_t stride;
  int width;
  int64_t length;
  int parts;
};

// Bit k of a byte of `flags` says that this prefix was not certified: what stands there is worth nothing.
template <class T>
struct ScanKernels {
  int lanes;
  void (*empty)(double* state);                       // of one part
  void (*merge)(double* state, const double* other);  // of one part
  void (*total)(const T* in, int64_t length, int parts, double* state);
  // Adds a run to `sums`, one a part, as pairs of doubles, rounding to nearest. Not for float64.
  void (*pairs)(const T* in, int64_t length, int parts, PairSum* sums);
  // At most `lanes` runs at once, all beginning with the same part. They continue `states`, behind a multiple of
  // lanes * parts, or are whole if it is null. Returns whether a flag is set: a byte of `flags` for every `lanes`
  // elements of a run, of whole ones only if it does.
  bool (*streams)(const Streams<T>& streams, double* states, uint8_t* flags, int64_t flag_stride);
  // `width` neighbouring columns, at most `lanes`. A byte of `flags` for every row, if it returns true.
  bool (*columns)(const T* in, T* out, int64_t length, int64_t stride, int width, uint8_t* flags);
  // `count` whole runs that follow each other, and at most kColumnBlock neighbouring columns, rounding to nearest. What they
  // store is right if they return true and, but for float64, the inexact flag stays clear; else it is worth nothing.
  bool (*quick_rows)(const T* in, T* out, int64_t count, int64_t length, int parts);
  bool (*quick_columns)(const T* in, T* out, int64_t length, int64_t stride, int64_t width);
};

// For the instruction set in use.
template <class T>
ScanKernels<T> scan_kernels(int parts);

}  // namespace reprocuda::cpu
