// Cells of the reductions that are not plain sums: the states of one lane side by side, one cell an output. Included per
// instruction set after reducers.inl.

// L integers as wide as an element.
template <int kBytes, int L>
using WordsOf = std::conditional_t<
    kBytes == 8, Ints<L>, std::conditional_t<kBytes == 4, typename Vectors<L>::SignedWord, typename Vectors<L>::Short>>;

template <class Family, class T>
using CellOf = typename Family::template Of<T, 1>;

template <class Family, class T>
int64_t reduced_cell_doubles(int64_t inner) {
  return inner * CellOf<Family, T>::kStates;
}

template <class Family, class T>
void clear_reduced_cells(double* cells, int64_t doubles) {
  using Cell = CellOf<Family, T>;
  Cell empty;
  empty.clear();
  for (int64_t i = 0; i + Cell::kStates <= doubles; i += Cell::kStates) empty.store_state(cells + i);
}

[[gnu::noinline]] inline void multiply_cell_anyhow(double* at, double x) {
  CompensatedProductLanes<1> cell;
  cell.load_state(at);
  cell.add(Doubles<1>{x});
  cell.store_state(at);
}

// CompensatedProduct::multiply, where neither the factor nor the product is far from 1.
inline void multiply_cell(double* at, double x) {
  using Cell = CompensatedProductLanes<1>;
  const double head = at[0];
  const double rest = at[1];
  const double product = head * x;
  if (Cell::is_outside(Doubles<1>{x}, Cell::kNear)[0] | Cell::is_outside(Doubles<1>{product}, Cell::kLimit)[0]) [[unlikely]] {
    return multiply_cell_anyhow(at, x);
  }
  const double low = __builtin_fma(rest, x, __builtin_fma(head, x, -product));
  const double sum = product + low;
  at[0] = sum;
  at[1] = low - (sum - product);
  at[3] += rest != 0.0 ? 2.0 : 0.0;
}

[[gnu::noinline]] inline void enclose_product_anyhow(double* at, double x) {
  ProductIntervalLanes<float, 1> cell;
  cell.load_state(at);
  cell.add(Doubles<1>{x});
  cell.store_state(at);
}

// ProductIntervalLanes::add of one lane, where the product stays within its limits.
inline void enclose_product(double* at, double x) {
  const double size = __builtin_fabs(x);
  const double high = at[0] * size;
  const double negated_low = at[1] * size;
  if (!(high < ProductTail::kLimit && high >= 1.0 / ProductTail::kLimit)) [[unlikely]] return enclose_product_anyhow(at, x);
  at[0] = high;
  at[1] = negated_low;
  const uint64_t tail = (bits_of(at[2]) ^ (bits_of(x) >> 63)) | ProductTail::kTouched;
  std::memcpy(at + 2, &tail, sizeof(tail));
}

template <class Family, class T>
inline void add_to_reduced_cell(double* at, double value) {
  using Cell = CellOf<Family, T>;
  if constexpr (std::is_same_v<Cell, CompensatedProductLanes<1>>) return multiply_cell(at, value);
  if constexpr (std::is_same_v<Cell, ProductIntervalLanes<T, 1>>) return enclose_product(at, value);
  Cell cell;
  cell.load_state(at);
  cell.add(Doubles<1>{value});
  cell.store_state(at);
}

template <class Family, class T, class Key>
int64_t add_rows_to_reduced_cells(const CellsJob<T>& job, const Key* keys, const T* src, int64_t first, int64_t last) {
  const int64_t inner = job.inner;
  const uint64_t bound = static_cast<uint64_t>(job.num_targets);
  double* const all_cells = job.cells;
  int64_t row = first;
  // A vector of keys is checked, and one of values widened, at a time.
  for (; inner == 1 && row + kLanes <= last && !any_key_outside(keys + row, bound); row += kLanes) {
    alignas(64) double values[kLanes];
    store_vector(values, load<kLanes>(src + row));
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t key = keys[row + lane];
      add_to_reduced_cell<Family, T>(all_cells + key * CellOf<Family, T>::kStates, values[lane]);
    }
  }
  for (; row < last; ++row) {
    const uint64_t key = static_cast<uint64_t>(static_cast<int64_t>(keys[row]));
    if (key >= bound) return row;
    double* const cells = all_cells + key * inner * CellOf<Family, T>::kStates;
    for (int64_t f = 0; f < inner; ++f) {
      add_to_reduced_cell<Family, T>(cells + f * CellOf<Family, T>::kStates, to_double(src[row * inner + f]));
    }
  }
  return -1;
}

template <class Family, class T>
void add_entries_to_reduced_cells(double* cells, const Entry<T>* entries, int64_t count, const Alpha&) {
  const auto cell = [&](int64_t i) { return cells + int64_t{entries[i].key} * CellOf<Family, T>::kStates; };
  int64_t i = 0;
  if constexpr (!std::is_same_v<T, double>) {
    for (; i + kLanes <= count; i += kLanes) {
      alignas(64) double values[kLanes];
      store_vector(values, entry_values(entries + i));
      for (int lane = 0; lane < kLanes; ++lane) add_to_reduced_cell<Family, T>(cell(i + lane), values[lane]);
    }
  }
  for (; i < count; ++i) add_to_reduced_cell<Family, T>(cell(i), to_double(entries[i].value));
}

