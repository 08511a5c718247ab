// Tiles of running products and log-sum-exps, one source for every instruction set. Their steps are those of the states of
// numerics/running.h, for many lanes at once.

template <class Cell>
struct VectorOf {
  using type = Doubles<kLanes>;
};
template <>
struct VectorOf<uint64_t> {
  using type = typename Vectors<kLanes>::Bits;
};

// Rows of kRunningLanes lanes, by vectors: the part of each row that begins with lane `part`.
template <class Op>
using RowPart = typename VectorOf<typename Op::Cell>::type;

template <class Op, class Function>
[[gnu::always_inline]] inline void for_each_part(Function&& function) {
  for (int part = 0; part < kRunningLanes; part += kLanes) function(part);
}

template <class Op>
[[gnu::always_inline]] inline RowPart<Op>& at(Tile<Op>& tile, int cell, int row, int part) {
  return *reinterpret_cast<RowPart<Op>*>(&tile.cells[cell][row][part]);
}

// exp or log of whole rows.
template <Elementary kFunction>
inline void map_rows(double (*rows)[kRunningLanes], int count) {
  double* const all = &rows[0][0];
  for (int i = 0; i < count * kRunningLanes; ++i) all[i] = kFunction == Elementary::kExp ? exp_of(all[i]) : log_of(all[i]);
}

inline void combine_rows(Tile<RealProduct>& tile, int rows) {
  for_each_part<RealProduct>([&](int part) {
    auto product = at(tile, 0, 0, part);
    for (int r = 1; r < rows; ++r) at(tile, 0, r, part) = product = product * at(tile, 0, r, part);
  });
}

inline void combine_rows(Tile<IntegerProduct>& tile, int rows) {
  for_each_part<IntegerProduct>([&](int part) {
    auto product = at(tile, 0, 0, part);
    for (int r = 1; r < rows; ++r) at(tile, 0, r, part) = product = product * at(tile, 0, r, part);
  });
}

inline void combine_rows(Tile<ComplexProduct>& tile, int rows) {
  for_each_part<ComplexProduct>([&](int part) {
    auto real = at(tile, 0, 0, part);
    auto imag = at(tile, 1, 0, part);
    for (int r = 1; r < rows; ++r) {
      const auto x = at(tile, 0, r, part);
      const auto y = at(tile, 1, r, part);
      const auto next = real * x - imag * y;
      imag = real * y + imag * x;
      at(tile, 0, r, part) = real = next;
      at(tile, 1, r, part) = imag;
    }
  });
}

// The largest so far and the exponents first, all exponentials together, then the sums.
inline void combine_rows(Tile<LogSumExp>& tile, int rows) {
  alignas(64) double scales[kRunningBlock][kRunningLanes];
  for_each_part<LogSumExp>([&](int part) {
    Doubles<kLanes> largest = at(tile, 0, 0, part);
    at(tile, 1, 0, part) = broadcast<kLanes>(1.0);
    for (int r = 1; r < rows; ++r) {
      const Doubles<kLanes> x = at(tile, 0, r, part);
      const Ints<kLanes> second = (x > largest) | (x != x);
      const Doubles<kLanes> other = second ? largest : x;
      largest = second ? x : largest;
      const Ints<kLanes> differs = other != largest;
      store_vector(&scales[r][part], (Doubles<kLanes>)((Ints<kLanes>)(other - largest) & differs));
      at(tile, 0, r, part) = largest;
      at(tile, 1, r, part) = (Doubles<kLanes>)second;
    }
  });
  map_rows<Elementary::kExp>(scales + 1, rows - 1);
  for_each_part<LogSumExp>([&](int part) {
    Doubles<kLanes> sum = at(tile, 1, 0, part);
    for (int r = 1; r < rows; ++r) {
      const Doubles<kLanes> scale = load_vector<Doubles<kLanes>>(&scales[r][part]);
      const Ints<kLanes> second = (Ints<kLanes>)at(tile, 1, r, part);
      const Doubles<kLanes> factor = second ? scale : broadcast<kLanes>(1.0);
      const Doubles<kLanes> term = second ? broadcast<kLanes>(1.0) : scale;
      at(tile, 1, r, part) = sum = sum * factor + term;
    }
  });
}

template <class Op>
[[gnu::always_inline]] inline RowPart<Op> preceding(const Preceding<Op> (&before)[kRunningLanes], int cell, int part,
                                                    typename Op::Cell nothing) {
  RowPart<Op> all;
  for (int lane = 0; lane < kLanes; ++lane) {
    const Preceding<Op>& own = before[part + lane];
    all[lane] = own.any ? own.state.cell[cell] : nothing;
  }
  return all;
}

