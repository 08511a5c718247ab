// Sums of bags whose rows have one column; included per instruction set by bags.inl.
//
// One number fills no vector, but the numbers of a bag do. The terms of a chunk of bags, products with their weights, are written
// one behind the other into the first-level cache; a bag adds up its own by whole vectors, in whatever lanes they are; and
// neighbouring lanes of neighbouring bags are added until one vector has the sums of a group of bags, which are rounded together.
// Any order and split of the terms is allowed: ends enclose, and pairs of doubles tell what they lose.

constexpr int64_t kChunkTerms = 1 << 10;

// Bits set in the first `count` lanes.
inline Ints<kLanes> front_lanes(int64_t count) {
  struct Masks {
    int64_t lanes[2 * kLanes];
  };
  static constexpr Masks kMasks = [] {
    Masks masks{};
    for (int lane = 0; lane < kLanes; ++lane) masks.lanes[lane] = -1;
    return masks;
  }();
  return load_vector<Ints<kLanes>>(kMasks.lanes + kLanes - std::clamp<int64_t>(count, 0, kLanes));
}

// The even, or odd, ones of the lanes that two vectors have one after the other.
template <int kOdd, size_t... kLane>
[[gnu::always_inline]] inline Doubles<kLanes> alternate_lanes(Doubles<kLanes> a, Doubles<kLanes> b,
                                                              std::index_sequence<kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane + kOdd)...);
}

// Lanes of some kind of sum, which `parts` are all of: each takes in terms and what their products left below.
struct EnclosedTerms {
  Doubles<kLanes> parts[2];  // as IntervalLanes have them, in round-up mode

  static EnclosedTerms of(Doubles<kLanes> term, Doubles<kLanes>) { return {{term, -term}}; }
  void add(Doubles<kLanes> term, Doubles<kLanes>) {
    parts[0] = parts[0] + term;
    parts[1] = parts[1] - term;
  }
  void merge(const EnclosedTerms& other) {
    parts[0] = parts[0] + other.parts[0];
    parts[1] = parts[1] + other.parts[1];
  }
};

// Of float64, in round-to-nearest mode: sum, error and, of careful ones, residual as CompensatedLanes have them. Others add up
// errors plainly and, in place of the residual, their magnitudes: every such step loses at most half a unit of that in all.
template <bool kCareful, bool kHasLows>
struct PairedTerms {
  Doubles<kLanes> parts[3];

  static Doubles<kLanes> absolute(Doubles<kLanes> x) { return CompensatedLanes<kLanes>::absolute(x); }

  static PairedTerms of(Doubles<kLanes> term, Doubles<kLanes> low) {
    return {{term, low, kCareful ? Doubles<kLanes>{} : absolute(low)}};
  }
  void add_error(Doubles<kLanes> error, Doubles<kLanes> bound) {
    if constexpr (kCareful) {
      parts[2] = parts[2] + absolute(accumulate_two_sum<kLanes>(&parts[1], error));
    } else {
      parts[1] = parts[1] + error;
      parts[2] = parts[2] + bound;
    }
  }
  void add(Doubles<kLanes> term, Doubles<kLanes> low) {
    const Doubles<kLanes> lost = accumulate_two_sum<kLanes>(&parts[0], term);
    if constexpr (kCareful && kHasLows) add_error(low, low);
    const Doubles<kLanes> error = kCareful || !kHasLows ? lost : lost + low;
    add_error(error, absolute(error));
  }
  void merge(const PairedTerms& other) {
    const Doubles<kLanes> lost = accumulate_two_sum<kLanes>(&parts[0], other.parts[0]);
    add_error(lost, absolute(lost));
    add_error(other.parts[1], other.parts[2]);
    if constexpr (kCareful) parts[2] = parts[2] + other.parts[2];
  }
};

// All bags of a block.
template <class T, BagWeights kWeights>
class SingleColumn {
 public:
  explicit SingleColumn(const BagBlock<T>& block) : block_(block) {}

  void sum() {
    for (int64_t bag = 0; bag < block_.num_bags;) {
      const int64_t first = block_.offsets[bag];
      int64_t end = bag;
      while (end + kLanes <= block_.num_bags && block_.offsets[end + kLanes] - first <= kChunkTerms) end += kLanes;
      underflows_ = false;
      if (end > bag) {
        fill(first, block_.offsets[end] - first);
        for (; bag < end; bag += kLanes) sum_group(Filled{*this, block_.offsets + bag, first}, bag, kLanes);
        continue;
      }
      // Bags longer than that, or the last few, behind which there are empty ones.
      const int64_t num_bags = std::min<int64_t>(kLanes, block_.num_bags - bag);
      int64_t offsets[kLanes + 1];
      for (int g = 0; g <= kLanes; ++g) offsets[g] = block_.offsets[bag + std::min<int64_t>(g, num_bags)];
      sum_group(Streamed{*this, offsets}, bag, num_bags);
      bag += num_bags;
    }
  }

