// Cells: filtered sums that are added to in the order in which contributions come. Included per instruction set after
// lanes.inl and keyed.inl.
//
// Guarantee: certified outputs are exact sums rounded once; targets without contributions keep `self` bit for bit, or become
// +0. Cost: one load, a few additions and one store a contribution; a cell of one column is one 128-bit vector for 16- and
// 32-bit data.

// Adds alpha * row for L columns that start at a real part. A complex product is four real ones, each a contribution.
template <class T, int L>
inline void add_contributions(Lanes<T, L>& sum, const T* row, const Alpha& alpha, bool complex_pairs) {
  const Doubles<L> x = load<L>(row);
  if (alpha.is_one) return sum.add(x);
  sum.add_product(broadcast<L>(alpha.real), x);
  if (!complex_pairs) return;
  Doubles<L> crossed = broadcast<L>(alpha.imag);
  for (int lane = 0; lane < L; lane += 2) crossed[lane] = -alpha.imag;
  sum.add_product(crossed, swap_pairs<L>(x));
}

// Two lanes are the least that a vector has; a single column uses scalars side by side instead.
inline int cell_lanes(int64_t inner) { return inner >= 8 && kLanes >= 8 ? 8 : inner >= 4 && kLanes >= 4 ? 4 : 2; }

// Calls function(std::integral_constant<int, L>) for the width that serves `inner` columns.
template <class Function>
inline auto with_lanes(int64_t inner, Function&& function) {
  if constexpr (kLanes >= 8) {
    if (inner >= 8) return function(std::integral_constant<int, 8>{});
  }
  if constexpr (kLanes >= 4) {
    if (inner >= 4) return function(std::integral_constant<int, 4>{});
  }
  return function(std::integral_constant<int, 2>{});
}

template <class T>
int64_t cell_doubles(int64_t inner) {
  if (inner == 1) return kStateDoubles<T>;
  const int64_t lanes = cell_lanes(inner);
  return (inner + lanes - 1) / lanes * lanes * kStateDoubles<T>;
}

template <class T>
void clear_cells(double* cells, int64_t doubles) {
  if constexpr (std::is_same_v<T, double>) {
    for (int64_t i = 0; i < doubles; i += 2) store_vector(cells + i, broadcast<2>(-0.0));
  } else {
    std::fill_n(cells, doubles, -0.0);
  }
}

// One column. A residual of -0 and of +0 mean the same.
inline void add_to_cell(double* cell, double x, float) {
  const Doubles<2> both = {x, -x};
  store_vector(cell, load_vector<Doubles<2>>(cell) + both);
}

inline void add_to_cell(double* cell, double x, double) {
  CompensatedSum sum{cell[0], cell[1], cell[2], cell[3]};
  sum.add(x);
  cell[0] = sum.sum;
  cell[1] = sum.error;
  cell[2] = sum.residual;
  cell[3] = sum.scaled;
}

// With an alpha. What fp64 cannot multiply exactly makes the residual infinite, which certifies nothing.
inline void add_product_to_cell(double* cell, double weight, double x, float) { add_to_cell(cell, weight * x, float{}); }

inline void add_product_to_cell(double* cell, double weight, double x, double) {
  CompensatedSum sum{cell[0], cell[1], cell[2], cell[3]};
  bool inexact = false;
  sum.add_product(weight, x, &inexact);
  cell[0] = sum.sum;
  cell[1] = sum.error + 0.0;  // never the mark of an untouched cell, which a product that is not finite would leave
  cell[2] = inexact ? HUGE_VAL : sum.residual;
  cell[3] = sum.scaled;
}

template <class T>
using CellTag = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline void add_pair_to_cell(double* cell, const double* pair) {
  store_vector(cell, load_vector<Doubles<2>>(cell) + load_vector<Doubles<2>>(pair));
}

template <class T>
inline void add_value(double* cell, T value, const Alpha& alpha) {
  if (alpha.is_one) {
    add_to_cell(cell, to_double(value), CellTag<T>{});
  } else {
    add_product_to_cell(cell, alpha.real, to_double(value), CellTag<T>{});
  }
}

// Rows in turn go to each of the copies, so that equal keys in a row do not wait for one another.
template <class T, class Key, bool kCopies, bool kPlain>
inline int64_t add_single_column(const CellsJob<T>& job, const Key* keys, const T* src, int64_t first, int64_t last) {
  const int64_t stride = kCopies ? job.replica_stride : 0;
  double* const cells = job.cells;
  const uint64_t bound = static_cast<uint64_t>(job.num_targets);
  int64_t row = first;
  if constexpr (kPlain && !std::is_same_v<T, double>) {
    // A vector of keys is checked, and a vector of values prepared, at a time; only the additions are one by one.
    for (; row + kLanes <= last; row += kLanes) {
      if (any_key_outside(keys + row, bound)) break;
      alignas(64) double pairs[2 * kLanes];
      const Doubles<kLanes> x = load<kLanes>(src + row);
      store_interleaved<kLanes>(pairs, x, -x);
      for (int lane = 0; lane < kLanes; ++lane) {
        add_pair_to_cell(cells + static_cast<int64_t>(keys[row + lane]) * 2 + lane % kReplicas * stride, pairs + 2 * lane);
      }
    }
  }
  for (; row < last; ++row) {
    const uint64_t key = static_cast<uint64_t>(static_cast<int64_t>(keys[row]));
    if (key >= bound) return row;
    double* const cell = cells + key * kStateDoubles<T> + (row % kReplicas) * stride;
    if constexpr (kPlain) {
      add_to_cell(cell, to_double(src[row]), CellTag<T>{});
    } else {
      add_value(cell, src[row], job.alpha);
    }
  }
  return -1;
}