template <class Op>
inline void precede_rows(Tile<Op>& tile, int rows, const Preceding<Op> (&before)[kRunningLanes]) {
  for_each_part<Op>([&](int part) {
    typename Vectors<kLanes>::Int any;
    for (int lane = 0; lane < kLanes; ++lane) any[lane] = -static_cast<int64_t>(before[part + lane].any);
    const auto first = preceding<Op>(before, 0, part, 0);
    if constexpr (Tile<Op>::kCells == 1) {
      for (int r = 0; r < rows; ++r) {
        const auto own = at(tile, 0, r, part);
        at(tile, 0, r, part) = any ? first * own : own;
      }
    } else {
      const auto second = preceding<Op>(before, 1, part, 0);
      for (int r = 0; r < rows; ++r) {
        const auto x = at(tile, 0, r, part);
        const auto y = at(tile, 1, r, part);
        at(tile, 0, r, part) = any ? first * x - second * y : x;
        at(tile, 1, r, part) = any ? first * y + second * x : y;
      }
    }
  });
}

// exp(-infinity) = 0 leaves what has nothing before it as it is.
inline void precede_rows(Tile<LogSumExp>& tile, int rows, const Preceding<LogSumExp> (&before)[kRunningLanes]) {
  alignas(64) double scales[kRunningBlock][kRunningLanes];
  alignas(64) int64_t seconds[kRunningBlock][kRunningLanes];
  for_each_part<LogSumExp>([&](int part) {
    const Doubles<kLanes> first = preceding<LogSumExp>(before, 0, part, -HUGE_VAL);
    for (int r = 0; r < rows; ++r) {
      const Doubles<kLanes> own = at(tile, 0, r, part);
      const Ints<kLanes> second = (own > first) | (own != own);
      const Doubles<kLanes> largest = second ? own : first;
      const Doubles<kLanes> other = second ? first : own;
      const Ints<kLanes> differs = other != largest;
      store_vector(&scales[r][part], (Doubles<kLanes>)((Ints<kLanes>)(other - largest) & differs));
      store_vector(&seconds[r][part], second);
      at(tile, 0, r, part) = largest;
    }
  });
  map_rows<Elementary::kExp>(scales, rows);
  for_each_part<LogSumExp>([&](int part) {
    const Doubles<kLanes> sum = preceding<LogSumExp>(before, 1, part, 0.0);
    for (int r = 0; r < rows; ++r) {
      const Doubles<kLanes> own = at(tile, 1, r, part);
      const Doubles<kLanes> scale = load_vector<Doubles<kLanes>>(&scales[r][part]);
      const Ints<kLanes> second = load_vector<Ints<kLanes>>(&seconds[r][part]);
      at(tile, 1, r, part) = second ? sum * scale + own : sum + own * scale;
    }
  });
}

template <class T, class Cell>
inline void widen_line(const T* in, Cell* out, int64_t count) {
  if constexpr (std::is_same_v<Cell, double>) {
    widen_block(in, out, count);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i];
  }
}

template <class T, class Cell>
inline void round_line(const Cell* in, T* out, int64_t count) {
  if constexpr (std::is_same_v<Cell, double>) {
    round_block(in, out, count);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(in[i]);
  }
}

// Are the lanes of a row side by side in memory?
template <class Op>
inline bool are_neighbours(const TileShape& shape) {
  if (shape.width != kRunningLanes) return false;
  for (int w = 1; w < kRunningLanes; ++w) {
    if (shape.first[w] != shape.first[0] + w * Op::kComponents) return false;
  }
  return true;
}

// Products of streams that lie apart stay stream by stream: their chains are short work for scalars, eight at a time, and the
// rest goes along the stream. Log-sum-exps are worth turning.
template <class Op>
inline bool is_by_stream(const TileShape& shape) {
  return !std::is_same_v<Op, LogSumExp> && !are_neighbours<Op>(shape);
}

// The stream of lane w, in a tile that is by stream.
template <class Op>
inline typename Op::Cell* stream(Tile<Op>& tile, int cell, int w) {
  return &tile.cells[cell][0][0] + w * kRunningBlock;
}

template <class Op, class T>
inline void read_line(const T* from, const TileShape& shape, int w, typename Op::Cell* line) {
  constexpr int kComponents = Op::kComponents;
  from += shape.first[w];
  const int count = shape.counts[w];
  if (shape.step == kComponents) return widen_line(from, line, count * kComponents);
  T packed[kRunningBlock * kComponents];
  for (int r = 0; r < count; ++r) {
    for (int k = 0; k < kComponents; ++k) packed[r * kComponents + k] = from[r * shape.step + k];
  }
  widen_line(packed, line, count * kComponents);
}

