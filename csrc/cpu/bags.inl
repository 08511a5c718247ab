// Sums of the rows that bags name, in registers; included per instruction set after lanes.inl.
//
// Rows are widened on the way into the registers that hold a bag's sums, a tile of columns at a time; each row is read once,
// and fetched some rows ahead because a table's rows defeat the hardware's guess.

// The last vector of a row overlaps the one before it.
inline int64_t bag_column(int64_t vector, int64_t features) { return std::min<int64_t>(vector * kLanes, features - kLanes); }

enum class BagWeights { kNone, kNarrow, kWide };

using BagFloats = typename Vectors<kLanes>::Float;

constexpr int64_t kRowsAhead = 12;  // fetched before they are read
constexpr int kPrefetchLevel = 3;

// broadcast() in one instruction: GCC 12 makes eight masked moves of its loop for eight lanes.
template <int L>
inline Doubles<L> in_all_lanes(double x) {
#if defined(__x86_64__)
  if constexpr (L == 8) return (Doubles<L>)_mm512_set1_pd(x);
  if constexpr (L == 4) return (Doubles<L>)_mm256_set1_pd(x);
#endif
  return broadcast<L>(x);
}

// Rounds exact sums and stores them, without arithmetic that would raise the inexact flag.
template <class T>
void store_rounded(T* to, Doubles<kLanes> sums) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float> && kLanes == 8) {
    const __m256 rounded = _mm512_cvt_roundpd_ps((__m512d)sums, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __mmask8 invalid = _mm256_cmp_ps_mask(rounded, rounded, _CMP_UNORD_Q);
    const __m256i nan = _mm256_set1_epi32(static_cast<int>(FloatFormat<float>::kQuietNaN));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_mask_mov_epi32(_mm256_castps_si256(rounded), invalid, nan));
    return;
  }
#endif
  Ints<kLanes> plain;
  const Ints<kLanes> bits = rounded_bits<T, kLanes>(sums, &plain);
  if (!any<kLanes>(~plain)) return store_bits<T, kLanes>(to, bits);
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = round_to<T>(sums[lane]);
}

// The columns of a tile's vectors: one after another, but that the last of a row, of which a tile of an odd width has two, end
// with it, so that no load or store is partial.
template <int kBlocks>
struct TileColumns {
  int64_t first;
  int64_t tail[2];  // of the last two vectors, relative to the first

  TileColumns(int64_t first_vector, int64_t features) : first(bag_column(first_vector, features)) {
    for (int i = 0; i < 2; ++i) tail[i] = bag_column(first_vector + kBlocks - 2 + i, features) - first;
  }
  int64_t operator[](int b) const { return b + 2 < kBlocks ? b * kLanes : tail[b + 2 - kBlocks]; }
};

// Two ways to add up a tile of one bag, `kBlocks` vectors of columns, at most kMostBlocks of which stay in registers. store()
// rounds what can be rounded at once.

// Sums that are right while nothing rounds. Rounding them is no arithmetic that raises a flag; dividing them would be.
template <int kBlocks>
struct PlainSums {
  static constexpr int kMostBlocks = kLanes == 8 ? 16 : 8;
  Doubles<kLanes> sums[kBlocks];

  void clear(double start) {
    for (auto& sum : sums) sum = in_all_lanes<kLanes>(start);
  }
  void add(int b, BagFloats x) { sums[b] = sums[b] + widen<kLanes>(x); }
  void add_product(int b, Doubles<kLanes> w, BagFloats x) {
    if constexpr (kLanes == 2) {  // without the instruction
      sums[b] = sums[b] + w * widen<kLanes>(x);
    } else {
      sums[b] = fused<kLanes>(w, widen<kLanes>(x), sums[b]);
    }
  }
  template <class T>
  void store(const BagBlock<T>& block, int64_t bag, const TileColumns<kBlocks>& columns) const {
    const int64_t start = bag * block.features + columns.first;
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; ++b) {
      const int64_t at = start + columns[b];
      block.mean ? store_vector(block.high + at, sums[b]) : store_rounded(block.out + at, sums[b]);
    }
  }
};

// Sums between two ends, as IntervalLanes have them, in round-up mode. A product is exact, so that a fused one rounds the sum alone.
template <int kBlocks>
struct EnclosingSums {
  static constexpr int kMostBlocks = kLanes == 8 ? 8 : 4;
  Doubles<kLanes> high[kBlocks];
  Doubles<kLanes> negated_low[kBlocks];

