// Reductions of the rows of whole segments, tile by tile; included per instruction set after reducers.inl.
//
// Guarantee: certified outputs are exact results rounded once, the others are handed to the exact fallback before anything is
// stored over `self`. Runs under the rounding mode that its lanes ask for. Cost: each source element is read once; a tile of
// up to kRegisterBlocks vectors stays in registers, a wider one in the first-level cache, eight rows at a time, with the
// next eight prefetched because the hardware prefetcher does not foresee gathered rows.

template <class Sum>
inline constexpr int kRegisterBlocks = std::bit_floor(static_cast<unsigned>((kLanes == 8 ? 16 : 8) / Sum::kStates));
inline constexpr int kGroupRows = 8;
inline constexpr int64_t kPrefetchDistance = 32;

template <class T, class Position>
inline void leave_untouched(const RowsJob<T, Position>& job, int64_t target) {
  if (job.untouched_done) return;
  const int64_t at = target * job.inner + job.first_column;
  if (job.self == nullptr) {
    std::memset(job.out + at, 0, job.columns * sizeof(T));
  } else if (job.self != job.out) {
    std::memcpy(job.out + at, job.self + at, job.columns * sizeof(T));
  }
}

// Calls `sums` for every segment and cut segment of the range.
template <class T, class Position, class Sums>
inline void walk_range(const RowsJob<T, Position>& job, const RowsRange& range, Sums& sums) {
  const Grouping<Position>& g = job.grouping;
  int64_t segment = std::lower_bound(g.offsets, g.offsets + g.num_segments, static_cast<Position>(range.begin)) - g.offsets;
  if (segment > 0 && g.offsets[segment] > range.begin) {
    sums.sum_part(range.begin, std::min<int64_t>(g.offsets[segment], range.end), segment - 1, range.head);
  }
  for (; segment < g.num_segments && (g.offsets[segment] < range.end || range.last); ++segment) {
    const int64_t first = g.offsets[segment];
    const int64_t last = g.offsets[segment + 1];
    const int64_t target = g.target(segment);
    if (last > range.end) {
      sums.sum_part(first, range.end, segment, range.tail);
    } else if (last == first || target == job.ignored_target) {
      leave_untouched(job, target);
    } else {
      sums.expect(segment + 1);
      sums.sum_segment(segment, first, last);
    }
  }
}

template <class Family, class T, class Position, int L>
class RowSums {
 public:
  using Sum = typename Family::template Of<T, L>;
  static constexpr int64_t kBlockState = Sum::kStates * L;
  static constexpr int64_t kBlocksPerLine = std::max<int64_t>(1, 64 / (L * sizeof(T)));

  RowSums(const RowsJob<T, Position>& job, const RowsScratch& scratch)
      : job_(job), scratch_(scratch), blocks_((job.columns + L - 1) / L), num_positions_(job.grouping.num_rows) {}

  // The outputs of this segment come next: they are fetched while the last rows of the one before are summed.
  void expect(int64_t segment) {
    const T* const outputs = job_.self == nullptr ? job_.out : job_.self;
    if (segment < job_.grouping.num_segments) {
      next_outputs_ = outputs + job_.grouping.target(segment) * job_.inner + job_.first_column;
    }
  }

  void sum_segment(int64_t segment, int64_t first, int64_t last) {
    begin_segment(segment);
    sum_rows(first, last, nullptr);
    if (num_flagged_ > 0) exact_segment(job_, first, last, target_, scratch_.flagged, num_flagged_, scratch_.limbs);
  }

  void sum_part(int64_t first, int64_t last, int64_t segment, double* part) {
    begin_segment(segment);
    if (target_ != job_.ignored_target) sum_rows(first, last, part);
  }

  int64_t merge(const SplitSegment& split) {
    const Grouping<Position>& g = job_.grouping;
    begin_segment(split.segment);
    if (target_ == job_.ignored_target) {
      leave_untouched(job_, target_);
      return 0;
    }
    const Sum tail_start = start(blocks_ - 1);
    for (int64_t block = 0; block < blocks_; ++block) {
      Sum sum = block == blocks_ - 1 ? tail_start : start(block);
      const auto add_part = [&](const double* part) {
        Sum other;
        other.load_state(part + block * kBlockState);
        sum.merge(other);
      };
      add_part(split.first_part);
      for (int64_t part = 0; part < split.num_other_parts; ++part) add_part(split.other_parts + part * split.part_stride);
      finish(sum, block, g.offsets[split.segment + 1] - g.offsets[split.segment]);
    }
    return num_flagged_;
  }

 private:
  // The last block overlaps the one before it, so that no load or store is partial.
  int64_t column(int64_t block) const { return std::min<int64_t>(block * L, job_.columns - L); }

  const T* row(int64_t position) const {
    return job_.src + job_.grouping.row(position) * job_.inner + job_.first_column;
  }

  void begin_segment(int64_t segment) {
    target_ = job_.grouping.target(segment);
    num_flagged_ = 0;
  }

  // With `part` null the segment is complete and its outputs are stored, else its sums go to `part`.
  void sum_rows(int64_t first, int64_t last, double* part) {
    if constexpr (Family::kWeighted) {
      if (!job_.alpha.is_one) return sum_in_groups<true>(first, last, part);
    }
    if (blocks_ > kRegisterBlocks<Sum>) return sum_in_groups<false>(first, last, part);
    sum_in_registers<kRegisterBlocks<Sum>>(first, last, part);
  }

