// Prefix sums by the filter. Included once for every instruction set, after lanes.inl.
//
// A prefix sum is a chain of additions, each waiting for the one before. So kLanes streams are scanned at once, a tile of
// kLanes x kLanes elements at a time that is turned before and after: neighbouring slices, or pieces of a long one that
// begin with the sum of all before them. kParts sums take turns in a stream, or as many as the call says where it is 0.

// rows[r][lane] becomes rows[lane][r]. kHalf is 1 at the last of log2(kLanes) steps.
template <int kHalf, class Vector, int... kLane>
inline void exchange(Vector& a, Vector& b, std::integer_sequence<int, kLane...>) {
  const Vector first = __builtin_shufflevector(a, b, ((kLane & kHalf) != 0 ? kLane - kHalf + kLanes : kLane)...);
  b = __builtin_shufflevector(a, b, ((kLane & kHalf) != 0 ? kLane + kLanes : kLane + kHalf)...);
  a = first;
}

template <int kHalf, class Vector>
[[gnu::always_inline]] inline void transpose(Vector (&rows)[kLanes]) {
#pragma GCC unroll 8
  for (int r = 0; r < kLanes; ++r) {
    if ((r & kHalf) == 0) exchange<kHalf>(rows[r], rows[r + kHalf], std::make_integer_sequence<int, kLanes>());
  }
  if constexpr (kHalf > 1) transpose<kHalf / 2>(rows);
}

template <class T>
inline void empty_state(double* state) {
  Lanes<T, kLanes> sums;
  sums.clear();
  double all[Lanes<T, kLanes>::kStates * kLanes];
  sums.store_state(all);
  for (int k = 0; k < Lanes<T, kLanes>::kStates; ++k) state[k] = all[k * kLanes];
}

template <class T>
inline void merge_state(double* state, const double* other) {
  if constexpr (std::is_same_v<T, double>) {
    CompensatedSum sum{state[0], state[1], state[2], state[3]};
    sum.merge({other[0], other[1], other[2], other[3]});
    state[0] = sum.sum, state[1] = sum.error, state[2] = sum.residual, state[3] = sum.scaled;
  } else {
    state[0] += other[0];
    state[1] += other[1];
  }
}

template <class T>
inline void add_to_state(double* state, double x) {
  if constexpr (std::is_same_v<T, double>) {
    CompensatedSum sum{state[0], state[1], state[2], state[3]};
    sum.add(x);
    state[0] = sum.sum, state[1] = sum.error, state[2] = sum.residual, state[3] = sum.scaled;
  } else {
    state[0] += x;
    state[1] -= x;
  }
}

// Which of the sums comes next.
template <int kParts>
class Turn {
 public:
  explicit Turn(int parts) : parts_(kParts > 0 ? kParts : parts) {}
  static constexpr int kMost = kParts > 0 ? kParts : kMostParts;
  int operator*() const { return part_; }
  void operator++() { part_ = part_ + 1 == parts_ ? 0 : part_ + 1; }
  int parts() const { return parts_; }

 private:
  int parts_;
  int part_ = 0;
};

template <class T, int kParts>
inline void total_of_run(const T* in, int64_t length, int parts, double* state) {
  constexpr int kStates = Lanes<T, kLanes>::kStates;
  Turn<kParts> turn(parts);
  Lanes<T, kLanes> sums[turn.kMost];  // kLanes elements on, the turn is that of another part
  for (auto& sum : sums) sum.clear();
  int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes, ++turn) sums[*turn].add(load<kLanes>(in + i));
  for (int vector = 0; vector < turn.parts(); ++vector) {
    double all[kStates * kLanes];
    sums[vector].store_state(all);
    for (int lane = 0; lane < kLanes; ++lane) {
      double one[kScanStates] = {};
      for (int k = 0; k < kStates; ++k) one[k] = all[k * kLanes + lane];
      merge_state<T>(state + (vector * kLanes + lane) % turn.parts() * kScanStates, one);
    }
  }
  for (; i < length; ++i) add_to_state<T>(state + i % turn.parts() * kScanStates, to_double(in[i]));
}

