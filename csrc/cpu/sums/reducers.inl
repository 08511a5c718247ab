// Lanes of the reductions other than plain sums, with the interface of the sums in lanes.inl: included after it, once per
// instruction set. A family names the lanes of each element type, and whether they settle every result themselves.

template <>
struct Vectors<1> {
  typedef double Double __attribute__((vector_size(8)));
  typedef int64_t Int __attribute__((vector_size(8)));
  typedef uint64_t Bits __attribute__((vector_size(8)));
};

// L values as doubles, also one.
template <int L, class T>
inline Doubles<L> load_lanes(const T* from) {
  if constexpr (L == 1) {
    return Doubles<1>{to_double(*from)};
  } else {
    return load<L>(from);
  }
}

template <int L>
inline Doubles<L> absolute(Doubles<L> x) {
  return (Doubles<L>)((Ints<L>)x & static_cast<int64_t>(~kSignBit));
}

template <int L>
inline Ints<L> sign_bits(Doubles<L> x) {
  return (Ints<L>)((typename Vectors<L>::Bits)x >> 63);
}

// Stores the lanes, if certify(lane, result) vouches for all of them.
template <int L, class T, class Certify>
inline bool store_each_certified(T* to, Certify&& certify) {
  T results[L];
  for (int lane = 0; lane < L; ++lane) {
    if (!certify(lane, &results[lane])) return false;
  }
  std::memcpy(to, results, sizeof(results));
  return true;
}

// The largest or the smallest: one integer a lane, in whose order doubles stand with -0 below +0 and NaN at the end that
// wins. Nothing but `clear` leaves the least integer.
template <class T, int L, bool kSmallest>
struct ExtremeLanes {
  static constexpr int kStates = 1;
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kNaN = std::numeric_limits<int64_t>::max();
  Ints<L> key;

  void clear() { key = Ints<L>{} + kNothing; }
  void load_state(const double* from) { key = load_vector<Ints<L>>(from); }
  void store_state(double* to) const { store_vector(to, key); }
  void add(Doubles<L> x) {
    const Ints<L> bits = (Ints<L>)x ^ (kSmallest ? static_cast<int64_t>(kSignBit) : 0);
    take((x != x) ? Ints<L>{} + kNaN : ordered(bits));
  }
  void merge(const ExtremeLanes& other) { take(other.key); }
  Ints<L> touched() const { return key != kNothing; }
  void divide(int64_t) {}
  bool store_certified(T* to) const {
    const Ints<L> bits = result_bits();
    if constexpr (std::is_same_v<T, double>) {
      store_vector(to, bits);
      return true;
    } else if constexpr (L == 1) {
      return certify_lane(0, 1, to);
    } else {
      Ints<L> plain;
      const Ints<L> rounded = rounded_bits<T, L>((Doubles<L>)bits, &plain);
      if (any<L>(~plain)) return false;  // subnormal, of which certify_lane takes care
      store_bits<T, L>(to, rounded);
      return true;
    }
  }
  bool certify_lane(int lane, int64_t, T* result) const {
    *result = round_to<T>(from_bits<double>(static_cast<uint64_t>(result_bits()[lane])));
    return true;
  }

 private:
  // Its own inverse.
  static Ints<L> ordered(Ints<L> bits) { return bits ^ ((bits >> 63) & std::numeric_limits<int64_t>::max()); }
  void take(Ints<L> other) { key = other > key ? other : key; }
  Ints<L> result_bits() const {
    const Ints<L> bits = ordered(key) ^ (kSmallest ? static_cast<int64_t>(kSignBit) : 0);
    return key == kNaN ? Ints<L>{} + static_cast<int64_t>(FloatFormat<double>::kQuietNaN) : bits;
  }
};

// ProductInterval of numerics/product.h, in round-up mode: `high` and the negative of `low`.
template <class T, int L>
struct ProductIntervalLanes {
  static constexpr int kStates = 3;
  Doubles<L> high;
  Doubles<L> negated_low;
  Ints<L> tail;

