// The kernels of running products and log-sum-exps. Included once for every instruction set.

#include "running_rows.inl"
#include "running_streams.inl"

// (re, im), (re, im) ... and (re, re ...), (im, im ...). Whole vectors: one that was stored in parts would be waited for.
template <int... kLane>
inline void part_pairs(const double* pairs, double* real, double* imag, std::integer_sequence<int, kLane...>) {
  const auto low = load_vector<Doubles<kLanes>>(pairs);
  const auto high = load_vector<Doubles<kLanes>>(pairs + kLanes);
  store_vector(real, __builtin_shuffle(low, high, Ints<kLanes>{2 * kLane...}));
  store_vector(imag, __builtin_shuffle(low, high, Ints<kLanes>{2 * kLane + 1 ...}));
}

template <int... kLane>
inline void join_pairs(const double* real, const double* imag, double* pairs, std::integer_sequence<int, kLane...>) {
  const auto re = load_vector<Doubles<kLanes>>(real);
  const auto im = load_vector<Doubles<kLanes>>(imag);
  store_vector(pairs, __builtin_shuffle(re, im, Ints<kLanes>{kLane / 2 + kLane % 2 * kLanes...}));
  store_vector(pairs + kLanes, __builtin_shuffle(re, im, Ints<kLanes>{(kLane + kLanes) / 2 + kLane % 2 * kLanes...}));
}

template <class Op, class T>
void load_tile(const T* in, const TileShape& shape, Tile<Op>& tile) {
  using Cell = typename Op::Cell;
  constexpr int kComponents = Op::kComponents;
  if constexpr (!std::is_same_v<Op, LogSumExp>) {
    if (is_by_stream<Op>(shape)) return load_streams(in, shape, tile);
  }
  if (are_neighbours<Op>(shape)) {
    for (int r = 0; r < shape.rows; ++r) {
      const T* const from = in + shape.first[0] + r * shape.step;
      if constexpr (kComponents == 1) {
        widen_line(from, tile.cells[0][r], kRunningLanes);
      } else {
        Cell line[kRunningLanes * kComponents];
        widen_line(from, line, kRunningLanes * kComponents);
        for (int w = 0; w < kRunningLanes; w += kLanes) {
          part_pairs(line + 2 * w, &tile.cells[0][r][w], &tile.cells[1][r][w], std::make_integer_sequence<int, kLanes>());
        }
      }
    }
  } else {
    for (int w = 0; w < kRunningLanes; ++w) {
      Cell line[kRunningBlock] = {};
      read_line<Op>(in, shape, w, line);
      for (int r = 0; r < shape.rows; ++r) tile.cells[0][r][w] = line[r];
    }
  }
  combine_rows(tile, shape.rows);
}

template <class Op, class T>
void store_tile(Tile<Op>& tile, const TileShape& shape, T* out) {
  using Cell = typename Op::Cell;
  constexpr int kComponents = Op::kComponents;
  if constexpr (std::is_same_v<Op, LogSumExp>) {
    map_rows<Elementary::kLog>(tile.cells[1], shape.rows);
    for (int r = 0; r < shape.rows; ++r) {
      for (int w = 0; w < kRunningLanes; ++w) tile.cells[0][r][w] += tile.cells[1][r][w];
    }
  }
  if (are_neighbours<Op>(shape)) {
    for (int r = 0; r < shape.rows; ++r) {
      T* const to = out + shape.first[0] + r * shape.step;
      if constexpr (kComponents == 1) {
        round_line(tile.cells[0][r], to, kRunningLanes);
      } else {
        Cell line[kRunningLanes * kComponents];
        for (int w = 0; w < kRunningLanes; w += kLanes) {
          join_pairs(&tile.cells[0][r][w], &tile.cells[1][r][w], line + 2 * w, std::make_integer_sequence<int, kLanes>());
        }
        round_line(line, to, kRunningLanes * kComponents);
      }
    }
    return;
  }
  const bool by_stream = is_by_stream<Op>(shape);
  for (int w = 0; w < shape.width; ++w) {
    if (kComponents == 1 && by_stream) {
      write_line<Op>(stream(tile, 0, w), shape, w, out);
      continue;
    }
    Cell line[kRunningBlock * kComponents];
    for (int r = 0; r < shape.counts[w]; ++r) {
      for (int k = 0; k < kComponents; ++k) {
        line[r * kComponents + k] = by_stream ? stream(tile, k, w)[r] : tile.cells[k][r][w];
      }
    }
    write_line<Op>(line, shape, w, out);
  }
}