// The same as store_certified, faster where both ends of all intervals are equal, as they are of almost all 16-bit data.
template <class T>
[[gnu::always_inline]] inline bool store_rounded(const Lanes<T, kLanes>& sums, T* to) {
#if defined(__x86_64__)
  if constexpr (kLanes == 8 && sizeof(T) == 2) {
    const __m512d value = (__m512d)sums.high;
    if (_mm512_cmp_pd_mask(value, (__m512d)-sums.negated_low, _CMP_EQ_OQ) != 0xff) return sums.store_certified(to);
    // Rounded to odd in float32, which has enough bits to spare for this to round correctly the second time.
    const __m256 cut = _mm512_cvt_roundpd_ps(value, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const Doubles<kLanes> widened = widen<kLanes>((typename Vectors<kLanes>::Float)cut);
    const __mmask8 inexact = _mm512_cmp_pd_mask((__m512d)widened, value, _CMP_NEQ_UQ);
    const __m256i word = _mm256_castps_si256(cut);
    const __m256i odd = _mm256_mask_or_epi32(word, inexact, word, _mm256_set1_epi32(1));
    if constexpr (std::is_same_v<T, Half>) {
      store_vector(to, _mm256_cvtps_ph(_mm256_castsi256_ps(odd), _MM_FROUND_TO_NEAREST_INT));
    } else {
      const __m256i even = _mm256_and_si256(_mm256_srli_epi32(odd, 16), _mm256_set1_epi32(1));
      const __m256i half = _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff));
      store_vector(to, _mm256_cvtepi32_epi16(_mm256_srli_epi32(_mm256_add_epi32(odd, half), 16)));
    }
    return true;
  }
#endif
  return sums.store_certified(to);
}

// Rounds the sums of `width` lanes and returns which of them could not be certified.
template <class T>
inline uint8_t store_sums(const Lanes<T, kLanes>& sums, T* out, int width) {
  if (width == kLanes && store_rounded<T>(sums, out)) return 0;
  unsigned failed = 0;
  for (int lane = 0; lane < width; ++lane) {
    if (!sums.certify_lane(lane, 1, out + lane)) failed |= 1u << lane;
  }
  return static_cast<uint8_t>(failed);
}

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

// The first `count` of kLanes elements; zeros behind them.
template <class T>
[[gnu::always_inline]] inline Doubles<kLanes> load_part(const T* from, int64_t count) {
#if defined(__x86_64__)
  if constexpr (kLanes == 8) {
    const __mmask8 mask = static_cast<__mmask8>((1u << count) - 1);
    if constexpr (sizeof(T) == 8) return (Doubles<kLanes>)_mm512_maskz_loadu_pd(mask, from);
    if constexpr (sizeof(T) == 4) {
      return widen<kLanes>((typename Vectors<kLanes>::Float)_mm256_maskz_loadu_ps(mask, from));
    }
  }
#endif
  T part[kLanes] = {};
  std::memcpy(part, from, sizeof(T) * static_cast<size_t>(count));
  return load<kLanes>(part);
}

template <class T, class Vector>
[[gnu::always_inline]] inline void store_part(T* to, Vector vector, int64_t count) {
#if defined(__x86_64__)
  if constexpr (kLanes == 8) {
    const __mmask8 mask = static_cast<__mmask8>((1u << count) - 1);
    if constexpr (sizeof(T) == 8) return _mm512_mask_storeu_epi64(to, mask, (__m512i)vector);
    if constexpr (sizeof(T) == 4) return _mm256_mask_storeu_epi32(to, mask, (__m256i)vector);
    if constexpr (sizeof(T) == 2) return _mm_mask_storeu_epi16(to, mask, (__m128i)vector);
  }
#endif
  std::memcpy(to, &vector, sizeof(T) * static_cast<size_t>(count));
}

// Streams behind the last repeat it, elements behind the end are 0: neither is stored.
template <class T>
[[gnu::always_inline]] inline void load_tile(const T* in, int64_t stride, int width, int64_t count,
                                             Doubles<kLanes> (&rows)[kLanes]) {
  const int64_t last = (width - 1) * stride;
  if (count >= kLanes) {
    for (int k = 0; k < kLanes; ++k) rows[k] = load<kLanes>(in + std::min(k * stride, last));
  } else {
    for (int k = 0; k < kLanes; ++k) rows[k] = load_part(in + std::min(k * stride, last), count);
  }
  transpose<kLanes / 2>(rows);
}

template <class T, class Vector>
[[gnu::always_inline]] inline void store_tile(Vector (&rows)[kLanes], T* out, int64_t stride, int width, int64_t count) {
  transpose<kLanes / 2>(rows);
  if (count >= kLanes && width == kLanes) {
    for (int k = 0; k < kLanes; ++k) store_vector(out + k * stride, rows[k]);
  } else {
    for (int k = 0; k < width; ++k) store_part(out + k * stride, rows[k], std::min<int64_t>(count, kLanes));
  }
}

