// Tiles that lie by streams, one after the other: read, combined by scalars, and written. Included once for every instruction
// set, after running_rows.inl.

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