  void clear(double start) {
    for (int b = 0; b < kBlocks; ++b) high[b] = negated_low[b] = in_all_lanes<kLanes>(start);
  }
  void add_wide(int b, Doubles<kLanes> x) {
    high[b] = high[b] + x;
    negated_low[b] = negated_low[b] - x;
  }
  void add(int b, BagFloats x) { add_wide(b, widen<kLanes>(x)); }
  void add_product(int b, Doubles<kLanes> w, BagFloats x) {
    if constexpr (kLanes == 2) {
      add_wide(b, w * widen<kLanes>(x));
    } else {
      high[b] = fused<kLanes>(w, widen<kLanes>(x), high[b]);
      negated_low[b] = fused<kLanes>(-w, widen<kLanes>(x), negated_low[b]);
    }
  }
  template <class T>
  void store(const BagBlock<T>& block, int64_t bag, const TileColumns<kBlocks>& columns) const {
    const int64_t start = bag * block.features + columns.first;
    bool decided = !block.mean;
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; ++b) {
      store_vector(block.high + start + columns[b], high[b]);
      store_vector(block.negated_low + start + columns[b], negated_low[b]);
      if (decided) decided = IntervalLanes<T, kLanes>{high[b], negated_low[b]}.store_certified(block.out + start + columns[b]);
    }
    if (!decided) block.undecided[bag] = true;
  }
};

// `kBlocks` vectors of every row, from `first_vector` on.
template <template <int> class Sums, BagWeights kWeights, int kBlocks, class T>
void sum_bag_tile(const BagBlock<T>& block, int64_t first_vector) {
  constexpr int64_t kLinesAhead = std::max<int64_t>(1, kBlocks * kLanes * static_cast<int64_t>(sizeof(T)) / 64);
  const TileColumns<kBlocks> columns(first_vector, block.features);
  const T* const table = block.table + columns.first;
  const int64_t features = block.features;
  const int64_t* const rows = block.rows;
  const int64_t last_row = block.num_rows - 1;
  for (int64_t bag = 0; bag < block.num_bags; ++bag) {
    const int64_t first = block.offsets[bag];
    const int64_t last = block.offsets[bag + 1];
    Sums<kBlocks> sums;
    sums.clear(first == last ? 0.0 : -0.0);
    for (int64_t position = first; position < last; ++position) {
      const T* const source = table + rows[position] * features;
      const T* const ahead = table + rows[std::min(position + kRowsAhead, last_row)] * features;
      for (int64_t line = 0; line < kLinesAhead; ++line) {
        __builtin_prefetch(reinterpret_cast<const char*>(ahead) + 64 * line, 0, kPrefetchLevel);
      }
      if constexpr (kWeights == BagWeights::kNone) {
#pragma GCC unroll 16
        for (int b = 0; b < kBlocks; ++b) sums.add(b, load_floats<kLanes>(source + columns[b]));
      } else {
        const double weight = kWeights == BagWeights::kWide ? block.wide_weights[position] : to_double(block.weights[position]);
        const Doubles<kLanes> factor = in_all_lanes<kLanes>(weight);
#pragma GCC unroll 16
        for (int b = 0; b < kBlocks; ++b) sums.add_product(b, factor, load_floats<kLanes>(source + columns[b]));
      }
    }
    sums.store(block, bag, columns);
  }
}

// All columns: as many full tiles as there are, and a smaller one.
template <template <int> class Sums, BagWeights kWeights, class T>
void sum_bag_columns(const BagBlock<T>& block) {
  constexpr int kMost = Sums<1>::kMostBlocks;
  const int64_t vectors = (block.features + kLanes - 1) / kLanes;
  int64_t first = 0;
  for (; vectors - first >= kMost; first += kMost) sum_bag_tile<Sums, kWeights, kMost>(block, first);
  const auto sum_rest = [&]<int kBlocks>(auto&& self, std::integral_constant<int, kBlocks>) -> void {
    if constexpr (kBlocks < kMost) {
      constexpr int kNext = kBlocks < 4 ? kBlocks + 1 : kBlocks + 2;
      if (vectors - first > kBlocks) return self(self, std::integral_constant<int, kNext>{});
      sum_bag_tile<Sums, kWeights, kBlocks>(block, std::max<int64_t>(0, vectors - kBlocks));
    } else {
      sum_bag_tile<Sums, kWeights, kMost>(block, std::max<int64_t>(0, vectors - kMost));
    }
  };
  if (first < vectors) sum_rest(sum_rest, std::integral_constant<int, 1>{});
}

template <template <int> class Sums, class T>
void sum_bags(const BagBlock<T>& block) {
  if (block.weights != nullptr) return sum_bag_columns<Sums, BagWeights::kNarrow>(block);
  if (block.wide_weights != nullptr) return sum_bag_columns<Sums, BagWeights::kWide>(block);
  sum_bag_columns<Sums, BagWeights::kNone>(block);
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
  return {&sum_bags<PlainSums, T>, &sum_bags<EnclosingSums, T>, &finish_bag<T>};
}

template BagKernels<float> bag_kernels();
template BagKernels<Half> bag_kernels();
template BagKernels<BFloat16> bag_kernels();