template <class Lanes, int L>
struct MergedCells {
  Lanes lanes;
  Ints<L> touched;  // in any of the sets: two empty cells may merge into one that does not look empty
};

// The cells of L outputs side by side, of all sets together.
template <class Lanes, class T, int L>
inline MergedCells<Lanes, L> merged_cells(const FinishJob<T>& job, int64_t output) {
  constexpr int kStates = Lanes::kStates;
  const auto of_set = [&](int64_t set) {
    const double* const cells = job.sets + set * job.set_stride + output * kStates;
    Lanes lanes;
    if constexpr (L == 1 || kStates == 1) {
      lanes.load_state(cells);
    } else {
      alignas(64) double states[kStates * L];
      load_cells<L, kStates>(cells, states);
      lanes.load_state(states);
    }
    return lanes;
  };
  const Lanes first = of_set(0);
  MergedCells<Lanes, L> merged{first, first.touched()};
  for (int64_t set = 1; set < job.num_sets; ++set) {
    const Lanes other = of_set(set);
    merged.touched |= other.touched();
    merged.lanes.merge(other);
  }
  return merged;
}

// Whether it vouches for the output, which is then written. If not, nothing is: the next stage still needs `self`.
template <class Family, class T>
inline bool finish_reduced_cell(const FinishJob<T>& job, int64_t output) {
  auto [cell, touched] = merged_cells<CellOf<Family, T>, T, 1>(job, output);
  if (touched[0] == 0) {
    job.out[output] = job.self == nullptr ? from_bits<T>(0) : job.self[output];
    return true;
  }
  if (job.self != nullptr && job.include_self) cell.add(load_lanes<1>(job.self + output));
  T result;
  if (!Family::kSettles && job.first_stage != FirstStage::kFilter) return false;
  if (!cell.certify_lane(0, 1, &result)) return false;
  job.out[output] = result;
  return true;
}

// The same for kLanes outputs; false also where one alone would be vouched for.
template <class Family, class T>
inline bool finish_reduced_cells_together(const FinishJob<T>& job, int64_t output) {
  auto [cells, touched] = merged_cells<typename Family::template Of<T, kLanes>, T, kLanes>(job, output);
  if (job.self != nullptr && job.include_self) cells.add(load<kLanes>(job.self + output));
  T results[kLanes];
  if (!cells.store_certified(results)) return false;
  // Without branches: which outputs are touched is as good as random.
  using Words = WordsOf<sizeof(T), kLanes>;
  const Words mask = __builtin_convertvector(~touched, Words);
  const Words kept = job.self == nullptr ? Words{} : load_vector<Words>(job.self + output);
  store_vector(job.out + output, (load_vector<Words>(results) & ~mask) | (kept & mask));
  return true;
}

template <class Family, class T>
int64_t finish_reduced_cells(const FinishJob<T>& job, int64_t first, int64_t last, int32_t* flagged) {
  int64_t num_flagged = 0;
  const int64_t end = last * job.inner;
  const bool together = Family::kSettles || job.first_stage == FirstStage::kFilter;
  for (int64_t output = first * job.inner; output < end;) {
    if (together && output + kLanes <= end && finish_reduced_cells_together<Family>(job, output)) {
      output += kLanes;
      continue;
    }
    for (const int64_t stop = std::min(end, output + kLanes); output < stop; ++output) {
      if (!finish_reduced_cell<Family>(job, output)) flagged[num_flagged++] = static_cast<int32_t>(output);
    }
  }
  return num_flagged;
}

template <class Family, class T>
CellKernels<T> reduced_cell_kernels() {
  return {&reduced_cell_doubles<Family, T>,
          &clear_reduced_cells<Family, T>,
          &add_rows_to_reduced_cells<Family, T, int32_t>,
          &add_rows_to_reduced_cells<Family, T, int64_t>,
          &add_entries_to_reduced_cells<Family, T>,
          &finish_reduced_cells<Family, T>};
}

// `self` is left out of a plain sum by `include_self` alone; its own cells cannot do that.
template <class T>
CellKernels<T> cell_kernels(InstructionSet, Reduction reduction, bool include_self) {
  switch (reduction) {
    case Reduction::kMean: return reduced_cell_kernels<Averaging, T>();
    case Reduction::kProd: return reduced_cell_kernels<Multiplying, T>();
    case Reduction::kAmax: return reduced_cell_kernels<Extreme<false>, T>();
    case Reduction::kAmin: return reduced_cell_kernels<Extreme<true>, T>();
    case Reduction::kSum: break;
  }
  return include_self ? sum_cell_kernels<T>() : reduced_cell_kernels<Summing, T>();
}

template CellKernels<float> cell_kernels(InstructionSet, Reduction, bool);
template CellKernels<double> cell_kernels(InstructionSet, Reduction, bool);
template CellKernels<Half> cell_kernels(InstructionSet, Reduction, bool);
template CellKernels<BFloat16> cell_kernels(InstructionSet, Reduction, bool);