template <class T, class Key, int L>
inline int64_t add_columns(const CellsJob<T>& job, const Key* keys, const T* src, int64_t first, int64_t last) {
  using Sum = Lanes<T, L>;
  const int64_t blocks = (job.inner + L - 1) / L;
  const int64_t doubles = cell_doubles<T>(job.inner);
  for (int64_t row = first; row < last; ++row) {
    const uint64_t key = static_cast<uint64_t>(static_cast<int64_t>(keys[row]));
    if (key >= static_cast<uint64_t>(job.num_targets)) return row;
    double* cell = job.cells + key * doubles;
    const T* const source = src + row * job.inner;
    for (int64_t block = 0; block < blocks; ++block, cell += Sum::kStates * L) {
      Sum sum;
      sum.load_state(cell);
      add_contributions<T, L>(sum, source + std::min<int64_t>(block * L, job.inner - L), job.alpha, job.complex_pairs);
      sum.store_state(cell);
    }
  }
  return -1;
}

template <class T, class Key>
int64_t add_rows_to_cells(const CellsJob<T>& job, const Key* keys, const T* src, int64_t first, int64_t last) {
  if (job.inner == 1) {
    if (!job.alpha.is_one) return add_single_column<T, Key, false, false>(job, keys, src, first, last);
    if (job.replica_stride != 0) return add_single_column<T, Key, true, true>(job, keys, src, first, last);
    return add_single_column<T, Key, false, true>(job, keys, src, first, last);
  }
  return with_lanes(job.inner, [&](auto lanes) { return add_columns<T, Key, lanes()>(job, keys, src, first, last); });
}

// The values of as many entries as a vector has lanes. What pads a 16-bit value is shifted or cut away.
template <class T>
inline Doubles<kLanes> entry_values(const Entry<T>* entries) {
  using V = Vectors<kLanes>;
  static_assert(sizeof(Entry<T>) == sizeof(uint64_t));
  const auto upper = load_vector<typename V::Bits>(entries) >> 32;
  if constexpr (std::is_same_v<T, Half>) {
    T values[kLanes];
    store_vector(values, __builtin_convertvector(upper, typename V::Short));
    return load<kLanes>(values);
  } else {
    const auto word = __builtin_convertvector(upper, typename V::Word);
    return widen<kLanes>((typename V::Float)(sizeof(T) == 4 ? word : word << 16));
  }
}

template <class T>
void add_entries_to_cells(double* cells, const Entry<T>* entries, int64_t count, const Alpha& alpha) {
  const auto cell = [&](int64_t i) { return cells + int64_t{entries[i].key} * kStateDoubles<T>; };
  int64_t i = 0;
  if (alpha.is_one) {
    if constexpr (!std::is_same_v<T, double>) {
      for (; i + kLanes <= count; i += kLanes) {
        const Doubles<kLanes> x = entry_values(entries + i);
        alignas(64) double pairs[2 * kLanes];
        store_interleaved<kLanes>(pairs, x, -x);
        for (int lane = 0; lane < kLanes; ++lane) add_pair_to_cell(cell(i + lane), pairs + 2 * lane);
      }
    }
    for (; i < count; ++i) add_to_cell(cell(i), to_double(entries[i].value), CellTag<T>{});
  } else {
    for (; i < count; ++i) add_product_to_cell(cell(i), alpha.real, to_double(entries[i].value), CellTag<T>{});
  }
}

// Rounds the lanes of one vector from the merged cells and `self`, beginning with lane `from`; calls flag(lane, whether the
// filter does not certify it), without a branch: targets without contributions come at random.
template <class T, int L, class Flag>
inline void finish_lanes(Lanes<T, L> sum, Ints<L> touched, const T* self, T* out, int from, FirstStage first_stage,
                         Flag&& flag) {
  Ints<L> keep = Ints<L>{};  // untouched targets whose `self` is a NaN: its payload must survive
  if (self != nullptr) {
    const Doubles<L> start = load<L>(self);
    sum.add(start);
    keep = ~touched & (start != start);
  } else {
    sum.zero_where(~touched);
  }
  const bool by_vector = first_stage == FirstStage::kFilter && !any<L>(keep);
  if (by_vector && sum.store_certified(out)) return;
  for (int lane = from; lane < L; ++lane) {
    T result = self == nullptr ? from_bits<T>(0) : self[lane];
    bool settled = touched[lane] == 0;
    if (first_stage == FirstStage::kFilter) settled = settled || sum.certify_lane(lane, 1, &result);
    const uint64_t stored = 0 - static_cast<uint64_t>(settled);
    out[lane] = from_bits<T>((bits_of(result) & stored) | (bits_of(out[lane]) & ~stored));
    flag(lane, !settled);
  }
}

