// The entry points of the rows kernels: choose the vector width for the tile. Included last.

template <class Family, class T, class Position, class Use>
inline auto with_sums(const RowsJob<T, Position>& job, const RowsScratch& scratch, Use&& use) {
  if constexpr (!std::is_same_v<Family, Summing>) {
    if (job.columns >= kLanes) {
      RowSums<Family, T, Position, kLanes> sums(job, scratch);
      return use(sums);
    }
    RowSums<Family, T, Position, 1> sums(job, scratch);
    return use(sums);
  } else {
    if (job.columns == 1) {
      SingleColumnSums<T, Position> sums(job, scratch);
      return use(sums);
    }
    if constexpr (kLanes >= 8) {
      if (job.columns >= 8) {
        RowSums<Summing, T, Position, 8> sums(job, scratch);
        return use(sums);
      }
    }
    if constexpr (kLanes >= 4) {
      if (job.columns >= 4) {
        RowSums<Summing, T, Position, 4> sums(job, scratch);
        return use(sums);
      }
    }
    RowSums<Summing, T, Position, 2> sums(job, scratch);
    return use(sums);
  }
}

// Family: of the partial reductions of segments that are cut. A mean is a sum until it is rounded.
template <class Family, class T, class Position>
void run_rows_range(const RowsJob<T, Position>& job, const RowsRange& range, const RowsScratch& scratch) {
  const bool one_column = job.columns == 1 && job.grouping.targets == nullptr;
  if constexpr (std::is_same_v<Family, Summing>) {
    if (one_column && job.reduction == Reduction::kMean) {
      return SingleColumnSums<T, Position>(job, scratch).average_batches(range);
    }
    if (one_column && job.reduction == Reduction::kSum && job.include_self) {
      return SingleColumnSums<T, Position>(job, scratch).sum_batches(range);
    }
  }
  with_sums<Family>(job, scratch, [&](auto& sums) {
    if constexpr (!std::is_same_v<Family, Summing>) {
      if (one_column && job.grouping.permutation == nullptr) {
        return SingleColumnCells<Family, T, Position>::reduce_batches(job, range, scratch, sums);
      }
    }
    walk_range(job, range, sums);
  });
}

template <class Family, class T, class Position>
int64_t merge_split(const RowsJob<T, Position>& job, const SplitSegment& split, const RowsScratch& scratch) {
  return with_sums<Family>(job, scratch, [&](auto& sums) { return sums.merge(split); });
}

template <class T, class Position>
int64_t sum_in_pairs(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t target, int32_t* columns,
                     int64_t count) {
  if constexpr (std::is_same_v<T, double>) {
    return count;
  } else {
    if (count < kLanes) return PairRows<T, Position, 2>(job, first, last, target).sum(columns, count);
    return PairRows<T, Position, kLanes>(job, first, last, target).sum(columns, count);
  }
}

template <class T, class Position>
void add_to_bins(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t column, int64_t columns, int64_t* bins,
                 uint32_t* flags) {
  if constexpr (!std::is_same_v<T, double>) BinnedRows<T, Position>(job, column, columns, bins, flags).add(first, last);
}

// Cells: those of a single column.
template <class Family, class T, class Position, class Cells = Family>
RowsKernels<T, Position> rows_kernels_of() {
  return {CellOf<Cells, T>::kStates, &run_rows_range<Family, T, Position>, &merge_split<Family, T, Position>,
          &sum_in_pairs<T, Position>, &add_to_bins<T, Position>};
}

template <class T, class Position>
RowsKernels<T, Position> rows_kernels(InstructionSet, Reduction reduction) {
  switch (reduction) {
    case Reduction::kProd: return rows_kernels_of<Multiplying, T, Position>();
    case Reduction::kAmax: return rows_kernels_of<Extreme<false>, T, Position>();
    case Reduction::kAmin: return rows_kernels_of<Extreme<true>, T, Position>();
    case Reduction::kMean: return rows_kernels_of<Summing, T, Position, Averaging>();
    case Reduction::kSum: break;
  }
  return rows_kernels_of<Summing, T, Position>();
}

template RowsKernels<float, int32_t> rows_kernels(InstructionSet, Reduction);
template RowsKernels<float, int64_t> rows_kernels(InstructionSet, Reduction);
template RowsKernels<double, int32_t> rows_kernels(InstructionSet, Reduction);
template RowsKernels<double, int64_t> rows_kernels(InstructionSet, Reduction);
template RowsKernels<Half, int32_t> rows_kernels(InstructionSet, Reduction);
template RowsKernels<Half, int64_t> rows_kernels(InstructionSet, Reduction);
template RowsKernels<BFloat16, int32_t> rows_kernels(InstructionSet, Reduction);
template RowsKernels<BFloat16, int64_t> rows_kernels(InstructionSet, Reduction);
