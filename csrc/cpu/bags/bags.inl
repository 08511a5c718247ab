// Sums of the rows that bags name, in registers; included per instruction set after lanes.inl.
//
// Rows are widened on the way into the registers that hold a bag's sums, a tile of columns at a time; each row is read once,
// and fetched some rows ahead because a table's rows defeat the hardware's guess.

// The last vector of a row overlaps the one before it.
template <int L>
inline int64_t bag_column(int64_t vector, int64_t features) {
  return std::min<int64_t>(vector * L, features - L);
}

// Calls function with a number of lanes that no row is narrower than.
template <int L = kLanes, class Function>
auto with_bag_lanes(int64_t features, Function&& function) {
  if constexpr (L > 1) {
    if (features < L) return with_bag_lanes<L / 2>(features, function);
  }
  return function(std::integral_constant<int, L>{});
}

enum class BagWeights { kNone, kNarrow, kWide };

// A vector; a double for one lane, of which GCC 12 keeps no vector in a register.
template <int L>
using BagLanes = std::conditional_t<L == 1, double, Doubles<L>>;

template <int L>
[[gnu::always_inline]] inline BagLanes<L> all_lanes(double x) {
  if constexpr (L == 1) {
    return x;
  } else {
    return broadcast<L>(x);
  }
}

template <int L, class T>
[[gnu::always_inline]] inline BagLanes<L> read_lanes(const T* from) {
  if constexpr (L == 1) {
    return to_double(*from);
  } else {
    return load<L>(from);
  }
}

template <int L>
[[gnu::always_inline]] inline BagLanes<L> fused_lanes(BagLanes<L> w, BagLanes<L> x, BagLanes<L> sum) {
  if constexpr (L == 1) {
    return __builtin_fma(w, x, sum);
  } else {
    return fused<L>(w, x, sum);
  }
}

template <int L>
[[gnu::always_inline]] inline BagLanes<L> absolute_lanes(BagLanes<L> x) {
  if constexpr (L == 1) {
    return magnitude(x);
  } else {
    return CompensatedLanes<L>::absolute(x);
  }
}

// a becomes a + b, and what the rounding lost is returned. Needs round-to-nearest.
template <int L>
[[gnu::always_inline]] inline BagLanes<L> add_exactly(BagLanes<L>* a, BagLanes<L> b) {
  if constexpr (L == 1) {
    const TwoSum total = two_sum(*a, b);
    *a = total.sum;
    return total.error;
  } else {
    return accumulate_two_sum<L>(a, b);
  }
}

// sum + w * x, whose product is exact, so that a fused one rounds the sum alone.
template <int L>
[[gnu::always_inline]] inline BagLanes<L> add_exact_product(BagLanes<L> sum, BagLanes<L> w, BagLanes<L> x) {
  if constexpr (kLanes == 2) {  // without the instruction
    return sum + w * x;
  } else {
    return fused_lanes<L>(w, x, sum);
  }
}

constexpr int64_t kRowsAhead = 12;  // fetched before they are read
constexpr int kPrefetchLevel = 3;

// Rounds exact sums and stores them, without arithmetic that would raise the inexact flag.
template <int L, class T>
void store_rounded(T* to, BagLanes<L> sums) {
  if constexpr (L == 1) {
    *to = round_to<T>(sums);
  } else {
#if defined(__x86_64__)
    if constexpr (std::is_same_v<T, float> && kLanes == 8) return store_floats<L>(to, nearest_floats<L>(sums));
#endif
    Ints<L> plain;
    const Ints<L> bits = rounded_bits<T, L>(sums, &plain);
    if (!any<L>(~plain)) return store_bits<T, L>(to, bits);
    for (int lane = 0; lane < L; ++lane) to[lane] = round_to<T>(sums[lane]);
  }
}

// Rounds and stores what two ends enclose, if they leave no doubt.
template <int L, class T>
[[gnu::always_inline]] inline bool store_enclosed(T* to, BagLanes<L> high, BagLanes<L> negated_low) {
  if constexpr (L == 1) {
    return certify(-negated_low, high, to);
  } else {
    return IntervalLanes<T, L>{high, negated_low}.store_certified(to);
  }
}

// The columns of a tile's vectors: one after another, but that the last of a row, of which a tile of an odd width has two, end
// with it, so that no load or store is partial.
template <int L, int kBlocks>
struct TileColumns {
  int64_t first;
  int64_t tail[2];  // of the last two vectors, relative to the first

  TileColumns(int64_t first_vector, int64_t features) : first(bag_column<L>(first_vector, features)) {
    for (int i = 0; i < 2; ++i) tail[i] = bag_column<L>(first_vector + kBlocks - 2 + i, features) - first;
  }
  int64_t operator[](int b) const { return b + 2 < kBlocks ? b * L : tail[b + 2 - kBlocks]; }
};

