// Tiles of running products and log-sum-exps that lie by rows: what is combined along a tile, and with what precedes it. The
// steps are those of the states of numerics/running.h, for many lanes at once. Included once for every instruction set.

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

template <class Op>
inline void combine_rows(Tile<Op>& tile, int rows) {
  for_each_part<Op>([&](int part) {
    auto first = at(tile, 0, 0, part);
    if constexpr (Tile<Op>::kCells == 1) {
      for (int r = 1; r < rows; ++r) at(tile, 0, r, part) = first = first * at(tile, 0, r, part);
    } else {
      auto second = at(tile, 1, 0, part);
      for (int r = 1; r < rows; ++r) {
        const auto x = at(tile, 0, r, part);
        const auto y = at(tile, 1, r, part);
        const auto next = first * x - second * y;
        second = first * y + second * x;
        at(tile, 0, r, part) = first = next;
        at(tile, 1, r, part) = second;
      }
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