 private:
  static constexpr bool kIsWide = std::is_same_v<T, double>;
  static constexpr bool kHasLows = kIsWide && kWeights != BagWeights::kNone;
  static constexpr int64_t kRoom = kChunkTerms + 2 * kLanes;  // vectors are read and written whole

  // Bags whose terms are there.
  struct Filled {
    SingleColumn& column;
    const int64_t* offsets;
    int64_t first;

    template <class Sum>
    [[gnu::always_inline]] Sum sum(int g) const {
      return column.template sum_terms<Sum>(offsets[g] - first, offsets[g + 1] - offsets[g]);
    }
  };

  // Bags whose terms take the room one piece after the other.
  struct Streamed {
    SingleColumn& column;
    const int64_t* offsets;

    template <class Sum>
    [[gnu::noinline]] Sum sum(int g) const {
      Sum sum = column.template sum_terms<Sum>(0, 0);
      for (int64_t first = offsets[g]; first < offsets[g + 1]; first += kChunkTerms) {
        const int64_t count = std::min(kChunkTerms, offsets[g + 1] - first);
        column.fill(first, count);
        sum.merge(column.template sum_terms<Sum>(0, count));
      }
      return sum;
    }
  };

  template <class Weight>
  [[gnu::always_inline]] void put(int64_t at, const Weight* weights, Ints<kLanes>* small) {
    const Doubles<kLanes> x = load<kLanes>(numbers_ + at);
    if constexpr (kWeights == BagWeights::kNone) {
      store_vector(terms_ + at, x);
    } else {
      const Doubles<kLanes> w = load<kLanes>(weights);
      const Doubles<kLanes> product = w * x;
      store_vector(terms_ + at, product);
      if constexpr (kHasLows) {
        store_vector(lows_ + at, fused<kLanes>(w, x, -product));
        *small |= CompensatedLanes<kLanes>::absolute(product) < CompensatedSum::kSmallestExactProduct;
      }
    }
  }

  auto weights(int64_t position) const {
    if constexpr (kWeights == BagWeights::kNone) return block_.table;
    if constexpr (kWeights == BagWeights::kNarrow) return block_.weights + position;
    if constexpr (kWeights == BagWeights::kWide) return block_.wide_weights + position;
  }

