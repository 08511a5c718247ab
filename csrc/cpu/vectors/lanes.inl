// Vectors of L doubles and what the kernels do with them: exact widening of the element types, filtered sums, certified
// rounding. Included once for every instruction set, inside the namespace of that set and under its target options; plain
// GCC vector extensions, with intrinsics only where they save much. Code for one set asks for kLanes: g++ reads all tokens
// before it obeys a target pragma, so macros such as __AVX512F__ do not tell.

template <int L>
struct Vectors {
  typedef double Double __attribute__((vector_size(8 * L)));
  typedef int64_t Int __attribute__((vector_size(8 * L)));
  typedef uint64_t Bits __attribute__((vector_size(8 * L)));
  typedef float Float __attribute__((vector_size(4 * L)));
  typedef uint32_t Word __attribute__((vector_size(4 * L)));
  typedef int32_t SignedWord __attribute__((vector_size(4 * L)));
  typedef uint16_t Short __attribute__((vector_size(2 * L)));
};

template <int L>
using Doubles = typename Vectors<L>::Double;
template <int L>
using Ints = typename Vectors<L>::Int;

// In one instruction where it matters: GCC 12 makes eight masked moves of the loop for eight lanes.
template <int L>
inline Doubles<L> broadcast(double x) {
#if defined(__x86_64__)
  if constexpr (L == 8) return (Doubles<L>)_mm512_set1_pd(x);
  if constexpr (L == 4) return (Doubles<L>)_mm256_set1_pd(x);
#endif
  Doubles<L> all;
  for (int lane = 0; lane < L; ++lane) all[lane] = x;
  return all;
}

template <class Vector, class X>
inline Vector load_vector(const X* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(Vector));
  return vector;
}

template <class Vector, class X>
inline void store_vector(X* to, Vector vector) {
  std::memcpy(to, &vector, sizeof(Vector));
}

template <int L>
inline bool any(Ints<L> mask) {
#if defined(__x86_64__)
  if constexpr (L == 8) return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
  if constexpr (L == 4) return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#endif
  int64_t seen = 0;
  for (int lane = 0; lane < L; ++lane) seen |= mask[lane];
  return seen != 0;
}

// Exact widening. GCC 12 splits the conversion of a whole vector in two, so the wide ones are named.
template <int L>
inline Doubles<L> widen(typename Vectors<L>::Float x) {
#if defined(__x86_64__)
  if constexpr (L == 8) return (Doubles<L>)_mm512_cvtps_pd((__m256)x);
  if constexpr (L == 4) return (Doubles<L>)_mm256_cvtps_pd((__m128)x);
#endif
  return __builtin_convertvector(x, Doubles<L>);
}

// As floats, which hold the 16-bit types exactly.
template <int L>
inline typename Vectors<L>::Float load_floats(const float* from) {
  return load_vector<typename Vectors<L>::Float>(from);
}

template <int L>
inline typename Vectors<L>::Float load_floats(const BFloat16* from) {
  using V = Vectors<L>;
#if defined(__x86_64__)
  // GCC 12 widens the halves of a vector one after the other.
  if constexpr (L == 8) return (typename V::Float)_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_vector<__m128i>(from)), 16);
  if constexpr (L == 4) return (typename V::Float)_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i*)from)), 16);
#endif
  return (typename V::Float)(__builtin_convertvector(load_vector<typename V::Short>(from), typename V::Word) << 16);
}

template <int L>
inline typename Vectors<L>::Float load_floats(const Half* from) {
  using V = Vectors<L>;
#if defined(__x86_64__)
  if constexpr (L == 8) return (typename V::Float)_mm256_cvtph_ps(load_vector<__m128i>(from));
  if constexpr (L == 4) return (typename V::Float)_mm_cvtph_ps(_mm_loadl_epi64((const __m128i*)from));
#endif
  const auto word = __builtin_convertvector(load_vector<typename V::Short>(from), typename V::Word);
  const auto magnitude = word & 0x7fff;
  // Subnormals are small integers times 2^-24; a product by a power of two is exact here.
  const auto integers = __builtin_convertvector((typename V::SignedWord)magnitude, typename V::Float);
  const auto small = (typename V::Word)(integers * 0x1p-24f);
  const auto normal = (magnitude << 13) + (112u << 23);
  const auto special = (magnitude << 13) + (224u << 23);
  const auto widened = magnitude < 0x0400u ? small : magnitude < 0x7c00u ? normal : special;
  return (typename V::Float)(widened | ((word & 0x8000u) << 16));
}

template <int L, class T>
inline Doubles<L> load(const T* from) {
  if constexpr (std::is_same_v<T, double>) {
    return load_vector<Doubles<L>>(from);
  } else {
    return widen<L>(load_floats<L>(from));
  }
}