// Three ways to add up a tile of one bag, `kBlocks` vectors of columns, at most kMostBlocks of which stay in registers. store()
// rounds what can be rounded at once.

// Sums that are right while nothing rounds. Rounding them is no arithmetic that raises a flag; dividing them would be.
template <int L, int kBlocks>
struct PlainSums {
  static constexpr int kMostBlocks = kLanes == 8 ? 16 : 8;
  BagLanes<L> sums[kBlocks];

  void clear(double start) {
    for (auto& sum : sums) sum = all_lanes<L>(start);
  }
  void add(int b, BagLanes<L> x) { sums[b] = sums[b] + x; }
  void add_product(int b, BagLanes<L> w, BagLanes<L> x) { sums[b] = add_exact_product<L>(sums[b], w, x); }
  template <class T>
  void store(const BagBlock<T>& block, int64_t bag, const TileColumns<L, kBlocks>& columns) const {
    const int64_t start = bag * block.features + columns.first;
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; ++b) {
      const int64_t at = start + columns[b];
      block.mean ? store_vector(block.high + at, sums[b]) : store_rounded<L>(block.out + at, sums[b]);
    }
  }
};

// Sums between two ends, as IntervalLanes have them, in round-up mode.
template <int L, int kBlocks>
struct EnclosingSums {
  static constexpr int kMostBlocks = kLanes == 8 ? 8 : 4;
  BagLanes<L> high[kBlocks];
  BagLanes<L> negated_low[kBlocks];

  void clear(double start) {
    for (int b = 0; b < kBlocks; ++b) high[b] = negated_low[b] = all_lanes<L>(start);
  }
  void add(int b, BagLanes<L> x) {
    high[b] = high[b] + x;
    negated_low[b] = negated_low[b] - x;
  }
  void add_product(int b, BagLanes<L> w, BagLanes<L> x) {
    high[b] = add_exact_product<L>(high[b], w, x);
    negated_low[b] = add_exact_product<L>(negated_low[b], -w, x);
  }
  template <class T>
  void store(const BagBlock<T>& block, int64_t bag, const TileColumns<L, kBlocks>& columns) const {
    const int64_t start = bag * block.features + columns.first;
    const int64_t count = block.offsets[bag + 1] - block.offsets[bag];
    const double divisor = block.mean && count > 0 ? static_cast<double>(count) : 1.0;
    bool decided = true;
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; ++b) {
      store_vector(block.high + start + columns[b], high[b]);
      store_vector(block.negated_low + start + columns[b], negated_low[b]);
      if (!decided) continue;
      T* const to = block.out + start + columns[b];
      decided = divisor == 1.0 ? store_enclosed<L>(to, high[b], negated_low[b])
                               : store_enclosed<L>(to, high[b] / divisor, negated_low[b] / divisor);
    }
    if (!decided) block.undecided[bag] = true;
  }
};

// Of float64, in round-to-nearest mode: CompensatedLanes, but that the low halves of products are added up plainly, as they
// decide rarely. Each step of that loses at most half a unit of `low_bounds`, the sum of their magnitudes, and half of the
// smallest number where a product has bits below it. What this does not prove, finish() adds up without such loss.
template <int L, int kBlocks>
struct CompensatedSums {
  static constexpr int kMostBlocks = kLanes == 8 ? 4 : 2;
  BagLanes<L> sums[kBlocks];
  BagLanes<L> errors[kBlocks];
  BagLanes<L> residuals[kBlocks];
  BagLanes<L> lows[kBlocks];
  BagLanes<L> low_bounds[kBlocks];