template <class T>
inline Lanes<T, kLanes> load_single_cells(const double* cells) {
  Lanes<T, kLanes> sum;
  double* const states = reinterpret_cast<double*>(&sum);
  if constexpr (kStateDoubles<T> == 2) {
    Doubles<kLanes> first;
    Doubles<kLanes> second;
    load_interleaved<kLanes>(cells, &first, &second);
    store_vector(states, first);
    store_vector(states + kLanes, second);
    return sum;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int state = 0; state < kStateDoubles<T>; ++state) {
      states[state * kLanes + lane] = cells[lane * kStateDoubles<T> + state];
    }
  }
  return sum;
}

template <class T>
inline int64_t finish_single_column(const FinishJob<T>& job, int64_t first, int64_t last, int32_t* flagged) {
  int64_t num_flagged = 0;
  for (int64_t target = first; target < last; target += kLanes) {
    const int count = static_cast<int>(std::min<int64_t>(kLanes, last - target));
    Lanes<T, kLanes> sum = load_single_cells<T>(job.sets + target * kStateDoubles<T>);
    Ints<kLanes> touched = sum.touched();
    for (int64_t set = 1; set < job.num_sets; ++set) {
      const auto other = load_single_cells<T>(job.sets + set * job.set_stride + target * kStateDoubles<T>);
      touched |= other.touched();
      sum.merge(other);
    }
    const auto flag = [&](int lane, bool uncertified) {
      if (lane >= count) return;
      flagged[num_flagged] = static_cast<int32_t>(target + lane);
      num_flagged += uncertified;
    };
    if (count == kLanes) {
      finish_lanes<T, kLanes>(sum, touched, job.self == nullptr ? nullptr : job.self + target, job.out + target, 0,
                              job.first_stage, flag);
    } else {
      T self[kLanes] = {};
      T out[kLanes];
      std::memcpy(out, job.out + target, count * sizeof(T));  // what is flagged must stay as it is
      if (job.self != nullptr) std::memcpy(self, job.self + target, count * sizeof(T));
      finish_lanes<T, kLanes>(sum, touched, job.self == nullptr ? nullptr : self, out, 0, job.first_stage, flag);
      std::memcpy(job.out + target, out, count * sizeof(T));
    }
  }
  return num_flagged;
}

template <class T, int L>
inline int64_t finish_columns(const FinishJob<T>& job, int64_t first, int64_t last, int32_t* flagged) {
  using Sum = Lanes<T, L>;
  const int64_t blocks = (job.inner + L - 1) / L;
  const int64_t doubles = cell_doubles<T>(job.inner);
  int64_t num_flagged = 0;
  for (int64_t target = first; target < last; ++target) {
    // The last block overlaps the one before, which may be stored over `self` by then.
    T self[L];
    const int64_t tail = job.inner - L;
    if (job.self != nullptr) std::memcpy(self, job.self + target * job.inner + tail, L * sizeof(T));
    for (int64_t block = 0; block < blocks; ++block) {
      const double* const cell = job.sets + target * doubles + block * Sum::kStates * L;
      Sum sum;
      sum.load_state(cell);
      Ints<L> touched = sum.touched();
      for (int64_t set = 1; set < job.num_sets; ++set) {
        Sum other;
        other.load_state(cell + set * job.set_stride);
        touched |= other.touched();
        sum.merge(other);
      }
      const int64_t column = std::min<int64_t>(block * L, tail);
      const int64_t at = target * job.inner + column;
      const T* const start = job.self == nullptr ? nullptr : block + 1 == blocks ? self : job.self + at;
      finish_lanes<T, L>(sum, touched, start, job.out + at, static_cast<int>(block * L - column),
                         job.first_stage,
                         [&](int lane, bool uncertified) {
                           flagged[num_flagged] = static_cast<int32_t>(at + lane);
                           num_flagged += uncertified;
                         });
    }
  }
  return num_flagged;
}

template <class T>
int64_t finish_cells(const FinishJob<T>& job, int64_t first, int64_t last, int32_t* flagged) {
  if (job.inner == 1) return finish_single_column(job, first, last, flagged);
  return with_lanes(job.inner, [&](auto lanes) { return finish_columns<T, lanes()>(job, first, last, flagged); });
}

template <class T>
CellKernels<T> sum_cell_kernels() {
  return {&cell_doubles<T>,           &clear_cells<T>,          &add_rows_to_cells<T, int32_t>, &add_rows_to_cells<T, int64_t>,
          &add_entries_to_cells<T>, &finish_cells<T>};
}