// (re, im) becomes (im, re).
template <int L>
inline Doubles<L> swap_pairs(Doubles<L> x) {
  Doubles<L> swapped;
  for (int lane = 0; lane < L; ++lane) swapped[lane] = x[lane ^ 1];
  return swapped;
}

// Rounds to nearest even into the bits of T, by integers: the rounding mode of the thread does not matter. `plain` becomes
// false in lanes whose result would be subnormal; those are left to round_to.
template <class T, int L>
inline Ints<L> rounded_bits(Doubles<L> value, Ints<L>* plain) {
  using F = FloatFormat<T>;
  using D = FloatFormat<double>;
  constexpr int kDropped = D::kFractionBits - F::kFractionBits;
  constexpr int64_t kRebias = static_cast<int64_t>(D::kBias - F::kBias) << F::kFractionBits;
  constexpr int64_t kSmallestNormal = static_cast<int64_t>(D::kBias - F::kBias + 1) << D::kFractionBits;
  constexpr int64_t kInfinity = static_cast<int64_t>(F::kInfinity);
  const Ints<L> bits = (Ints<L>)value;
  const Ints<L> magnitude = bits & static_cast<int64_t>(~kSignBit);
  const Ints<L> sign = (Ints<L>)(((typename Vectors<L>::Bits)bits >> 63) << (F::kFractionBits + F::kExponentBits));
  Ints<L> rounded = ((magnitude + ((int64_t{1} << (kDropped - 1)) - 1) + ((magnitude >> kDropped) & 1)) >> kDropped) - kRebias;
  rounded = rounded > kInfinity ? Ints<L>{} + kInfinity : rounded;
  rounded = magnitude == 0 ? Ints<L>{} : rounded;
  *plain = (magnitude >= kSmallestNormal) | (magnitude == 0);
  return magnitude > static_cast<int64_t>(kInfinityBits) ? Ints<L>{} + static_cast<int64_t>(F::kQuietNaN) : rounded | sign;
}

template <class T, int L>
inline void store_bits(T* to, Ints<L> bits) {
  if constexpr (sizeof(T) == 4) {
    store_vector(to, __builtin_convertvector(bits, typename Vectors<L>::SignedWord));
  } else {
    store_vector(to, __builtin_convertvector(bits, typename Vectors<L>::Short));
  }
}

#if defined(__x86_64__)
// L lanes at the front of a register of AVX-512, which rounds as its instruction says. What is behind them is left open.
template <int L>
inline __m512d front(Doubles<L> x) {
  if constexpr (L == 8) return (__m512d)x;
  if constexpr (L == 4) return _mm512_castpd256_pd512((__m256d)x);
  if constexpr (L == 2) return _mm512_castpd128_pd512((__m128d)x);
}

template <int L>
inline __m256 nearest_floats(Doubles<L> x) {
  return _mm512_cvt_roundpd_ps(front<L>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// Of L floats, the quiet NaN where they are NaNs.
template <int L>
inline void store_floats(float* to, __m256 x) {
  const __mmask8 invalid = _mm256_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m256i nan = _mm256_set1_epi32(static_cast<int>(FloatFormat<float>::kQuietNaN));
  const __m256i bits = _mm256_mask_mov_epi32(_mm256_castps_si256(x), invalid, nan);
  if constexpr (L == 8) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bits);
  } else {
    _mm256_mask_storeu_epi32(to, (1 << L) - 1, bits);
  }
}
#endif

// a becomes a + b, and what the rounding lost is returned. Needs round-to-nearest.
template <int L>
inline Doubles<L> accumulate_two_sum(Doubles<L>* a, Doubles<L> b) {
  const Doubles<L> total = *a + b;
  const Doubles<L> b_part = total - *a;
  const Doubles<L> lost = (*a - (total - b_part)) + (b - b_part);
  *a = total;
  return lost;
}

