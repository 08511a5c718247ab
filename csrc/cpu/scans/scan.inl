// Prefix sums by the filter. Included once for every instruction set.
//
// A prefix sum is a chain of additions, each waiting for the one before. So kLanes streams are scanned at once, a tile of
// kLanes x kLanes elements at a time that is turned before and after: neighbouring slices, or pieces of a long one that
// begin with the sum of all before them. kParts sums take turns in a stream, or as many as the call says where it is 0.

#include "scan_sums.inl"
#include "scan_tiles.inl"
#include "scan_quick.inl"
#include "scan_columns.inl"

// One stream: the sums themselves are one chain of additions, their rounding goes by vectors. Where one is not certified
// its neighbours are not either: they too would cost more than the exact sums that have to be formed now.
template <class T, int kParts>
inline void scan_run(const T* in, T* out, int64_t length, int parts, double* state, uint8_t* flags) {
  constexpr int kStates = Lanes<T, kLanes>::kStates;
  Turn<kParts> turn(parts);
  double running[turn.kMost * kScanStates];
  std::copy_n(state, turn.parts() * kScanStates, running);
  for (int64_t i = 0; i < length; i += kLanes) {
    const int width = static_cast<int>(std::min<int64_t>(kLanes, length - i));
    double all[kStates * kLanes] = {};
    for (int lane = 0; lane < width; ++lane, ++turn) {
      double* const sum = running + *turn * kScanStates;
      add_to_state<T>(sum, to_double(in[i + lane]));
      for (int k = 0; k < kStates; ++k) all[k * kLanes + lane] = sum[k];
    }
    Lanes<T, kLanes> sums;
    sums.load_state(all);
    T rounded[kLanes] = {};
    *flags++ = store_rounded<T>(sums, rounded) ? 0 : 0xff;
    std::memcpy(out + i, rounded, sizeof(T) * static_cast<size_t>(width));
  }
  std::copy_n(running, turn.parts() * kScanStates, state);
}

// Of short slices that follow each other a tile takes a line each, and each time other ones: no processor sees them coming.
template <class T>
[[gnu::always_inline]] inline void prefetch_next(const Streams<T>& streams, int64_t i) {
  constexpr int64_t kShort = 2048 / static_cast<int64_t>(sizeof(T));
  for (int k = kLanes; streams.stride <= kShort && k < 2 * kLanes; ++k) {
    __builtin_prefetch(streams.in + k * streams.stride + i);
    __builtin_prefetch(streams.out + k * streams.stride + i, 1);
  }
}

// The state of one part of one stream; lanes behind the last stream repeat it.
template <class T>
inline double* state_of(double* states, const Streams<T>& streams, int lane, int part) {
  return states + (std::min(lane, streams.width - 1) * streams.parts + part) * kScanStates;
}

template <class T, int kParts>
inline bool scan_interval_streams(const Streams<T>& streams, double* states, uint8_t* flags, int64_t flag_stride) {
  Turn<kParts> turn(streams.parts);
  Lanes<T, kLanes> sums[turn.kMost];
  bool failed = false;
  for (auto& sum : sums) sum.clear();
  for (int lane = 0; states != nullptr && lane < kLanes; ++lane) {
    for (int part = 0; part < turn.parts(); ++part) {
      sums[part].high[lane] = state_of(states, streams, lane, part)[0];
      sums[part].negated_low[lane] = state_of(states, streams, lane, part)[1];
    }
  }
  for (int64_t i = 0; i < streams.length; i += kLanes) {
    const int64_t count = streams.length - i;
    Elements<T> rows[kLanes];
    if (states == nullptr) prefetch_next(streams, i);
    load_tile(streams.in + i, streams.stride, streams.width, count, rows);
    for (int k = 0; k < streams.width; ++k) flags[k * flag_stride + i / kLanes] = 0;
#pragma GCC unroll 8
    for (int r = 0; r < kLanes; ++r, ++turn) {
      if (r >= count) break;
      Lanes<T, kLanes>& sum = sums[*turn];
      sum.add(widen_elements<T>(rows[r]));
      T rounded[kLanes] = {};
      if (!store_rounded<T>(sum, rounded)) [[unlikely]] {
        for (int k = 0; k < streams.width; ++k) {
          if (sum.certify_lane(k, 1, rounded + k)) continue;
          flags[k * flag_stride + i / kLanes] |= static_cast<uint8_t>(1 << r);
          failed = true;
        }
      }
      rows[r] = load_vector<Elements<T>>(rounded);
    }
    store_tile(rows, streams.out + i, streams.stride, streams.width, count);
  }
  for (int lane = 0; states != nullptr && lane < streams.width; ++lane) {
    for (int part = 0; part < turn.parts(); ++part) {
      state_of(states, streams, lane, part)[0] = sums[part].high[lane];
      state_of(states, streams, lane, part)[1] = sums[part].negated_low[lane];
    }
  }
  return failed;
}