  void clear() {
    high = broadcast<L>(1.0);
    negated_low = broadcast<L>(-1.0);
    tail = Ints<L>{};
  }
  void load_state(const double* from) {
    high = load_vector<Doubles<L>>(from);
    negated_low = load_vector<Doubles<L>>(from + L);
    tail = load_vector<Ints<L>>(from + 2 * L);
  }
  void store_state(double* to) const {
    store_vector(to, high);
    store_vector(to + L, negated_low);
    store_vector(to + 2 * L, tail);
  }
  void add(Doubles<L> x) {
    tail = (tail ^ sign_bits<L>(x)) | ProductTail::kTouched;
    const Doubles<L> size = absolute<L>(x);
    high = high * size;
    negated_low = negated_low * size;
    if constexpr (L == 1) {  // what is rare behind one branch
      const double top = high[0];
      if (top < ProductTail::kLimit && top >= 1.0 / ProductTail::kLimit) [[likely]] return;
    }
    rescale();
  }
  void merge(const ProductIntervalLanes& other) {
    constexpr int64_t kFlags = ProductTail::kFlags;
    tail = ((tail ^ other.tail) & 1) | ((tail | other.tail) & ProductTail::kTouched) |
           ((tail & ~kFlags) + (other.tail & ~kFlags));
    high = high * other.high;
    negated_low = negated_low * -other.negated_low;
    rescale();
  }
  Ints<L> touched() const { return (tail & ProductTail::kTouched) != 0; }
  void divide(int64_t) {}
  bool store_certified(T* to) const {
    if constexpr (L > 1) {
      // Where nothing was rescaled, this is an interval like any other; that of a negative product is turned round.
      if (!any<L>((tail & ~ProductTail::kFlags) != 0)) {
        const Ints<L> negative = (tail & 1) != 0;
        const IntervalLanes<T, L> ends{negative ? negated_low : high, negative ? high : negated_low};
        if (ends.store_certified(to)) return true;
      }
    }
    return store_each_certified<L>(to, [&](int lane, T* result) { return certify_lane(lane, 1, result); });
  }
  bool certify_lane(int lane, int64_t, T* result) const {
    return certify_product<T>(tail[lane], -negated_low[lane], high[lane], result);
  }

 private:
  void rescale() {
    const Ints<L> big = (high >= ProductTail::kLimit) & (high < HUGE_VAL);
    const Ints<L> small = (high < 1.0 / ProductTail::kLimit) & (high != 0.0);
    if (!any<L>(big | small)) [[likely]] return;
    constexpr int64_t kStep = int64_t{ProductTail::kLimitExponent} << ProductTail::kExponentShift;
    const Doubles<L> one = broadcast<L>(1.0);
    const Doubles<L> factor = big ? one * (1.0 / ProductTail::kLimit) : small ? one * ProductTail::kLimit : one;
    high = high * factor;
    negated_low = negated_low * factor;
    tail = tail + (big & kStep) - (small & kStep);
  }
};

// CompensatedProduct of numerics/product.h, in round-to-nearest mode.
template <int L>
struct CompensatedProductLanes {
  static constexpr int kStates = 4;
  static constexpr double kNear = CompensatedProduct::kNear;
  static constexpr double kLimit = CompensatedProduct::kLimit;
  Doubles<L> head;
  Doubles<L> rest;
  Ints<L> scale;
  Doubles<L> inexact;

  void clear() {
    head = broadcast<L>(1.0);
    rest = Doubles<L>{};
    scale = Ints<L>{};
    inexact = broadcast<L>(CompensatedProduct::kUntouched);
  }
  void load_state(const double* from) {
    head = load_vector<Doubles<L>>(from);
    rest = load_vector<Doubles<L>>(from + L);
    scale = load_vector<Ints<L>>(from + 2 * L);
    inexact = load_vector<Doubles<L>>(from + 3 * L);
  }
  void store_state(double* to) const {
    store_vector(to, head);
    store_vector(to + L, rest);
    store_vector(to + 2 * L, scale);
    store_vector(to + 3 * L, inexact);
  }
  // Not within [1 / limit, limit] in magnitude.
  static Ints<L> is_outside(Doubles<L> x, double limit) {
    using Bits = typename Vectors<L>::Bits;
    const uint64_t least = bits_of(1.0 / limit);
    return (Ints<L>)(((Bits)absolute<L>(x) - least) > bits_of(limit) - least);
  }
  [[gnu::always_inline]] void add(Doubles<L> x) {
    if (any<L>(is_outside(x, kNear))) [[unlikely]] x = split(x);
    const Doubles<L> product = head * x;
    const Doubles<L> low = fused<L>(rest, x, fused<L>(head, x, -product));
    inexact = inexact + (Doubles<L>)((Ints<L>)broadcast<L>(2.0) & (rest != 0.0));
    head = product + low;
    rest = low - (head - product);
    if (any<L>(is_outside(product, kLimit))) [[unlikely]] rescale(product);
  }
  void merge(const CompensatedProductLanes& other) {
    for (int lane = 0; lane < L; ++lane) {
      CompensatedProduct one = lane_of(lane);
      one.merge(other.lane_of(lane));
      set_lane(lane, one);
    }
  }
  Ints<L> touched() const { return (Ints<L>)inexact != static_cast<int64_t>(bits_of(CompensatedProduct::kUntouched)); }
  void divide(int64_t) {}
  bool store_certified(double* to) const {
    // Conservative, as the sums are: the ends are pushed apart by more than these few operations can lose. The power of two
    // goes into the exponent field, where it fits.
    const Doubles<L> slack = inexact * (absolute<L>(head) * 0x1p-102) + absolute<L>(rest) * 0x1p-51;
    const Doubles<L> margin = (Doubles<L>)((Ints<L>)slack & (inexact != 0.0));
    const Doubles<L> upper = head + (rest + margin);
    const Doubles<L> lower = head + (rest - margin);
    const Doubles<L> size = absolute<L>(upper);
    const Ints<L> field = ((Ints<L>)size >> 52) + scale;
    const Ints<L> plain = (upper == lower) & (size > 0.0) & (size < HUGE_VAL) & (field > 0) & (field < 0x7ff);
    if (!any<L>(~plain)) {
      store_vector(to, (Ints<L>)upper + (scale << 52));
      return true;
    }
    return store_each_certified<L>(to, [&](int lane, double* result) { return certify_lane(lane, 1, result); });
  }
  bool certify_lane(int lane, int64_t, double* result) const {
    return certify_product(scale[lane], head[lane], rest[lane], inexact[lane], result);
  }

