// The rows algorithm for one column: lanes run over the rows of a long segment, and over neighbouring segments when these are
// rounded. Included after rows_kernel.inl and reduced_cells.inl.

// All segments of the range, where every target is listed: each that ends in it leaves a cell, and cells are rounded together.
//   sum_part(first, last, segment, part): of a segment that a range end cuts
//   fill(cell, segment): a cell, cleared first
//   finish(base, count): rounds and stores the cells of `count` segments from `base` on, lists in scratch.flagged what it
//   leaves to the exact fallback, and returns how many these are
template <class T, class Position, class SumPart, class Fill, class Finish>
inline void walk_batches(const RowsJob<T, Position>& job, const RowsRange& range, const RowsScratch& scratch, int cell_doubles,
                         SumPart&& sum_part, Fill&& fill, Finish&& finish) {
  const Grouping<Position>& g = job.grouping;
  int64_t segment = std::lower_bound(g.offsets, g.offsets + g.num_segments, static_cast<Position>(range.begin)) - g.offsets;
  if (segment > 0 && g.offsets[segment] > range.begin) {
    sum_part(range.begin, std::min<int64_t>(g.offsets[segment], range.end), segment - 1, range.head);
  }
  const auto begins = [&](int64_t s) { return s < g.num_segments && (g.offsets[s] < range.end || range.last); };
  const auto ends = [&](int64_t s) { return g.offsets[s + 1] <= range.end; };
  while (begins(segment) && ends(segment)) {
    const int64_t base = segment;
    for (; segment < base + kSegmentBatch && begins(segment) && ends(segment); ++segment) {
      fill(scratch.state + (segment - base) * cell_doubles, segment);
    }
    const int64_t num_flagged = finish(base, segment - base);
    for (int64_t i = 0; i < num_flagged; ++i) {
      const int64_t target = base + scratch.flagged[i];
      int32_t column = 0;
      exact_segment(job, g.offsets[target], g.offsets[target + 1], target, &column, 1, scratch.limbs);
    }
  }
  if (begins(segment)) sum_part(g.offsets[segment], range.end, segment, range.tail);
}

// The last step of a batch of other reductions than plain sums. Where `self` is no contribution, untouched targets are final
// already: they keep what is in `out`.
template <class Family, class T, class Position>
int64_t finish_batch(const RowsJob<T, Position>& job, const RowsScratch& scratch, int64_t base, int64_t count) {
  T* const out = job.out + base;
  const T* const self = !job.include_self ? out : job.self == nullptr ? nullptr : job.self + base;
  const FinishJob<T> finish{scratch.state, 1, 0, self, job.include_self, out, 1, job.first_stage};
  return finish_reduced_cells<Family, T>(finish, 0, count, scratch.flagged);
}

template <class T, class Position>
class SingleColumnSums {
 public:
  static constexpr int kPair = 2;
  using Sum = Lanes<T, kPair>;      // lane 0 counts; two lanes are the least that a vector has
  using WideSum = Lanes<T, kLanes>;

  SingleColumnSums(const RowsJob<T, Position>& job, const RowsScratch& scratch) : job_(job), scratch_(scratch) {}

  void sum_batches(const RowsRange& range) {
    const Grouping<Position>& g = job_.grouping;
    walk_batches(
        job_, range, scratch_, kStateDoubles<T>,
        [&](int64_t first, int64_t last, int64_t segment, double* part) { sum_part(first, last, segment, part); },
        [&](double* cell, int64_t segment) {
          clear_cells<T>(cell, kStateDoubles<T>);
          if (segment != job_.ignored_target) add_rows_to_cell(cell, g.offsets[segment], g.offsets[segment + 1]);
        },
        [&](int64_t base, int64_t count) {
          const FinishJob<T> finish{scratch_.state, 1, 0, job_.self == nullptr ? nullptr : job_.self + base, true,
                                    job_.out + base, 1, job_.first_stage};
          return finish_single_column(finish, 0, count, scratch_.flagged);
        });
  }

  // The same for means: a cell of the sum, and the number of its rows behind it.
  void average_batches(const RowsRange& range) {
    using Cell = CellOf<Averaging, T>;
    static_assert(Cell::kStates == kStateDoubles<T> + 1);
    walk_batches(
        job_, range, scratch_, Cell::kStates,
        [&](int64_t first, int64_t last, int64_t segment, double* part) { sum_part(first, last, segment, part); },
        [&](double* cell, int64_t segment) {
          const int64_t first = job_.grouping.offsets[segment];
          const int64_t last = segment == job_.ignored_target ? first : int64_t{job_.grouping.offsets[segment + 1]};
          clear_cells<T>(cell, kStateDoubles<T>);
          add_rows_to_cell(cell, first, last);
          cell[kStateDoubles<T>] = static_cast<double>(last - first);
        },
        [&](int64_t base, int64_t count) { return finish_batch<Averaging>(job_, scratch_, base, count); });
  }

