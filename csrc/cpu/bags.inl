// Sums of the rows that bags name, in registers; included per instruction set after lanes.inl.
//
// Rows are widened on the way into the registers that hold a bag's sums, a tile of columns at a time; each row is read once,
// and fetched some rows ahead because a table's rows defeat the hardware's guess. Rounding comes later, a block of bags at
// once: sums of 24-bit numbers are nearly always exact in fp64, which one look at the inexact flag shows for them all.

enum class BagWeights { kNone, kNarrow, kWide };

// Sums that are right while nothing rounds.
template <int L>
struct PlainLanes {
  static constexpr int kMostBlocks = L == 8 ? 16 : 8;
  Doubles<L> sum;

  void clear() { sum = broadcast<L>(-0.0); }
  void add(Doubles<L> x) { sum = sum + x; }
  void add_product(Doubles<L> w, Doubles<L> x) {
    if constexpr (L == 2) {  // without the instruction
      sum = sum + w * x;
    } else {
      sum = fused<L>(w, x, sum);
    }
  }
  template <class T>
  void store(const BagBlock<T>& block, int64_t at) const {
    store_vector(block.high + at, sum);
  }
};

// Sums between two ends, as IntervalLanes have them, in round-up mode. A product is exact, so that a fused one rounds the sum alone.
template <int L>
struct EnclosingLanes {
  static constexpr int kMostBlocks = L == 8 ? 8 : 4;
  Doubles<L> high;
  Doubles<L> negated_low;

  void clear() { high = negated_low = broadcast<L>(-0.0); }
  void add(Doubles<L> x) {
    high = high + x;
    negated_low = negated_low - x;
  }
  void add_product(Doubles<L> w, Doubles<L> x) {
    if constexpr (L == 2) {
      add(w * x);
    } else {
      high = fused<L>(w, x, high);
      negated_low = fused<L>(-w, x, negated_low);
    }
  }
  template <class T>
  void store(const BagBlock<T>& block, int64_t at) const {
    store_vector(block.high + at, high);
    store_vector(block.negated_low + at, negated_low);
  }
};

// The last vector of a row overlaps the one before it, so that no load or store is partial.
inline int64_t bag_column(int64_t vector, int64_t features) { return std::min<int64_t>(vector * kLanes, features - kLanes); }

// `kBlocks` vectors of every row, from `first_vector` on.
template <class Sum, BagWeights kWeights, int kBlocks, class T>
void sum_bag_tile(const BagBlock<T>& block, int64_t first_vector) {
  constexpr int64_t kLinesAhead = std::max<int64_t>(1, kBlocks * kLanes * static_cast<int64_t>(sizeof(T)) / 64);
  constexpr int64_t kAhead = 32;
  int64_t columns[kBlocks];
  for (int b = 0; b < kBlocks; ++b) columns[b] = bag_column(first_vector + b, block.features);
  const int64_t* const rows = block.rows;
  const int64_t last_row = block.num_rows - 1;
  for (int64_t bag = 0; bag < block.num_bags; ++bag) {
    Sum sums[kBlocks];
    for (int b = 0; b < kBlocks; ++b) sums[b].clear();
    const int64_t last = block.offsets[bag + 1];
    for (int64_t position = block.offsets[bag]; position < last; ++position) {
      const T* const source = block.table + rows[position] * block.features;
      const T* const ahead = block.table + rows[std::min(position + kAhead, last_row)] * block.features;
      for (int64_t line = 0; line < kLinesAhead; ++line) {
        __builtin_prefetch(reinterpret_cast<const char*>(ahead + columns[0]) + 64 * line, 0, 2);
      }
      if constexpr (kWeights == BagWeights::kNone) {
        for (int b = 0; b < kBlocks; ++b) sums[b].add(load<kLanes>(source + columns[b]));
      } else {
        const double weight = kWeights == BagWeights::kWide ? block.wide_weights[position] : to_double(block.weights[position]);
        const Doubles<kLanes> factor = broadcast<kLanes>(weight);
        for (int b = 0; b < kBlocks; ++b) sums[b].add_product(factor, load<kLanes>(source + columns[b]));
      }
    }
    for (int b = 0; b < kBlocks; ++b) sums[b].store(block, bag * block.features + columns[b]);
  }
}

