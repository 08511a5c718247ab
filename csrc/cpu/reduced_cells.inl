// Cells of the reductions that are not plain sums: the states of one lane side by side, one cell an output. Included per
// instruction set after reducers.inl.

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

template <class Family, class T>
inline void add_to_reduced_cell(double* at, T value) {
  CellOf<Family, T> cell;
  cell.load_state(at);
  cell.add(load_lanes<1>(&value));
  cell.store_state(at);
}

template <class Family, class T, class Key>
int64_t add_rows_to_reduced_cells(const CellsJob<T>& job, const Key* keys, const T* src, int64_t first, int64_t last) {
  const int64_t inner = job.inner;
  for (int64_t row = first; row < last; ++row) {
    const uint64_t key = static_cast<uint64_t>(static_cast<int64_t>(keys[row]));
    if (key >= static_cast<uint64_t>(job.num_targets)) return row;
    double* const cells = job.cells + key * inner * CellOf<Family, T>::kStates;
    for (int64_t f = 0; f < inner; ++f) {
      add_to_reduced_cell<Family>(cells + f * CellOf<Family, T>::kStates, src[row * inner + f]);
    }
  }
  return -1;
}

template <class Family, class T>
void add_entries_to_reduced_cells(double* cells, const Entry<T>* entries, int64_t count, const Alpha&) {
  for (int64_t i = 0; i < count; ++i) {
    add_to_reduced_cell<Family>(cells + int64_t{entries[i].key} * CellOf<Family, T>::kStates, entries[i].value);
  }
}

template <class Family, class T>
int64_t finish_reduced_cells(const FinishJob<T>& job, int64_t first, int64_t last, int32_t* flagged) {
  using Cell = CellOf<Family, T>;
  int64_t num_flagged = 0;
  for (int64_t output = first * job.inner; output < last * job.inner; ++output) {
    Cell cell;
    cell.load_state(job.sets + output * Cell::kStates);
    for (int64_t set = 1; set < job.num_sets; ++set) {
      Cell other;
      other.load_state(job.sets + set * job.set_stride + output * Cell::kStates);
      cell.merge(other);
    }
    if (cell.touched()[0] == 0) {
      job.out[output] = job.self == nullptr ? from_bits<T>(0) : job.self[output];
      continue;
    }
    if (job.self != nullptr && job.include_self) cell.add(load_lanes<1>(job.self + output));
    T result;  // not in place: the next stage still needs `self`
    if ((Family::kSettles || job.first_stage == FirstStage::kFilter) && cell.certify_lane(0, 1, &result)) {
      job.out[output] = result;
    } else {
      flagged[num_flagged++] = static_cast<int32_t>(output);
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
CellKernels<T> cell_kernels(Reduction reduction, bool include_self) {
  switch (reduction) {
    case Reduction::kMean: return reduced_cell_kernels<Averaging, T>();
    case Reduction::kProd: return reduced_cell_kernels<Multiplying, T>();
    case Reduction::kAmax: return reduced_cell_kernels<Extreme<false>, T>();
    case Reduction::kAmin: return reduced_cell_kernels<Extreme<true>, T>();
    case Reduction::kSum: break;
  }
  return include_self ? sum_cell_kernels<T>() : reduced_cell_kernels<Summing, T>();
}

template CellKernels<float> cell_kernels(Reduction, bool);
template CellKernels<double> cell_kernels(Reduction, bool);
template CellKernels<Half> cell_kernels(Reduction, bool);
template CellKernels<BFloat16> cell_kernels(Reduction, bool);
