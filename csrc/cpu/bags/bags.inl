// Sums of the rows that bags name, in registers; included per instruction set after lanes.inl. Those of one
// column are in single_column.inl.
//
// Rows are widened on the way into the registers that hold a bag's sums, a tile of columns at a time; each row is read once,
// and fetched some rows ahead because a table's rows defeat the hardware's guess.

// The last vector of a row overlaps the one before it.
template <int L>
inline int64_t bag_column(int64_t vector, int64_t features) {
  return std::min<int64_t>(vector * L, features - L);
}

// Calls function with a number of lanes, at least `kLeast`, that no row is narrower than.
template <int kLeast, int L = kLanes, class Function>
auto with_bag_lanes(int64_t features, Function&& function) {
  if constexpr (L > kLeast) {
    if (features < L) return with_bag_lanes<kLeast, L / 2>(features, function);
  }
  return function(std::integral_constant<int, L>{});
}

enum class BagWeights { kNone, kNarrow, kWide };

// sum + w * x, whose product is exact, so that a fused one rounds the sum alone.
template <int L>
[[gnu::always_inline]] inline Doubles<L> add_exact_product(Doubles<L> sum, Doubles<L> w, Doubles<L> x) {
  if constexpr (kLanes == 2) {  // without the instruction
    return sum + w * x;
  } else {
    return fused<L>(w, x, sum);
  }
}

constexpr int64_t kRowsAhead = 12;  // fetched before they are read
constexpr int kPrefetchLevel = 3;

// Rounds exact sums and stores them, without arithmetic that would raise the inexact flag.
template <int L, class T>
void store_rounded(T* to, Doubles<L> sums) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float> && kLanes == 8) return store_floats<L>(to, nearest_floats<L>(sums));
#endif
  Ints<L> plain;
  const Ints<L> bits = rounded_bits<T, L>(sums, &plain);
  if (!any<L>(~plain)) return store_bits<T, L>(to, bits);
  for (int lane = 0; lane < L; ++lane) to[lane] = round_to<T>(sums[lane]);
}

#include "tiles.inl"

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
        for (int b = 0; b < kBlocks; ++b) sums.add(b, load<L>(source + columns[b]));
      } else {
        const double weight = kWeights == BagWeights::kWide ? block.wide_weights[position] : to_double(block.weights[position]);
        const Doubles<L> factor = broadcast<L>(weight);
#pragma GCC unroll 16
        for (int b = 0; b < kBlocks; ++b) sums.add_product(b, factor, load<L>(source + columns[b]));
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
  with_bag_lanes<2>(block.features, [&]<int L>(std::integral_constant<int, L>) {
    if (block.weights != nullptr) return sum_bag_columns<Sums, BagWeights::kNarrow, L>(block);
    if (block.wide_weights != nullptr) return sum_bag_columns<Sums, BagWeights::kWide, L>(block);
    sum_bag_columns<Sums, BagWeights::kNone, L>(block);
  });
}

#include "single_column.inl"

inline BagBlock<double> some_bags(BagBlock<double> block, int64_t first, int64_t num_bags) {
  block.offsets += first;
  block.num_bags = num_bags;
  block.out += first * block.features;
  block.undecided += first;
  return block;
}

// Sums of products of float64: quickly, and carefully what that leaves open, which may be most where weights have few bits and
// sums are ties. The first few bags tell.
inline void sum_bags_of_products(const BagBlock<double>& block) {
  const auto sum_carefully = [&](int64_t first, int64_t num_bags) {
    sum_bags<CompensatedSums>(some_bags(block, first, num_bags));
  };
  const int64_t few = (block.num_bags + 7) / 8;
  sum_bags<BoundedSums>(some_bags(block, 0, few));
  const bool pays = 4 * std::count(block.undecided, block.undecided + few, true) <= few;
  const int64_t quick = pays ? block.num_bags : few;
  if (pays) {
    sum_bags<BoundedSums>(some_bags(block, few, block.num_bags - few));
  } else {
    sum_carefully(few, block.num_bags - few);
  }
  for (int64_t bag = 0; bag < quick; ++bag) {
    if (!block.undecided[bag]) continue;
    block.undecided[bag] = false;
    sum_carefully(bag, 1);
  }
}

template <class T>
void enclose_bags(const BagBlock<T>& block) {
  if (block.features == 1) return sum_single_column(block);
  if constexpr (!std::is_same_v<T, double>) {
    sum_bags<EnclosingSums>(block);
  } else if (block.weights != nullptr) {
    sum_bags_of_products(block);
  } else {
    sum_bags<CompensatedSums>(block);
  }
}

inline bool rows_lie_within(const int64_t* rows, int64_t count, int64_t num_table_rows) {
  uint64_t signs = 0;
  const uint64_t last = static_cast<uint64_t>(num_table_rows) - 1;
  for (int64_t i = 0; i < count; ++i) signs |= static_cast<uint64_t>(rows[i]) | (last - static_cast<uint64_t>(rows[i]));
  return signs >> 63 == 0;
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
    const double size = static_cast<double>(divisor);  // rounds up what it divides
    if (certify(-(block.negated_low[bag] / size), block.high[bag] / size, out)) return 0;
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
  if (first == last) {
    std::memset(block.out + bag * block.features, 0, block.features * sizeof(double));
    return 0;
  }
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
  return with_bag_lanes<1>(block.features, [&]<int L>(std::integral_constant<int, L>) {
    return finish_columns<L>(block, bag, exact, flagged);
  });
}

template <class T>
BagKernels<T> bag_kernels(InstructionSet) {
  if constexpr (std::is_same_v<T, double>) {
    return {&rows_lie_within, nullptr, &enclose_bags<T>, &finish_bag<T>};
  } else {
    return {&rows_lie_within, &sum_bags<PlainSums, T>, &enclose_bags<T>, &finish_bag<T>};
  }
}