  // Targets may lie far apart.
  void expect(int64_t segment) {
    const T* const outputs = job_.self == nullptr ? job_.out : job_.self;
    const int64_t ahead = segment + kPrefetchDistance;
    if (ahead < job_.grouping.num_segments) __builtin_prefetch(outputs + job_.grouping.target(ahead), 1);
  }

  void sum_segment(int64_t segment, int64_t first, int64_t last) {
    const int64_t target = job_.grouping.target(segment);
    Sum sum = start(target);
    add_rows(sum, first, last);
    if (finish(sum, target, last - first)) return;
    scratch_.flagged[0] = 0;
    exact_segment(job_, first, last, target, scratch_.flagged, 1, scratch_.limbs);
  }

  void sum_part(int64_t first, int64_t last, int64_t segment, double* part) {
    Sum sum;
    sum.clear();
    if (job_.grouping.target(segment) != job_.ignored_target) add_rows(sum, first, last);
    sum.store_state(part);
  }

  int64_t merge(const SplitSegment& split) {
    const int64_t target = job_.grouping.target(split.segment);
    if (target == job_.ignored_target) {
      leave_untouched(job_, target);
      return 0;
    }
    Sum sum = start(target);
    add_part(sum, split.first_part);
    for (int64_t part = 0; part < split.num_other_parts; ++part) add_part(sum, split.other_parts + part * split.part_stride);
    if (finish(sum, target, job_.grouping.offsets[split.segment + 1] - job_.grouping.offsets[split.segment])) return 0;
    scratch_.flagged[0] = 0;
    return 1;
  }

 private:
  static void add_part(Sum& sum, const double* part) {
    Sum other;
    other.load_state(part);
    sum.merge(other);
  }

  Sum start(int64_t target) const {
    Sum sum;
    sum.clear();
    if (job_.self != nullptr) sum.add(broadcast<kPair>(to_double(job_.self[target])));
    return sum;
  }

  // The values at L positions from this one on; those of a vector of copies at one.
  template <int L, bool kCopies = false>
  void add_values(Lanes<T, L>& sum, Doubles<L> values, int64_t position) const {
    if (job_.alpha.is_one) {
      sum.add(values);
    } else if (kCopies || job_.grouping.weights == nullptr) {
      sum.add_product(broadcast<L>(job_.factor(position)), values);
    } else {
      sum.add_product(load_vector<Doubles<L>>(job_.grouping.weights + position), values);
    }
  }

  void add_rows(Sum& sum, int64_t first, int64_t last) const {
    const Position* const permutation = job_.grouping.permutation;
    if (last - first >= 2 * kLanes) {
      WideSum wide;
      wide.clear();
      for (; last - first >= kLanes; first += kLanes) {
        if (permutation == nullptr) {
          add_values<kLanes>(wide, load<kLanes>(job_.src + first), first);
        } else {
          Doubles<kLanes> values;
          for (int lane = 0; lane < kLanes; ++lane) values[lane] = to_double(job_.src[permutation[first + lane]]);
          add_values<kLanes>(wide, values, first);
        }
      }
      fold(sum, wide);
    }
    for (; first < last; ++first) {
      add_values<kPair, true>(sum, broadcast<kPair>(to_double(job_.src[job_.grouping.row(first)])), first);
    }
  }

  void add_rows_to_cell(double* cell, int64_t first, int64_t last) const {
    if (last - first >= 2 * kLanes) {
      Sum sum;
      sum.clear();
      add_rows(sum, first, last);
      alignas(16) double states[Sum::kStates * kPair];
      sum.store_state(states);
      for (int state = 0; state < Sum::kStates; ++state) cell[state] = states[state * kPair];
    } else {
      add_few_rows(cell, first, last);
    }
  }

