// Running sums of the filter for prefix sums: their states, their rounding by vectors. Included once for every instruction
// set, after lanes.inl.

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

// accumulate_two_sum, of which half the differences are fused with a product by 1: the same bits, and the units that add share
// the work with those that multiply.
template <int L>
[[gnu::always_inline]] inline Doubles<L> balanced_two_sum(Doubles<L>* a, Doubles<L> b) {
  if constexpr (L == 2) {  // without the instruction
    return accumulate_two_sum<L>(a, b);
  } else {
    const Doubles<L> minus_one = broadcast<L>(-1.0);
    const Doubles<L> total = *a + b;
    const Doubles<L> b_part = fused<L>(*a, minus_one, total);
    const Doubles<L> a_lost = fused<L>(total - b_part, minus_one, *a);
    const Doubles<L> lost = a_lost + fused<L>(b_part, minus_one, b);
    *a = total;
    return lost;
  }
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
    const Doubles<kLanes> rest = balanced_two_sum<kLanes>(&sum, x);
    *lost |= (Ints<kLanes>)balanced_two_sum<kLanes>(&error, rest);
    const Ints<kLanes> head = (Ints<kLanes>)sum;
    return (Doubles<kLanes>)(head == static_cast<int64_t>(kSignBit) ? head : (Ints<kLanes>)(sum + error));
  }
};

template <class T, int kParts>
inline void pairs_of_run(const T* in, int64_t length, int parts, PairSum* sums) {
  Turn<kParts> turn(parts);
  PairLanes all[turn.kMost];
  Ints<kLanes> lost{};
  for (auto& one : all) one.clear();
  int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes, ++turn) all[*turn].add(load<kLanes>(in + i), &lost);
  for (int vector = 0; vector < turn.parts(); ++vector) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t lane_lost = static_cast<uint64_t>(lost[lane]) & ~kSignBit;
      sums[(vector * kLanes + lane) % turn.parts()].merge({all[vector].sum[lane], all[vector].error[lane], lane_lost});
    }
  }
  for (; i < length; ++i) sums[i % turn.parts()].add(to_double(in[i]));
}

#if defined(__x86_64__)
// Rounds to nearest even by way of float32, which has enough bits to spare: rounded to odd there, it rounds correctly the
// second time. No flag is raised. Not for what may be a NaN.
template <class T, int L>
[[gnu::always_inline]] inline __m128i round_16_bits(Doubles<L> x) {
  constexpr int kQuietly = _MM_FROUND_NO_EXC;
  const __m256 cut = _mm512_cvt_roundpd_ps((__m512d)x, _MM_FROUND_TO_ZERO | kQuietly);
  const Doubles<L> widened = widen<L>((typename Vectors<L>::Float)cut);
  const __mmask8 inexact = _mm512_cmp_pd_mask((__m512d)widened, (__m512d)x, _CMP_NEQ_UQ);
  const __m256i word = _mm256_castps_si256(cut);
  const __m256i odd = _mm256_mask_or_epi32(word, inexact, word, _mm256_set1_epi32(1));
  if constexpr (std::is_same_v<T, Half>) {
    const __m512 wide = _mm512_castps256_ps512(_mm256_castsi256_ps(odd));
    return _mm256_castsi256_si128(_mm512_cvt_roundps_ph(wide, _MM_FROUND_TO_NEAREST_INT | kQuietly));
  } else {
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(odd, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff));
    return _mm256_cvtepi32_epi16(_mm256_srli_epi32(_mm256_add_epi32(odd, half), 16));
  }
}
#endif

// The same as store_certified, faster where both ends of all intervals are equal, as they are of almost all 16-bit data.
template <class T, int L = kLanes>  // a parameter: what is not compiled for another L is not looked at either
[[gnu::always_inline]] inline bool store_rounded(const Lanes<T, L>& sums, T* to) {
#if defined(__x86_64__)
  if constexpr (L == 8 && sizeof(T) == 2) {
    const __m512d value = (__m512d)sums.high;
    if (_mm512_cmp_pd_mask(value, (__m512d)-sums.negated_low, _CMP_EQ_OQ) != 0xff) return sums.store_certified(to);
    store_vector(to, round_16_bits<T, L>(sums.high));
    return true;
  }
#endif
  return sums.store_certified(to);
}
