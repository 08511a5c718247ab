// The best of a segment's rows, column by column, and the first row that has it. Included once for every instruction set.

template <class Order, class Position>
void best_of_rows(const ExtremumSegment<Order, Position>& segment) {
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

// Every order and width of positions that a problem can have.
template void best_of_rows(const ExtremumSegment<IntegerOrder<uint8_t>, int32_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<uint8_t>, int64_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<int8_t>, int32_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<int8_t>, int64_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<int16_t>, int32_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<int16_t>, int64_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<int32_t>, int32_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<int32_t>, int64_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<int64_t>, int32_t>&);
template void best_of_rows(const ExtremumSegment<IntegerOrder<int64_t>, int64_t>&);
template void best_of_rows(const ExtremumSegment<Float16Order, int32_t>&);
template void best_of_rows(const ExtremumSegment<Float16Order, int64_t>&);
template void best_of_rows(const ExtremumSegment<BFloat16Order, int32_t>&);
template void best_of_rows(const ExtremumSegment<BFloat16Order, int64_t>&);
template void best_of_rows(const ExtremumSegment<Float32Order, int32_t>&);
template void best_of_rows(const ExtremumSegment<Float32Order, int64_t>&);
template void best_of_rows(const ExtremumSegment<Float64Order, int32_t>&);
template void best_of_rows(const ExtremumSegment<Float64Order, int64_t>&);