template <class Op, class T>
inline void write_line(const typename Op::Cell* line, const TileShape& shape, int w, T* to) {
  constexpr int kComponents = Op::kComponents;
  to += shape.first[w];
  const int count = shape.counts[w];
  if (shape.step == kComponents) return round_line(line, to, count * kComponents);
  T packed[kRunningBlock * kComponents];
  round_line(line, packed, count * kComponents);
  for (int r = 0; r < count; ++r) {
    for (int k = 0; k < kComponents; ++k) to[r * shape.step + k] = packed[r * kComponents + k];
  }
}

// Combines rows [first, last) of kCount streams from `w` on.
template <int kCount, class Op>
inline void combine_streams(Tile<Op>& tile, int w, int first, int last) {
  constexpr int kCells = Tile<Op>::kCells;
  typename Op::State states[kCount];
  for (int lane = 0; lane < kCount; ++lane) {
    for (int k = 0; k < kCells; ++k) states[lane].cell[k] = stream(tile, k, w + lane)[first - 1];
  }
  for (int r = first; r < last; ++r) {
#pragma GCC unroll 8
    for (int lane = 0; lane < kCount; ++lane) {
      typename Op::State own;
      for (int k = 0; k < kCells; ++k) own.cell[k] = stream(tile, k, w + lane)[r];
      states[lane] = Op::combine(states[lane], own);
      for (int k = 0; k < kCells; ++k) stream(tile, k, w + lane)[r] = states[lane].cell[k];
    }
  }
}

template <class Op, class T>
inline void load_streams(const T* in, const TileShape& shape, Tile<Op>& tile) {
  constexpr int kComponents = Op::kComponents;
  for (int w = 0; w < shape.width; ++w) {
    if constexpr (kComponents == 1) {
      read_line<Op>(in, shape, w, stream(tile, 0, w));
    } else {
      typename Op::Cell line[kRunningBlock * kComponents];
      read_line<Op>(in, shape, w, line);
      for (int r = 0; r < shape.counts[w]; ++r) {
        for (int k = 0; k < kComponents; ++k) stream(tile, k, w)[r] = line[r * kComponents + k];
      }
    }
  }
  int common = 1;
  if (shape.width == kRunningLanes) {
    common = *std::min_element(shape.counts, shape.counts + kRunningLanes);
    combine_streams<kRunningLanes>(tile, 0, 1, common);
  }
  for (int w = 0; w < shape.width; ++w) combine_streams<1>(tile, w, common, shape.counts[w]);
}

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

template <class Op, class T>
void scan_short_slices(const T* in, T* out, int64_t count, int length) {
  constexpr int kComponents = Op::kComponents;
  typename Op::Cell line[kRunningBlock * kRunningLanes];
  const int64_t most = std::max<int64_t>(1, kRunningBlock * kRunningLanes / (length * kComponents));
  for (int64_t first = 0; first < count; first += most) {
    const int64_t slices = std::min(most, count - first);
    const int64_t numbers = slices * length * kComponents;
    widen_line(in + first * length * kComponents, line, numbers);
    for (int64_t s = 0; s < slices; ++s) {
      typename Op::Cell* const slice = line + s * length * kComponents;
      typename Op::State state = Op::of(slice);
      for (int r = 1; r < length; ++r) {
        state = Op::combine(state, Op::of(slice + r * kComponents));
        Op::finish(state, slice + r * kComponents);
      }
    }
    round_line(line, out + first * length * kComponents, numbers);
  }
}

template <class Op, class T>
RunningKernels<Op, T> running_kernels() {
  RunningKernels<Op, T> kernels{load_with_totals<Op, T>, precede_tile<Op>, store_tile<Op, T>, nullptr};
  if constexpr (!std::is_same_v<Op, LogSumExp>) kernels.short_slices = scan_short_slices<Op, T>;
  return kernels;
}
template RunningKernels<IntegerProduct, uint8_t> running_kernels();
template RunningKernels<IntegerProduct, uint16_t> running_kernels();
template RunningKernels<IntegerProduct, uint32_t> running_kernels();
template RunningKernels<IntegerProduct, uint64_t> running_kernels();
template RunningKernels<RealProduct, Half> running_kernels();
template RunningKernels<RealProduct, BFloat16> running_kernels();
template RunningKernels<RealProduct, float> running_kernels();
template RunningKernels<RealProduct, double> running_kernels();
template RunningKernels<ComplexProduct, Half> running_kernels();
template RunningKernels<ComplexProduct, float> running_kernels();
template RunningKernels<ComplexProduct, double> running_kernels();
template RunningKernels<LogSumExp, Half> running_kernels();
template RunningKernels<LogSumExp, BFloat16> running_kernels();
template RunningKernels<LogSumExp, float> running_kernels();
template RunningKernels<LogSumExp, double> running_kernels();
