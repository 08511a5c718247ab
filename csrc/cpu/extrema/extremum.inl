// The best of a segment's rows, column by column, and the first row that has it. Included once for every instruction set.

template <class Order, class Position>
void best_of_segment(const ExtremumSegment<Order, Position>& segment) {
  using Key = typename ExtremumSegment<Order, Position>::Key;
  using Bits = typename Order::Bits;
  Key* const __restrict__ best = segment.best;
  Position* const __restrict__ where = segment.where;
  const int64_t columns = segment.columns;
  const bool largest = segment.largest;
  const auto row_at = [&](int64_t i) {
    return segment.rows == nullptr ? static_cast<Position>(segment.first_row + i) : segment.rows[i];
  };
  for (int64_t i = 0; i < segment.num_rows; ++i) {
    const Position row = row_at(i);
    const Bits* const __restrict__ from = segment.src + row * segment.inner;
    if (segment.rows != nullptr && i + 2 < segment.num_rows) {
      const char* const soon = reinterpret_cast<const char*>(segment.src + segment.rows[i + 2] * segment.inner);
      for (int64_t line = 0; line < columns * static_cast<int64_t>(sizeof(Bits)); line += 64) __builtin_prefetch(soon + line);
    }
    if (i == 0) {
      for (int64_t f = 0; f < columns; ++f) best[f] = Order::key(from[f], largest);
      for (int64_t f = 0; f < columns; ++f) where[f] = row;
      continue;
    }
    for (int64_t f = 0; f < columns; ++f) {
      const Key key = Order::key(from[f], largest);
      const bool better = key > best[f];
      best[f] = better ? key : best[f];
      where[f] = better ? row : where[f];
    }
  }
}

// Numbers with their positions, each a single integer: see extremum_kernel.h.
template <class Order>
void pack_extrema(const typename Order::Bits* __restrict__ from, int64_t count, bool largest, int64_t first_row,
                  uint64_t* __restrict__ packed) {
  const uint32_t first = static_cast<uint32_t>(first_row);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t high = static_cast<uint32_t>(static_cast<int32_t>(Order::key(from[i], largest))) ^ 0x80000000u;
    packed[i] = (static_cast<uint64_t>(high) << 32) | static_cast<uint32_t>(~(first + static_cast<uint32_t>(i)));
  }
}

template <class Order, bool kHasSelf>
void unpack_extrema_beside(const PackedExtrema<Order>& job) {
  using Bits = typename Order::Bits;
  using Key = typename Order::Key;
  const uint64_t* const __restrict__ packed = job.packed;
  const Bits* const __restrict__ self = job.self;
  Bits* const __restrict__ out = job.out;
  int64_t* const __restrict__ arg = job.arg;
  const bool largest = job.largest;
  const int64_t num_rows = job.num_rows;
  for (int64_t i = 0; i < job.count; ++i) {
    const int32_t key = static_cast<int32_t>(static_cast<uint32_t>(packed[i] >> 32) ^ 0x80000000u);
    const Bits own = kHasSelf ? self[i] : Bits{0};
    const bool stands = (packed[i] == 0) | (kHasSelf && static_cast<int32_t>(Order::key(own, largest)) >= key);
    out[i] = stands ? own : Order::bits(static_cast<Key>(key), largest);
    arg[i] = stands ? num_rows : static_cast<int64_t>(static_cast<uint32_t>(~packed[i]));
  }
}

template <class Order>
void unpack_extrema(const PackedExtrema<Order>& job) {
  job.self == nullptr ? unpack_extrema_beside<Order, false>(job) : unpack_extrema_beside<Order, true>(job);
}

template <class Order, class Position>
BestOfRows<Order, Position> best_of_rows(InstructionSet) {
  return best_of_segment<Order, Position>;
}

template <class Order>
PackingKernels<Order> packing_kernels(InstructionSet) {
  return {pack_extrema<Order>, unpack_extrema<Order>};
}