 private:
  CompensatedProduct lane_of(int lane) const { return {head[lane], rest[lane], scale[lane], inexact[lane]}; }
  void set_lane(int lane, const CompensatedProduct& one) {
    head[lane] = one.head;
    rest[lane] = one.rest;
    scale[lane] = one.scale;
    inexact[lane] = one.inexact;
  }
  // split_factor.
  Doubles<L> split(Doubles<L> x) {
    constexpr int64_t kOne = 0x3ff0000000000000;
    constexpr int64_t kKept = static_cast<int64_t>(kSignBit | kFractionMask);
    const Ints<L> subnormal = absolute<L>(x) < 0x1p-1022;
    const Doubles<L> scaled = subnormal ? x * 0x1p54 : x;
    const Ints<L> field = (Ints<L>)absolute<L>(scaled) >> 52;
    const Ints<L> special = (field == 0) | (field == 0x7ff);
    scale = scale + ((field - 1023 - (subnormal & 54)) & ~special);
    return (Doubles<L>)(special ? (Ints<L>)scaled : ((Ints<L>)scaled & kKept) | kOne);
  }
  // Brings heads back into their range; what is 0 or not finite stays so.
  void rescale(Doubles<L> product) {
    constexpr int64_t kStep = CompensatedProduct::kLimitExponent;
    const Doubles<L> size = absolute<L>(product);
    const Ints<L> ordinary = (size < HUGE_VAL) & (size > 0.0);
    const Ints<L> big = (size > kLimit) & ordinary;
    const Ints<L> small = (size < 1.0 / kLimit) & ordinary;
    const Doubles<L> one = broadcast<L>(1.0);
    const Doubles<L> factor = big ? one * (1.0 / kLimit) : small ? one * kLimit : one;
    head = (ordinary ? head : product) * factor;
    rest = (Doubles<L>)((Ints<L>)rest & ordinary) * factor;
    scale = scale + (big & kStep) - (small & kStep);
  }
};

// A sum that counts its terms.
template <class T, int L>
struct MeanLanes {
  static constexpr int kStates = Lanes<T, L>::kStates + 1;
  Lanes<T, L> sum;
  Doubles<L> count;

  void clear() {
    sum.clear();
    count = Doubles<L>{};
  }
  void load_state(const double* from) {
    sum.load_state(from);
    count = load_vector<Doubles<L>>(from + L * Lanes<T, L>::kStates);
  }
  void store_state(double* to) const {
    sum.store_state(to);
    store_vector(to + L * Lanes<T, L>::kStates, count);
  }
  void add(Doubles<L> x) {
    sum.add(x);
    count = count + 1.0;
  }
  void merge(const MeanLanes& other) {
    sum.merge(other.sum);
    count = count + other.count;
  }
  Ints<L> touched() const { return count != 0.0; }
  bool store_certified(T* to) const {
    return sum.store_certified_mean(count > 1.0 ? count : broadcast<L>(1.0), to);
  }
  bool certify_lane(int lane, int64_t, T* result) const {
    const int64_t divisor = static_cast<int64_t>(count[lane]);
    Lanes<T, L> mean = sum;
    if (divisor > 1) mean.divide(divisor);
    return mean.certify_lane(lane, divisor, result);
  }
};

// kSettles: certify_lane never fails, so that no stage follows. kWeighted: contributions may have an alpha.
struct Summing {
  static constexpr bool kSettles = false;
  static constexpr bool kWeighted = true;
  template <class T, int L>
  using Of = Lanes<T, L>;
};
struct Averaging {
  static constexpr bool kSettles = false;
  static constexpr bool kWeighted = false;
  template <class T, int L>
  using Of = MeanLanes<T, L>;
};
struct Multiplying {
  static constexpr bool kSettles = false;
  static constexpr bool kWeighted = false;
  template <class T, int L>
  using Of = std::conditional_t<std::is_same_v<T, double>, CompensatedProductLanes<L>, ProductIntervalLanes<T, L>>;
};
template <bool kSmallest>
struct Extreme {
  static constexpr bool kSettles = true;
  static constexpr bool kWeighted = false;
  template <class T, int L>
  using Of = ExtremeLanes<T, L, kSmallest>;
};