// Streams that lose a bit are scanned again as compensated sums.
template <int kParts>
inline bool scan_double_streams(const Streams<double>& streams, double* states, uint8_t* flags, int64_t flag_stride) {
  Turn<kParts> turn(streams.parts);
  PairLanes sums[turn.kMost];
  Ints<kLanes> lost{};
  bool worthwhile = states == nullptr;
  for (auto& sum : sums) sum.clear();
  for (int lane = 0; states != nullptr && lane < kLanes; ++lane) {
    for (int part = 0; part < turn.parts(); ++part) {
      const double* const state = state_of(states, streams, lane, part);
      sums[part].sum[lane] = state[0];
      sums[part].error[lane] = state[1];
      if (state[2] != 0.0 || !is_finite(state[3])) lost[lane] = 1;
    }
    worthwhile = worthwhile || lost[lane] == 0;
  }
  for (int64_t i = 0; worthwhile && i < streams.length; i += kLanes) {
    const int64_t count = streams.length - i;
    Doubles<kLanes> rows[kLanes];
    if (states == nullptr) prefetch_next(streams, i);
    load_tile(streams.in + i, streams.stride, streams.width, count, rows);
#pragma GCC unroll 8
    for (int r = 0; r < kLanes; ++r, ++turn) {
      if (r >= count) break;
      rows[r] = sums[*turn].add(rows[r], &lost);
    }
    store_tile(rows, streams.out + i, streams.stride, streams.width, count);
  }
  if (states == nullptr && !any<kLanes>(lost & ~static_cast<int64_t>(kSignBit))) return false;
  bool failed = false;
  for (int lane = 0; lane < streams.width; ++lane) {
    uint8_t* const own = flags + lane * flag_stride;
    const int64_t start = lane * streams.stride;
    if ((lost[lane] & ~static_cast<int64_t>(kSignBit)) != 0) {
      double empty[turn.kMost * kScanStates];
      for (int part = 0; part < turn.parts(); ++part) empty_state<double>(empty + part * kScanStates);
      double* const state = states == nullptr ? empty : state_of(states, streams, lane, 0);
      scan_run<double, kParts>(streams.in + start, streams.out + start, streams.length, streams.parts, state, own);
      failed = true;
      continue;
    }
    for (int64_t i = 0; i < streams.length; i += kLanes) own[i / kLanes] = 0;
    for (int part = 0; states != nullptr && part < turn.parts(); ++part) {
      state_of(states, streams, lane, part)[0] = sums[part].sum[lane];
      state_of(states, streams, lane, part)[1] = sums[part].error[lane];
    }
  }
  return failed;
}

template <class T, int kParts>
inline bool scan_streams(const Streams<T>& streams, double* states, uint8_t* flags, int64_t flag_stride) {
  if constexpr (std::is_same_v<T, double>) {
    return scan_double_streams<kParts>(streams, states, flags, flag_stride);
  } else {
    return scan_interval_streams<T, kParts>(streams, states, flags, flag_stride);
  }
}

template <class T, int kParts>
ScanKernels<T> kernels_for_parts() {
  return {kLanes,
          empty_state<T>,
          merge_state<T>,
          total_of_run<T, kParts>,
          pairs_of_run<T, kParts>,
          scan_streams<T, kParts>,
          scan_columns<T>,
          quick_rows<T, kParts>,
          quick_columns<T>};
}

template <class T>
ScanKernels<T> scan_kernels(InstructionSet, int parts) {
  return parts == 1 ? kernels_for_parts<T, 1>() : parts == 2 ? kernels_for_parts<T, 2>() : kernels_for_parts<T, 0>();
}