  // In registers: in memory each addition would wait for the store of the one before.
  void add_few_rows(double* cell, int64_t first, int64_t last) const {
    if constexpr (std::is_same_v<T, double>) {
      if (!job_.alpha.is_one) {
        for (; first < last; ++first) {
          add_product_to_cell(cell, job_.factor(first), to_double(job_.src[job_.grouping.row(first)]), CellTag<T>{});
        }
        return;
      }
      CompensatedSum sum{cell[0], cell[1], cell[2], cell[3]};
      for (; first < last; ++first) sum.add(job_.src[job_.grouping.row(first)]);
      cell[0] = sum.sum;
      cell[1] = sum.error;
      cell[2] = sum.residual;
      cell[3] = sum.scaled;
    } else {
      Doubles<2> both = load_vector<Doubles<2>>(cell);
      for (; first < last; ++first) {
        const double x = job_.factor(first) * to_double(job_.src[job_.grouping.row(first)]);  // exact in fp64
        both = both + Doubles<2>{x, -x};
      }
      store_vector(cell, both);
    }
  }

  static void fold(Sum& sum, const WideSum& wide) {
    alignas(64) double lanes[Sum::kStates * kLanes];
    wide.store_state(lanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      alignas(16) double one[Sum::kStates * kPair];
      for (int i = 0; i < Sum::kStates * kPair; ++i) one[i] = lanes[i / kPair * kLanes + lane];
      add_part(sum, one);
    }
  }

  bool finish(Sum sum, int64_t target, int64_t count) const {
    const int64_t divisor = job_.divisor(count);
    if (divisor != 1) sum.divide(divisor);
    T result;  // not in place: the exact fallback still needs `self`
    if (job_.first_stage != FirstStage::kFilter || !sum.certify_lane(0, divisor, &result)) return false;
    job_.out[target] = result;
    return true;
  }

  const RowsJob<T, Position>& job_;
  const RowsScratch& scratch_;
};

// The reductions other than plain sums, of neighbouring rows: the same by their own cells.
template <class Family, class T, class Position>
class SingleColumnCells {
 public:
  static constexpr int kStates = CellOf<Family, T>::kStates;

  static void fill(const RowsJob<T, Position>& job, double* to, int64_t segment) {
    int64_t next = job.grouping.offsets[segment];
    const int64_t last = job.grouping.offsets[segment + 1];
    CellOf<Family, T> cell;
    cell.clear();
    if (segment == job.ignored_target) next = last;
    if (last - next >= 2 * kLanes) {
      typename Family::template Of<T, kLanes> wide;
      wide.clear();
      for (; last - next >= kLanes; next += kLanes) wide.add(load<kLanes>(job.src + next));
      alignas(64) double states[kStates * kLanes];
      wide.store_state(states);
      for (int lane = 0; lane < kLanes; ++lane) {
        double one[kStates];
        for (int state = 0; state < kStates; ++state) one[state] = states[state * kLanes + lane];
        CellOf<Family, T> other;
        other.load_state(one);
        cell.merge(other);
      }
    }
    if constexpr (std::is_same_v<CellOf<Family, T>, ProductIntervalLanes<T, 1>>) {
      next = multiply_plain(cell, job.src, next, last);
    }
    for (; next < last; ++next) cell.add(load_lanes<1>(job.src + next));
    cell.store_state(to);
  }

  template <class Sums>
  static void reduce_batches(const RowsJob<T, Position>& job, const RowsRange& range, const RowsScratch& scratch, Sums& sums) {
    walk_batches(
        job, range, scratch, kStates,
        [&](int64_t first, int64_t last, int64_t segment, double* part) { sums.sum_part(first, last, segment, part); },
        [&](double* cell, int64_t segment) { fill(job, cell, segment); },
        [&](int64_t base, int64_t count) { return finish_batch<Family>(job, scratch, base, count); });
  }

 private:
  // In scalars, as far as nothing has to be rescaled.
  static int64_t multiply_plain(ProductIntervalLanes<T, 1>& cell, const T* src, int64_t next, int64_t last) {
    double high = cell.high[0];
    double negated_low = cell.negated_low[0];
    int64_t tail = cell.tail[0];
    for (; next < last; ++next) {
      const double x = to_double(src[next]);
      const double size = __builtin_fabs(x);
      const double top = high * size;
      if (!(top < ProductTail::kLimit && top >= 1.0 / ProductTail::kLimit)) break;
      high = top;
      negated_low = negated_low * size;
      tail = (tail ^ static_cast<int64_t>(bits_of(x) >> 63)) | ProductTail::kTouched;
    }
    cell.high = Doubles<1>{high};
    cell.negated_low = Doubles<1>{negated_low};
    cell.tail = Ints<1>{tail};
    return next;
  }
};
