// The sums of one bag's tile of columns, in registers; included by bags.inl.

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
  Doubles<L> sums[kBlocks];

  void clear(double start) {
    for (auto& sum : sums) sum = broadcast<L>(start);
  }
  void add(int b, Doubles<L> x) { sums[b] = sums[b] + x; }
  void add_product(int b, Doubles<L> w, Doubles<L> x) { sums[b] = add_exact_product<L>(sums[b], w, x); }
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
  Doubles<L> high[kBlocks];
  Doubles<L> negated_low[kBlocks];

  void clear(double start) {
    for (int b = 0; b < kBlocks; ++b) high[b] = negated_low[b] = broadcast<L>(start);
  }
  void add(int b, Doubles<L> x) {
    high[b] = high[b] + x;
    negated_low[b] = negated_low[b] - x;
  }
  void add_product(int b, Doubles<L> w, Doubles<L> x) {
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
      const IntervalLanes<T, L> ends{high[b], negated_low[b]};
      decided = divisor == 1.0 ? ends.store_certified(to) : ends.store_certified_mean(broadcast<L>(divisor), to);
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
  Doubles<L> sums[kBlocks];
  Doubles<L> errors[kBlocks];
  Doubles<L> residuals[kBlocks];
  Doubles<L> lows[kBlocks];
  Doubles<L> low_bounds[kBlocks];

  void clear(double start) {
    for (int b = 0; b < kBlocks; ++b) {
      sums[b] = broadcast<L>(start);
      errors[b] = residuals[b] = lows[b] = low_bounds[b] = broadcast<L>(0.0);
    }
  }
  void add(int b, Doubles<L> x) {
    const Doubles<L> lost = accumulate_two_sum<L>(&sums[b], x);
    residuals[b] = residuals[b] + CompensatedLanes<L>::absolute(accumulate_two_sum<L>(&errors[b], lost));
  }
  void add_product(int b, Doubles<L> w, Doubles<L> x) {
    const Doubles<L> product = w * x;
    const Doubles<L> low = fused<L>(w, x, -product);
    add(b, product);
    lows[b] = lows[b] + low;
    low_bounds[b] = low_bounds[b] + CompensatedLanes<L>::absolute(low);
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
      Doubles<L> error = errors[b];
      const Doubles<L> lost = CompensatedLanes<L>::absolute(accumulate_two_sum<L>(&error, lows[b]));
      const Doubles<L> residual = residuals[b] + lost + (low_bounds[b] * share + least);
      // Whatever is not finite leaves a residual that is not.
      const CompensatedLanes<L> sum{sums[b], error, residual, Doubles<L>{}};
      decided = divisor == 1.0 ? sum.store_certified(to) : sum.store_certified_mean(broadcast<L>(divisor), to);
    }
    if (!decided) block.undecided[bag] = true;
  }
};

// The same, quicker and less careful: errors and low halves are added up plainly together. All of that loses at most half a unit
// of `bounds`, the sum of their magnitudes, a step. Proves nearly every sum of products whose low halves are as good as random;
// a tie only where nothing was lost.
template <int L, int kBlocks>
struct BoundedSums {
  static constexpr int kMostBlocks = kLanes == 8 ? 6 : 2;
  Doubles<L> sums[kBlocks];
  Doubles<L> errors[kBlocks];
  Doubles<L> bounds[kBlocks];

  void clear(double start) {
    for (int b = 0; b < kBlocks; ++b) {
      sums[b] = broadcast<L>(start);
      errors[b] = bounds[b] = broadcast<L>(0.0);
    }
  }
  void add_error(int b, Doubles<L> error) {
    errors[b] = errors[b] + error;
    bounds[b] = bounds[b] + CompensatedLanes<L>::absolute(error);
  }
  void add(int b, Doubles<L> x) { add_error(b, accumulate_two_sum<L>(&sums[b], x)); }
  void add_product(int b, Doubles<L> w, Doubles<L> x) {
    const Doubles<L> product = w * x;
    const Doubles<L> low = fused<L>(w, x, -product);
    add_error(b, accumulate_two_sum<L>(&sums[b], product) + low);
  }
  void store(const BagBlock<double>& block, int64_t bag, const TileColumns<L, kBlocks>& columns) const {
    const double count = static_cast<double>(block.offsets[bag + 1] - block.offsets[bag]);
    const double share = 2.0 * count * 0x1.01p-53;
    const double least = count * 0x1p-1074;  // as above
    const double divisor = block.mean && count > 0.0 ? count : 1.0;
    bool decided = true;
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks && decided; ++b) {
      double* const to = block.out + bag * block.features + columns.first + columns[b];
      const CompensatedLanes<L> sum{sums[b], errors[b], bounds[b] * share + least, Doubles<L>{}};
      decided = divisor == 1.0 ? sum.store_certified(to) : sum.store_certified_mean(broadcast<L>(divisor), to);
    }
    if (!decided) block.undecided[bag] = true;
  }
};