  // Surplus blocks repeat the last one, so a few sizes serve all.
  template <int kBlocks>
  void sum_in_registers(int64_t first, int64_t last, double* part) {
    if constexpr (kBlocks > 1) {
      if (blocks_ <= kBlocks / 2) return sum_in_registers<kBlocks / 2>(first, last, part);
    }
    int64_t columns[kBlocks];
    Sum sums[kBlocks];
    for (int b = 0; b < kBlocks; ++b) {
      const int64_t block = std::min<int64_t>(b, blocks_ - 1);
      columns[b] = column(block);
      sums[b] = part == nullptr ? start(block) : empty();
    }
    for (int64_t position = first; position < last; ++position) {
      const T* const source = row(position);
      if (job_.grouping.permutation != nullptr && position + kPrefetchDistance < num_positions_) {
        const char* const ahead = reinterpret_cast<const char*>(row(position + kPrefetchDistance));
        for (int64_t byte = 0; byte < kBlocks * L * static_cast<int64_t>(sizeof(T)); byte += 64) {
          __builtin_prefetch(ahead + byte, 0, 2);
        }
      }
      for (int b = 0; b < kBlocks; ++b) sums[b].add(load_lanes<L>(source + columns[b]));
    }
    for (int b = 0; b < kBlocks && b < blocks_; ++b) {
      if (part == nullptr) {
        finish(sums[b], b, last - first);
      } else {
        sums[b].store_state(part + b * kBlockState);
      }
    }
  }

  template <bool kWeighted>
  void sum_in_groups(int64_t first, int64_t last, double* part) {
    double* const state = part == nullptr ? scratch_.state : part;
    // Taken before the block it overlaps is stored: `out` may be `self`.
    const Sum tail_start = part == nullptr ? start(blocks_ - 1) : empty();
    for (int64_t position = first; position < last; position += kGroupRows) {
      const int count = static_cast<int>(std::min<int64_t>(kGroupRows, last - position));
      const T* rows[kGroupRows];
      const T* ahead[kGroupRows];
      for (int r = 0; r < count; ++r) rows[r] = row(position + r);
      // Up to eight rows behind this group, less what earlier groups have fetched already.
      const int64_t fetch_from = std::max(fetched_, position + count);
      fetched_ = std::max(fetch_from, std::min<int64_t>(num_positions_, position + count + kGroupRows));
      const int num_ahead = static_cast<int>(fetched_ - fetch_from);
      for (int r = 0; r < num_ahead; ++r) ahead[r] = row(fetch_from + r);
      const bool starts = position == first;
      const bool ends = position + count == last && part == nullptr;
      for (int64_t block = 0; block < blocks_; ++block) {
        const int64_t at = column(block);
        if (block % kBlocksPerLine == 0) {
          for (int r = 0; r < num_ahead; ++r) __builtin_prefetch(ahead[r] + at, 0, 2);
          if (ends) __builtin_prefetch(next_outputs_ + at, 1);
        }
        Sum sum;
        if (!starts) {
          sum.load_state(state + block * kBlockState);
        } else if (part != nullptr) {
          sum.clear();
        } else {
          sum = block == blocks_ - 1 ? tail_start : start(block);
        }
        if (count == kGroupRows) {
          for (int r = 0; r < kGroupRows; ++r) add_row<kWeighted>(sum, rows[r] + at, position + r);
        } else {
          for (int r = 0; r < count; ++r) add_row<kWeighted>(sum, rows[r] + at, position + r);
        }
        if (ends) {
          finish(sum, block, last - first);
        } else {
          sum.store_state(state + block * kBlockState);
        }
      }
    }
  }

  template <bool kWeighted>
  void add_row(Sum& sum, const T* source, int64_t position) const {
    if constexpr (kWeighted) {
      if (job_.complex_pairs) return add_contributions<T, L>(sum, source, job_.alpha, true);
      sum.add_product(broadcast<L>(job_.factor(position)), load<L>(source));
    } else {
      sum.add(load_lanes<L>(source));
    }
  }

  [[gnu::always_inline]] static Sum empty() {
    Sum sum;
    sum.clear();
    return sum;
  }

  // The sum of `self` alone.
  [[gnu::always_inline]] Sum start(int64_t block) const {
    Sum sum = empty();
    if (job_.self != nullptr) sum.add(load_lanes<L>(job_.self + target_ * job_.inner + job_.first_column + column(block)));
    return sum;
  }

  // Stores what the filter certifies and lists the other columns.
  void finish(Sum sum, int64_t block, int64_t count) {
    T* const to = job_.out + target_ * job_.inner + job_.first_column + column(block);
    const int64_t divisor = job_.divisor(count);
    if (divisor != 1) sum.divide(divisor);
    const bool filters = Family::kSettles || job_.first_stage == FirstStage::kFilter;
    const bool by_vector = filters && (divisor == 1 || !std::is_same_v<T, double>);
    if (by_vector && sum.store_certified(to)) return;
    for (int lane = static_cast<int>(block * L - column(block)); lane < L; ++lane) {
      T result;
      if (filters && sum.certify_lane(lane, divisor, &result)) {
        to[lane] = result;
      } else {
        scratch_.flagged[num_flagged_++] = static_cast<int32_t>(column(block) + lane);
      }
    }
  }

  const RowsJob<T, Position>& job_;
  const RowsScratch& scratch_;
  int64_t blocks_;
  int64_t num_positions_;
  const T* next_outputs_ = nullptr;
  int64_t fetched_ = 0;  // positions before this one have been prefetched by sum_in_groups
  int64_t target_ = 0;
  int64_t num_flagged_ = 0;
};