template <class Op>
inline typename Op::State state_of(Tile<Op>& tile, const TileShape& shape, int row, int w) {
  const bool by_stream = is_by_stream<Op>(shape);
  typename Op::State state;
  for (int k = 0; k < Tile<Op>::kCells; ++k) {
    state.cell[k] = by_stream ? stream(tile, k, w)[row] : tile.cells[k][row][w];
  }
  return state;
}

template <class Op, class T>
void load_with_totals(const T* in, const TileShape& shape, Tile<Op>& tile, typename Op::State (&totals)[kRunningLanes]) {
  load_tile(in, shape, tile);
  for (int w = 0; w < shape.width; ++w) totals[w] = state_of(tile, shape, shape.counts[w] - 1, w);
}

template <class Op>
void precede_tile(Tile<Op>& tile, const TileShape& shape, const Preceding<Op> (&before)[kRunningLanes]) {
  if (!is_by_stream<Op>(shape)) return precede_rows(tile, shape.rows, before);
  for (int w = 0; w < shape.width; ++w) {
    if (!before[w].any) continue;
    const typename Op::State first = before[w].state;
    for (int r = 0; r < shape.counts[w]; ++r) {
      typename Op::State own;
      for (int k = 0; k < Tile<Op>::kCells; ++k) own.cell[k] = stream(tile, k, w)[r];
      own = Op::combine(first, own);
      for (int k = 0; k < Tile<Op>::kCells; ++k) stream(tile, k, w)[r] = own.cell[k];
    }
  }
}

// The product of pairs (re, im), by the steps of ComplexProduct.
template <int... kLane>
inline Doubles<kLanes> multiply_pairs(Doubles<kLanes> a, Doubles<kLanes> b, std::integer_sequence<int, kLane...>) {
  const Doubles<kLanes> real = __builtin_shuffle(a, Ints<kLanes>{kLane / 2 * 2 ...});
  const Doubles<kLanes> imag = __builtin_shuffle(a, Ints<kLanes>{kLane / 2 * 2 + 1 ...});
  const Doubles<kLanes> crossed = imag * __builtin_shuffle(b, Ints<kLanes>{(kLane ^ 1)...});
  constexpr int64_t kSign = std::numeric_limits<int64_t>::min();
  return real * b + (Doubles<kLanes>)((Ints<kLanes>)crossed ^ Ints<kLanes>{(kLane % 2 == 0 ? kSign : 0)...});
}

// A row of `count` numbers, side by side, each combined with what is before it. The rest of a row goes through a vector as
// well: from a complex product of scalars GCC 12 makes a fused one, whatever -ffp-contract says.
template <class Op>
inline void combine_neighbours(const typename Op::Cell* before, typename Op::Cell* row, int64_t count) {
  using Vector = typename VectorOf<typename Op::Cell>::type;
  const auto combined = [](Vector first, Vector own) {
    if constexpr (Op::kComponents == 1) {
      return first * own;
    } else {
      return multiply_pairs(first, own, std::make_integer_sequence<int, kLanes>());
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store_vector(row + i, combined(load_vector<Vector>(before + i), load_vector<Vector>(row + i)));
  }
  if (i == count) return;
  const size_t bytes = static_cast<size_t>(count - i) * sizeof(typename Op::Cell);
  Vector first{};
  Vector own{};
  std::memcpy(&first, before + i, bytes);
  std::memcpy(&own, row + i, bytes);
  own = combined(first, own);
  std::memcpy(row + i, &own, bytes);
}

template <class Op, class T>
void scan_short_slices(const T* in, T* out, int64_t count, int64_t length, int64_t inner) {
  const int64_t width = inner * Op::kComponents;
  typename Op::Cell cells[kShortCells];
  const int64_t most = kShortCells / (length * width);
  for (int64_t first = 0; first < count; first += most) {
    const int64_t blocks = std::min(most, count - first);
    const int64_t numbers = blocks * length * width;
    widen_line(in + first * length * width, cells, numbers);
    for (typename Op::Cell* block = cells; block < cells + numbers; block += length * width) {
      if (inner == 1) {
        typename Op::State state = Op::of(block);
        for (int64_t r = 1; r < length; ++r) {
          state = Op::combine(state, Op::of(block + r * width));
          Op::finish(state, block + r * width);
        }
      } else {
        for (int64_t r = 1; r < length; ++r) combine_neighbours<Op>(block + (r - 1) * width, block + r * width, width);
      }
    }
    round_line(cells, out + first * length * width, numbers);
  }
}

template <class Op, class T>
RunningKernels<Op, T> running_kernels(InstructionSet) {
  RunningKernels<Op, T> kernels{load_with_totals<Op, T>, precede_tile<Op>, store_tile<Op, T>, nullptr};
  if constexpr (!std::is_same_v<Op, LogSumExp>) kernels.short_slices = scan_short_slices<Op, T>;
  return kernels;
}