// All columns: as many full tiles as there are, and a smaller one.
template <class Sum, BagWeights kWeights, class T>
void sum_bag_columns(const BagBlock<T>& block) {
  constexpr int kMost = Sum::kMostBlocks;
  const int64_t vectors = (block.features + kLanes - 1) / kLanes;
  int64_t first = 0;
  for (; vectors - first >= kMost; first += kMost) sum_bag_tile<Sum, kWeights, kMost>(block, first);
  const auto sum_rest = [&]<int kBlocks>(auto&& self, std::integral_constant<int, kBlocks>) -> void {
    if constexpr (kBlocks < kMost) {
      constexpr int kNext = kBlocks < 4 ? kBlocks + 1 : kBlocks + 2;
      if (vectors - first > kBlocks) return self(self, std::integral_constant<int, kNext>{});
      sum_bag_tile<Sum, kWeights, kBlocks>(block, std::max<int64_t>(0, vectors - kBlocks));
    } else {
      sum_bag_tile<Sum, kWeights, kMost>(block, std::max<int64_t>(0, vectors - kMost));
    }
  };
  if (first < vectors) sum_rest(sum_rest, std::integral_constant<int, 1>{});
}

template <class Sum, class T>
void sum_bags(const BagBlock<T>& block) {
  if (block.weights != nullptr) return sum_bag_columns<Sum, BagWeights::kNarrow>(block);
  if (block.wide_weights != nullptr) return sum_bag_columns<Sum, BagWeights::kWide>(block);
  sum_bag_columns<Sum, BagWeights::kNone>(block);
}

template <class T>
int64_t finish_bag(const BagBlock<T>& block, int64_t bag, bool exact, int32_t* flagged) {
  using Sum = IntervalLanes<T, kLanes>;
  T* const out = block.out + bag * block.features;
  const int64_t count = block.offsets[bag + 1] - block.offsets[bag];
  if (count == 0) {
    std::memset(out, 0, block.features * sizeof(T));
    return 0;
  }
  const int64_t divisor = block.mean ? count : 1;
  const double inverse = 1.0 / static_cast<double>(divisor);
  const bool inverts_exactly = (divisor & (divisor - 1)) == 0;
  const int64_t vectors = (block.features + kLanes - 1) / kLanes;
  int64_t num_flagged = 0;
  for (int64_t vector = 0; vector < vectors; ++vector) {
    const int64_t column = bag_column(vector, block.features);
    const int64_t at = bag * block.features + column;
    Sum sum;
    sum.high = load_vector<Doubles<kLanes>>(block.high + at);
    if (exact) {
      // Rounded up twice, the quotient is wrong by less than two units of 2^-52; the ends may stand either way around.
      const Doubles<kLanes> quotient = sum.high * inverse;
      const double margin = inverts_exactly ? 0.0 : 0x1p-49;
      if (Sum{quotient * (1.0 + margin), -(quotient * (1.0 - margin))}.store_certified(out + column)) continue;
      sum.negated_low = -sum.high;
    } else {
      sum.negated_low = load_vector<Doubles<kLanes>>(block.negated_low + at);
    }
    if (divisor != 1) sum.divide(divisor);
    if (sum.store_certified(out + column)) continue;
    for (int lane = static_cast<int>(vector * kLanes - column); lane < kLanes; ++lane) {
      if (!sum.certify_lane(lane, divisor, out + column + lane)) flagged[num_flagged++] = static_cast<int32_t>(column + lane);
    }
  }
  return num_flagged;
}

template <class T>
BagKernels<T> bag_kernels() {
  return {&sum_bags<PlainLanes<kLanes>, T>, &sum_bags<EnclosingLanes<kLanes>, T>, &finish_bag<T>};
}

template BagKernels<float> bag_kernels();
template BagKernels<Half> bag_kernels();
template BagKernels<BFloat16> bag_kernels();