// The state of one part of one stream; lanes behind the last stream repeat it.
template <class T>
inline double* state_of(double* states, const Streams<T>& streams, int lane, int part) {
  return states + (std::min(lane, streams.width - 1) * streams.parts + part) * kScanStates;
}

template <class T, int kParts>
inline bool scan_interval_streams(const Streams<T>& streams, double* states, uint8_t* flags, int64_t flag_stride) {
  using Vector = std::conditional_t<sizeof(T) == 4, typename Vectors<kLanes>::Word, typename Vectors<kLanes>::Short>;
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
    Doubles<kLanes> rows[kLanes];
    load_tile(streams.in + i, streams.stride, streams.width, count, rows);
    for (int k = 0; k < streams.width; ++k) flags[k * flag_stride + i / kLanes] = 0;
    Vector results[kLanes] = {};
#pragma GCC unroll 8
    for (int r = 0; r < kLanes; ++r, ++turn) {
      if (r >= count) break;
      Lanes<T, kLanes>& sum = sums[*turn];
      sum.add(rows[r]);
      T rounded[kLanes] = {};
      if (!store_rounded<T>(sum, rounded)) [[unlikely]] {
        for (int k = 0; k < streams.width; ++k) {
          if (sum.certify_lane(k, 1, rounded + k)) continue;
          flags[k * flag_stride + i / kLanes] |= static_cast<uint8_t>(1 << r);
          failed = true;
        }
      }
      results[r] = load_vector<Vector>(rounded);
    }
    store_tile(results, streams.out + i, streams.stride, streams.width, count);
  }
  for (int lane = 0; states != nullptr && lane < streams.width; ++lane) {
    for (int part = 0; part < turn.parts(); ++part) {
      state_of(states, streams, lane, part)[0] = sums[part].high[lane];
      state_of(states, streams, lane, part)[1] = sums[part].negated_low[lane];
    }
  }
  return failed;
}

// While error loses no bit, sum + error is the exact sum.
struct PairLanes {
  Doubles<kLanes> sum;
  Doubles<kLanes> error;

  void clear() {
    sum = broadcast<kLanes>(-0.0);
    error = Doubles<kLanes>{};
  }
  // Adds x and returns the sum, rounded once; `lost` collects what is lost, but for its sign.
  [[gnu::always_inline]] Doubles<kLanes> add(Doubles<kLanes> x, Ints<kLanes>* lost) {
    const Doubles<kLanes> rest = accumulate_two_sum<kLanes>(&sum, x);
    *lost |= (Ints<kLanes>)accumulate_two_sum<kLanes>(&error, rest);
    const Ints<kLanes> head = (Ints<kLanes>)sum;
    return (Doubles<kLanes>)(head == static_cast<int64_t>(kSignBit) ? head : (Ints<kLanes>)(sum + error));
  }
};

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

template <class T>
inline bool scan_columns(const T* in, T* out, int64_t length, int64_t stride, int width, uint8_t* flags) {
  if constexpr (std::is_same_v<T, double>) {
    PairLanes sums;
    sums.clear();
    Ints<kLanes> lost{};
    for (int64_t i = 0; i < length; ++i) {
      store_part(out + i * stride, sums.add(load_part(in + i * stride, width), &lost), width);
    }
    if (!any<kLanes>(lost & ~static_cast<int64_t>(kSignBit))) return false;
  }
  Lanes<T, kLanes> sums;
  sums.clear();
  unsigned failed = 0;
  for (int64_t i = 0; i < length; ++i, in += stride, out += stride) {
    sums.add(width == kLanes ? load<kLanes>(in) : load_part(in, width));
    failed |= flags[i] = store_sums<T>(sums, out, width);
  }
  return failed != 0;
}

template <class T, int kParts>
ScanKernels<T> kernels_for_parts() {
  return {kLanes, empty_state<T>, merge_state<T>, total_of_run<T, kParts>, scan_streams<T, kParts>, scan_columns<T>};
}

template <class T>
ScanKernels<T> scan_kernels(int parts) {
  return parts == 1 ? kernels_for_parts<T, 1>() : parts == 2 ? kernels_for_parts<T, 2>() : kernels_for_parts<T, 0>();
}
template ScanKernels<float> scan_kernels<float>(int);
template ScanKernels<double> scan_kernels<double>(int);
template ScanKernels<Half> scan_kernels<Half>(int);
template ScanKernels<BFloat16> scan_kernels<BFloat16>(int);