// a * b + c, rounded once.
template <int L>
inline Doubles<L> fused(Doubles<L> a, Doubles<L> b, Doubles<L> c) {
#if defined(__x86_64__)
  if constexpr (L == 8) return (Doubles<L>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
  if constexpr (L == 4) return (Doubles<L>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
  if constexpr (L == 2 && kLanes > 2) return (Doubles<L>)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#endif
  Doubles<L> result;
  for (int lane = 0; lane < L; ++lane) result[lane] = __builtin_fma(a[lane], b[lane], c[lane]);
  return result;
}

// L interval sums of numerics/interval.h in round-up mode: `high` and, because rounding down is rounding up of the
// negative, `negated_low`. Empty is -0 in both, which no contribution leaves behind.
template <class T, int L>
struct IntervalLanes {
  static constexpr int kStates = 2;
  Doubles<L> high;
  Doubles<L> negated_low;

  void clear() { high = negated_low = broadcast<L>(-0.0); }
  void load_state(const double* from) {
    high = load_vector<Doubles<L>>(from);
    negated_low = load_vector<Doubles<L>>(from + L);
  }
  void store_state(double* to) const {
    store_vector(to, high);
    store_vector(to + L, negated_low);
  }
  void add(Doubles<L> x) {
    high = high + x;
    negated_low = negated_low - x;
  }
  void add_product(Doubles<L> w, Doubles<L> x) { add(w * x); }  // exact in fp64
  void merge(const IntervalLanes& other) {
    high = high + other.high;
    negated_low = negated_low + other.negated_low;
  }
  // Lanes that are not empty any more.
  Ints<L> touched() const {
    return ((Ints<L>)high != static_cast<int64_t>(kSignBit)) | ((Ints<L>)negated_low != static_cast<int64_t>(kSignBit));
  }
  void zero_where(Ints<L> mask) { high = (Doubles<L>)((Ints<L>)high & ~mask); }
  void divide(int64_t count) {
    const Doubles<L> divisor = broadcast<L>(static_cast<double>(count));
    high = high / divisor;
    negated_low = negated_low / divisor;
  }
  // Rounds and stores, if all lanes are certified.
  [[gnu::always_inline]] bool store_certified(T* to) const {
    const Doubles<L> low = -negated_low;
#if defined(__x86_64__)
    if constexpr (std::is_same_v<T, float> && kLanes == 8 && L > 1) {
      constexpr __mmask8 kAll = (1 << L) - 1;
      const __m256 upper = nearest_floats<L>(high);
      const __m256 lower = nearest_floats<L>(low);
      const __mmask8 invalid = _mm512_cmp_pd_mask(front<L>(high), front<L>(high), _CMP_UNORD_Q);
      const __mmask8 exact = _mm512_cmp_pd_mask(front<L>(high), front<L>(low), _CMP_EQ_OQ);
      const __mmask8 agree = _mm256_cmpeq_epi32_mask(_mm256_castps_si256(upper), _mm256_castps_si256(lower));
      if (((invalid | exact | agree) & kAll) != kAll) return false;
      store_floats<L>(to, upper);
      return true;
    }
#endif
    Ints<L> plain_high, plain_low;
    const Ints<L> upper = rounded_bits<T, L>(high, &plain_high);
    const Ints<L> lower = rounded_bits<T, L>(low, &plain_low);
    if (any<L>(~(plain_high & plain_low & ((upper == lower) | (high == low))))) return false;
    store_bits<T, L>(to, upper);
    return true;
  }
  bool store_certified_mean(Doubles<L> count, T* to) const {
    return IntervalLanes{high / count, negated_low / count}.store_certified(to);
  }
  // The same for one lane, with the mean already taken by divide().
  bool certify_lane(int lane, int64_t, T* result) const {
    return certify<T>(-negated_low[lane], high[lane], result);
  }
};

// L sums of numerics/double_double.h, in round-to-nearest mode. A product that may be inexact makes the residual infinite,
// which certifies nothing.
template <int L>
struct CompensatedLanes {
  static constexpr int kStates = 4;
  Doubles<L> sum;
  Doubles<L> error;
  Doubles<L> residual;
  Doubles<L> scaled;

  void clear() {
    sum = error = scaled = broadcast<L>(-0.0);
    residual = Doubles<L>{};
  }
  void load_state(const double* from) {
    sum = load_vector<Doubles<L>>(from);
    error = load_vector<Doubles<L>>(from + L);
    residual = load_vector<Doubles<L>>(from + 2 * L);
    scaled = load_vector<Doubles<L>>(from + 3 * L);
  }
  void store_state(double* to) const {
    store_vector(to, sum);
    store_vector(to + L, error);
    store_vector(to + 2 * L, residual);
    store_vector(to + 3 * L, scaled);
  }
  static Doubles<L> absolute(Doubles<L> x) { return (Doubles<L>)((Ints<L>)x & static_cast<int64_t>(~kSignBit)); }

  void add_error(Doubles<L> x) { residual = residual + absolute(accumulate_two_sum<L>(&error, x)); }
  void add_term(Doubles<L> x) { add_error(accumulate_two_sum<L>(&sum, x)); }
  void add(Doubles<L> x) {
    add_term(x);
    scaled = scaled + x * CompensatedSum::kScale;
  }
  void add_product(Doubles<L> w, Doubles<L> x) {
    const Doubles<L> product = w * x;
    const Doubles<L> infinity = broadcast<L>(HUGE_VAL);
    const Ints<L> overflow = ~(absolute(product) < infinity) & (absolute(w) < infinity) & (absolute(x) < infinity);
    const Ints<L> tiny = (absolute(product) < CompensatedSum::kSmallestExactProduct) & (w != 0.0) & (x != 0.0);
    add_term(product);
    add_error(fused<L>(w, x, -product));
    residual = residual + (Doubles<L>)((Ints<L>)infinity & (overflow | tiny));
    scaled = scaled + (Doubles<L>)((Ints<L>)(product * CompensatedSum::kScale) & ~overflow);
  }
  void merge(const CompensatedLanes& other) {
    add_term(other.sum);
    add_error(other.error);
    residual = residual + other.residual;
    scaled = scaled + other.scaled;
  }
  // An error of -0 is a mark: no addition leaves it behind.
  Ints<L> touched() const { return (Ints<L>)error != static_cast<int64_t>(kSignBit); }
  void zero_where(Ints<L> mask) { sum = (Doubles<L>)((Ints<L>)sum & ~mask); }
  void divide(int64_t) {}
  // Conservative: the ends are pushed apart by more than the rounding of these few operations can take back.
  bool store_certified(double* to) const {
    Doubles<L> head = sum;
    const Doubles<L> tail = accumulate_two_sum<L>(&head, error);
    const Ints<L> lossy = residual != 0.0;
    const Doubles<L> slack = 2.0 * residual * (1.0 + 0x1p-49) + (absolute(tail) * 0x1p-51 + 0x1p-1072);
    const Doubles<L> margin = (Doubles<L>)((Ints<L>)slack & lossy);
    const Doubles<L> upper = head + (tail + margin);
    const Doubles<L> lower = head + (tail - margin);
    const Ints<L> usable = (absolute(tail) < HUGE_VAL) & (residual < 0x1p1000);
    return store(upper, usable & (upper == lower), to);
  }
  // The mean likewise: what the division leaves over is exact, unless the quotient is very small.
  bool store_certified_mean(Doubles<L> count, double* to) const {
    Doubles<L> head = sum;
    const Doubles<L> tail = accumulate_two_sum<L>(&head, error);
    const Doubles<L> quotient = head / count;
    Doubles<L> rest = fused<L>(-quotient, count, head);
    Doubles<L> lost = absolute(accumulate_two_sum<L>(&rest, tail));
    const Doubles<L> correction = rest / count;
    lost = lost + absolute(fused<L>(-correction, count, rest));
    // What is lost may be nothing, as in a tie of two numbers. Else the rounding of the last few operations is covered too.
    const Doubles<L> slack = (lost + 2.0 * residual) * (1.0 + 0x1p-48) / count + (absolute(correction) * 0x1p-51 + 0x1p-1060);
    const Doubles<L> margin = (Doubles<L>)((Ints<L>)slack & ((lost != 0.0) | (residual != 0.0)));
    const Doubles<L> upper = quotient + (correction + margin);
    const Doubles<L> lower = quotient + (correction - margin);
    const Ints<L> exact_zero = (head == 0.0) & (tail == 0.0) & (residual == 0.0);
    const Ints<L> usable = (absolute(quotient) > 0x1p-800) & (absolute(head) < 0x1p1000) & (residual < 0x1p1000);
    return store(upper, exact_zero | (usable & (upper == lower)), to);
  }
  bool certify_lane(int lane, int64_t count, double* result) const {
    const CompensatedSum one{sum[lane], error[lane], residual[lane], scaled[lane]};
    return count == 1 ? one.certify(result) : one.certify_mean(count, result);
  }

 private:
  // Stores `value`, with the contract's zeros and what is not finite, if every lane is certified or not finite.
  bool store(Doubles<L> value, Ints<L> certified, double* to) const {
    const Ints<L> special = ~(absolute(scaled) < HUGE_VAL);
    if (any<L>(~(special | certified))) return false;
    const Ints<L> nan = Ints<L>{} + static_cast<int64_t>(FloatFormat<double>::kQuietNaN);
    const Ints<L> zero = (Ints<L>)sum == static_cast<int64_t>(kSignBit) ? (Ints<L>)sum : Ints<L>{};
    Ints<L> result = value == 0.0 ? zero : (Ints<L>)value;
    result = special ? (scaled != scaled ? nan : (Ints<L>)scaled) : result;
    store_vector(to, result);
    return true;
  }
};

template <class T, int L>
struct LanesOf {
  using type = IntervalLanes<T, L>;
};
template <int L>
struct LanesOf<double, L> {
  using type = CompensatedLanes<L>;
};
template <class T, int L>
using Lanes = typename LanesOf<T, L>::type;