  // The terms of `count` positions from `first` on.
  void fill(int64_t first, int64_t count) {
    const int64_t* const rows = block_.rows + first;
    const auto* const factors = weights(first);
    for (int64_t i = 0; i < count; ++i) numbers_[i] = block_.table[rows[i]];
    Ints<kLanes> small{};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) put(i, factors + (kWeights == BagWeights::kNone ? 0 : i), &small);
    if (i < count) {
      // What is behind the last is one of them again, so that nothing is small but them.
      std::remove_cvref_t<decltype(*factors)> rest[kLanes] = {};
      if constexpr (kWeights != BagWeights::kNone) {
        std::fill_n(rest, kLanes, factors[i]);
        std::copy(factors + i, factors + count, rest);
      }
      std::fill_n(numbers_ + count, i + kLanes - count, numbers_[i]);
      put(i, rest, &small);
    }
    if constexpr (kHasLows) {
      if (any<kLanes>(small)) [[unlikely]] underflows_ |= loses_bits(first, count);
    }
  }

  // Whether a product may have bits below the smallest number: a zero has not, if it is one.
  [[gnu::noinline]] bool loses_bits(int64_t first, int64_t count) const {
    bool loses = false;
    for (int64_t position = first; position < first + count; ++position) {
      const double w = to_double(*weights(position));
      const double x = to_double(block_.table[block_.rows[position]]);
      loses |= !is_zero(w) && !is_zero(x) && magnitude(w * x) < CompensatedSum::kSmallestExactProduct;
    }
    return loses;
  }

  template <class Sum>
  [[gnu::always_inline]] Sum sum_terms(int64_t at, int64_t count) const {
    const auto term = [&](int64_t i, Ints<kLanes> mask) __attribute__((always_inline)) {  // -0 where there is none
      const Ints<kLanes> bits = load_vector<Ints<kLanes>>(terms_ + at + i);
      return (Doubles<kLanes>)((bits & mask) | (~mask & static_cast<int64_t>(kSignBit)));
    };
    const auto low = [&](int64_t i, Ints<kLanes> mask) __attribute__((always_inline)) {
      if constexpr (!kHasLows) return Doubles<kLanes>{};
      return (Doubles<kLanes>)(load_vector<Ints<kLanes>>(lows_ + (kHasLows ? at + i : 0)) & mask);
    };
    const auto add = [&](Sum* sum, int64_t i) __attribute__((always_inline)) {
      const Ints<kLanes> mask = front_lanes(count - i);
      sum->add(term(i, mask), low(i, mask));
    };
    const Ints<kLanes> mask = front_lanes(count);
    Sum sum = Sum::of(term(0, mask), low(0, mask));
    add(&sum, kLanes);  // most bags are that short
    for (int64_t i = 2 * kLanes; i < count; i += kLanes) add(&sum, i);
    return sum;
  }

  // Halves what N bags have, until each has one lane.
  template <class Sum, int N, class Bags>
  [[gnu::always_inline]] static Sum folded(const Bags& bags, int g) {
    if constexpr (N == 1) {
      return bags.template sum<Sum>(g);
    } else {
      constexpr auto kAll = std::make_index_sequence<kLanes>{};
      const Sum a = folded<Sum, N / 2>(bags, g);
      const Sum b = folded<Sum, N / 2>(bags, g + N / 2);
      Sum even, odd;
      constexpr int kParts = sizeof(even.parts) / sizeof(even.parts[0]);
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) {
        even.parts[i] = alternate_lanes<0>(a.parts[i], b.parts[i], kAll);
        odd.parts[i] = alternate_lanes<1>(a.parts[i], b.parts[i], kAll);
      }
      even.merge(odd);
      return even;
    }
  }

  template <class Bags>
  [[gnu::always_inline]] void sum_group(const Bags& bags, int64_t bag, int64_t num_bags) {
    const int64_t* const offsets = bags.offsets;
    const Ints<kLanes> sizes = load_vector<Ints<kLanes>>(offsets + 1) - load_vector<Ints<kLanes>>(offsets);
    T rounded[kLanes];
    T* const to = num_bags == kLanes ? block_.out + bag : rounded;
    bool decided;
    if constexpr (kIsWide) {
      const int64_t count = offsets[kLanes] - offsets[0];
      decided = round_pairs(folded<PairedTerms<false, kHasLows>, kLanes>(bags, 0), sizes, count, to) ||
                round_carefully(bags, sizes, count, to);
    } else {
      const EnclosedTerms sum = folded<EnclosedTerms, kLanes>(bags, 0);
      decided = round_enclosed(sum, sizes, to);
      if (!decided) {  // for finish()
        put_ends(sum.parts[0], block_.high + bag, num_bags);
        put_ends(sum.parts[1], block_.negated_low + bag, num_bags);
      }
    }
    if (!decided) std::fill_n(block_.undecided + bag, num_bags, true);
    if (to == rounded) std::copy_n(rounded, num_bags, block_.out + bag);
  }

  static void put_ends(Doubles<kLanes> ends, double* to, int64_t num_bags) {
    double each[kLanes];
    store_vector(each, ends);
    std::copy_n(each, num_bags, to);
  }

  static Doubles<kLanes> divisors(Ints<kLanes> sizes) {
    return __builtin_convertvector(sizes == 0 ? Ints<kLanes>{} + 1 : sizes, Doubles<kLanes>);
  }

  [[gnu::always_inline]] bool round_enclosed(const EnclosedTerms& sum, Ints<kLanes> sizes, T* to) const {
    IntervalLanes<T, kLanes> ends{sum.parts[0], sum.parts[1]};
    ends.zero_where(sizes == 0);
    return block_.mean ? ends.store_certified_mean(divisors(sizes), to) : ends.store_certified(to);
  }

  // `count`: how many rows all bags have that these are sums of.
  template <bool kCareful>
  [[gnu::always_inline]] bool round_pairs(const PairedTerms<kCareful, kHasLows>& sum, Ints<kLanes> sizes, int64_t count,
                                          T* to) const {
    const double terms = static_cast<double>(2 * count + 4 * kLanes);  // more than a sum has plain additions
    const Doubles<kLanes> lost = kCareful ? sum.parts[2] : sum.parts[2] * (terms * 0x1.01p-53);
    const double least = underflows_ ? terms * 0x1p-1074 : 0.0;
    // Whatever is not finite leaves a residual that is not.
    CompensatedLanes<kLanes> rest{sum.parts[0], sum.parts[1], lost + least, Doubles<kLanes>{}};
    rest.zero_where(sizes == 0);
    return block_.mean ? rest.store_certified_mean(divisors(sizes), to) : rest.store_certified(to);
  }

  template <class Bags>
  [[gnu::noinline]] bool round_carefully(const Bags& bags, Ints<kLanes> sizes, int64_t count, T* to) const {
    return round_pairs(folded<PairedTerms<true, kHasLows>, kLanes>(bags, 0), sizes, count, to);
  }

  const BagBlock<T>& block_;
  bool underflows_ = false;  // whether a low half may be inexact
  alignas(64) double terms_[kRoom];
  alignas(64) double lows_[kHasLows ? kRoom : kLanes];
  alignas(64) T numbers_[kChunkTerms + kLanes];  // of the table
};

template <class T>
void sum_single_column(const BagBlock<T>& block) {
  if (block.weights != nullptr) return SingleColumn<T, BagWeights::kNarrow>(block).sum();
  if (block.wide_weights != nullptr) return SingleColumn<T, BagWeights::kWide>(block).sum();
  SingleColumn<T, BagWeights::kNone>(block).sum();
}