  void clear(double start) {
    for (int b = 0; b < kBlocks; ++b) {
      sums[b] = all_lanes<L>(start);
      errors[b] = residuals[b] = lows[b] = low_bounds[b] = all_lanes<L>(0.0);
    }
  }
  void add(int b, BagLanes<L> x) {
    const BagLanes<L> lost = add_exactly<L>(&sums[b], x);
    residuals[b] = residuals[b] + absolute_lanes<L>(add_exactly<L>(&errors[b], lost));
  }
  void add_product(int b, BagLanes<L> w, BagLanes<L> x) {
    const BagLanes<L> product = w * x;
    const BagLanes<L> low = fused_lanes<L>(w, x, -product);
    add(b, product);
    lows[b] = lows[b] + low;
    low_bounds[b] = low_bounds[b] + absolute_lanes<L>(low);
  }
  void store(const BagBlock<double>& block, int64_t bag, const TileColumns<L, kBlocks>& columns) const {
    const int64_t start = bag * block.features + columns.first;
    const double count = static_cast<double>(block.offsets[bag + 1] - block.offsets[bag]);
    const double divisor = block.mean && count > 0.0 ? count : 1.0;
    const double share = count * 0x1.01p-53;
    const double least = block.weights == nullptr ? 0.0 : count * 0x1p-1074;
    bool decided = true;
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks && decided; ++b) {
      double* const to = block.out + start + columns[b];
      BagLanes<L> error = errors[b];
      const BagLanes<L> lost = absolute_lanes<L>(add_exactly<L>(&error, lows[b]));
      const BagLanes<L> residual = residuals[b] + lost + (low_bounds[b] * share + least);
      // Whatever is not finite leaves a residual that is not.
      if constexpr (L == 1) {
        const auto both = [](double x) { return broadcast<2>(x); };
        double pair[2] = {};
        decided = store_certified<2>({both(sums[b]), both(error), both(residual), Doubles<2>{}}, divisor, pair);
        *to = pair[0];
      } else {
        decided = store_certified<L>({sums[b], error, residual, Doubles<L>{}}, divisor, to);
      }
    }
    if (!decided) block.undecided[bag] = true;
  }

 private:
  template <int kWidth>
  static bool store_certified(const CompensatedLanes<kWidth>& sum, double divisor, double* to) {
    return divisor == 1.0 ? sum.store_certified(to) : sum.store_certified_mean(broadcast<kWidth>(divisor), to);
  }
};

// `kBlocks` vectors of every row, from `first_vector` on.
template <template <int, int> class Sums, BagWeights kWeights, int L, int kBlocks, class T>
void sum_bag_tile(const BagBlock<T>& block, int64_t first_vector) {
  constexpr int64_t kLinesAhead = std::max<int64_t>(1, kBlocks * L * static_cast<int64_t>(sizeof(T)) / 64);
  const TileColumns<L, kBlocks> columns(first_vector, block.features);
  const T* const table = block.table + columns.first;
  const int64_t features = block.features;
  const int64_t* const rows = block.rows;
  const int64_t last_row = block.num_rows - 1;
  for (int64_t bag = 0; bag < block.num_bags; ++bag) {
    const int64_t first = block.offsets[bag];
    const int64_t last = block.offsets[bag + 1];
    Sums<L, kBlocks> sums;
    sums.clear(first == last ? 0.0 : -0.0);
    for (int64_t position = first; position < last; ++position) {
      const T* const source = table + rows[position] * features;
      const T* const ahead = table + rows[std::min(position + kRowsAhead, last_row)] * features;
      for (int64_t line = 0; line < kLinesAhead; ++line) {
        __builtin_prefetch(reinterpret_cast<const char*>(ahead) + 64 * line, 0, kPrefetchLevel);
      }
      if constexpr (kWeights == BagWeights::kNone) {
#pragma GCC unroll 16
        for (int b = 0; b < kBlocks; ++b) sums.add(b, read_lanes<L>(source + columns[b]));
      } else {
        const double weight = kWeights == BagWeights::kWide ? block.wide_weights[position] : to_double(block.weights[position]);
        const BagLanes<L> factor = all_lanes<L>(weight);
#pragma GCC unroll 16
        for (int b = 0; b < kBlocks; ++b) sums.add_product(b, factor, read_lanes<L>(source + columns[b]));
      }
    }
    sums.store(block, bag, columns);
  }
}

// All columns: as many full tiles as there are, and a smaller one. Rows narrower than the widest vector take two of the next at
// most.
template <template <int, int> class Sums, BagWeights kWeights, int L, class T>
void sum_bag_columns(const BagBlock<T>& block) {
  constexpr int kMost = L == kLanes ? Sums<L, 1>::kMostBlocks : 2;
  const int64_t vectors = (block.features + L - 1) / L;
  int64_t first = 0;
  for (; vectors - first >= kMost; first += kMost) sum_bag_tile<Sums, kWeights, L, kMost>(block, first);
  const auto sum_rest = [&]<int kBlocks>(auto&& self, std::integral_constant<int, kBlocks>) -> void {
    if constexpr (kBlocks < kMost) {
      constexpr int kNext = kBlocks < 4 ? kBlocks + 1 : kBlocks + 2;
      if (vectors - first > kBlocks) return self(self, std::integral_constant<int, kNext>{});
      sum_bag_tile<Sums, kWeights, L, kBlocks>(block, std::max<int64_t>(0, vectors - kBlocks));
    } else {
      sum_bag_tile<Sums, kWeights, L, kMost>(block, std::max<int64_t>(0, vectors - kMost));
    }
  };
  if (first < vectors) sum_rest(sum_rest, std::integral_constant<int, 1>{});
}

template <template <int, int> class Sums, class T>
void sum_bags(const BagBlock<T>& block) {
  with_bag_lanes(block.features, [&]<int L>(std::integral_constant<int, L>) {
    if (block.weights != nullptr) return sum_bag_columns<Sums, BagWeights::kNarrow, L>(block);
    if (block.wide_weights != nullptr) return sum_bag_columns<Sums, BagWeights::kWide, L>(block);
    sum_bag_columns<Sums, BagWeights::kNone, L>(block);
  });
}

template <int L, class T>
int64_t finish_columns(const BagBlock<T>& block, int64_t bag, bool exact, int32_t* flagged) {
  using Sum = IntervalLanes<T, L>;
  T* const out = block.out + bag * block.features;
  const int64_t count = block.offsets[bag + 1] - block.offsets[bag];
  if (count == 0) {
    std::memset(out, 0, block.features * sizeof(T));
    return 0;
  }
  const int64_t divisor = block.mean ? count : 1;
  if constexpr (L == 1) {
    const double high = block.high[bag];
    const double size = static_cast<double>(divisor);
    if (store_enclosed<1>(out, high / size, (exact ? -high : block.negated_low[bag]) / size)) return 0;
    *flagged = 0;
    return 1;
  }
  const double inverse = 1.0 / static_cast<double>(divisor);
  const bool inverts_exactly = (divisor & (divisor - 1)) == 0;
  const int64_t vectors = (block.features + L - 1) / L;
  int64_t num_flagged = 0;
  for (int64_t vector = 0; vector < vectors; ++vector) {
    const int64_t column = bag_column<L>(vector, block.features);
    const int64_t at = bag * block.features + column;
    Sum sum;
    sum.high = load_vector<Doubles<L>>(block.high + at);
    if (exact) {
      // Rounded up twice, the quotient is wrong by less than two units of 2^-52; the ends may stand either way around.
      const Doubles<L> quotient = sum.high * inverse;
      const double margin = inverts_exactly ? 0.0 : 0x1p-49;
      if (Sum{quotient * (1.0 + margin), -(quotient * (1.0 - margin))}.store_certified(out + column)) continue;
      sum.negated_low = -sum.high;
    } else {
      sum.negated_low = load_vector<Doubles<L>>(block.negated_low + at);
    }
    if (divisor != 1) sum.divide(divisor);
    if (sum.store_certified(out + column)) continue;
    for (int lane = static_cast<int>(vector * L - column); lane < L; ++lane) {
      if (!sum.certify_lane(lane, divisor, out + column + lane)) flagged[num_flagged++] = static_cast<int32_t>(column + lane);
    }
  }
  return num_flagged;
}

// The same of float64, from the start: without loss, or with a residual that tells it.
template <int L>
int64_t finish_columns(const BagBlock<double>& block, int64_t bag, bool, int32_t* flagged) {
  const int64_t first = block.offsets[bag];
  const int64_t last = block.offsets[bag + 1];
  const int64_t divisor = block.mean ? last - first : 1;
  const int64_t vectors = (block.features + L - 1) / L;
  int64_t num_flagged = 0;
  for (int64_t vector = 0; vector < vectors; ++vector) {
    const int64_t column = bag_column<L>(vector, block.features);
    CompensatedLanes<L> sum;
    sum.clear();
    for (int64_t position = first; position < last; ++position) {
      const Doubles<L> x = load<L>(block.table + block.rows[position] * block.features + column);
      block.weights == nullptr ? sum.add(x) : sum.add_product(broadcast<L>(block.weights[position]), x);
    }
    double* const to = block.out + bag * block.features + column;
    if (divisor == 1 ? sum.store_certified(to) : sum.store_certified_mean(broadcast<L>(static_cast<double>(divisor)), to)) {
      continue;
    }
    for (int lane = static_cast<int>(vector * L - column); lane < L; ++lane) {
      if (!sum.certify_lane(lane, divisor, to + lane)) flagged[num_flagged++] = static_cast<int32_t>(column + lane);
    }
  }
  return num_flagged;
}

template <class T>
int64_t finish_bag(const BagBlock<T>& block, int64_t bag, bool exact, int32_t* flagged) {
  return with_bag_lanes(block.features, [&]<int L>(std::integral_constant<int, L>) {
    return finish_columns<L>(block, bag, exact, flagged);
  });
}

template <class T>
BagKernels<T> bag_kernels(InstructionSet) {
  if constexpr (std::is_same_v<T, double>) {
    return {nullptr, &sum_bags<CompensatedSums, T>, &finish_bag<T>};
  } else {
    return {&sum_bags<PlainSums, T>, &sum_bags<EnclosingSums, T>, &finish_bag<T>};
  }
}
