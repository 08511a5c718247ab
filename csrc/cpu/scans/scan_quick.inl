// Prefix sums at the price of a few additions, right if the caller finds that no bit was lost: of whole short rows and of
// neighbouring columns. Included once for every instruction set, after scan_sums.inl and scan_tiles.inl. All of it rounds to
// nearest.

// Rounded once, without touching the processor's flags; NaNs are not canonical. `lost` becomes true where it does not hold.
template <class T>
[[gnu::always_inline]] inline Elements<T> round_quietly(Doubles<kLanes> x, Ints<kLanes>* lost) {
#if defined(__x86_64__)
  if constexpr (kLanes == 8) {
    if constexpr (sizeof(T) == 4) {
      constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      return (Elements<T>)_mm512_cvt_roundpd_ps((__m512d)x, kNearest);
    } else {
      return (Elements<T>)round_16_bits<T, kLanes>(x);
    }
  }
#endif
  Ints<kLanes> plain;
  const Ints<kLanes> bits = rounded_bits<T, kLanes>(x, &plain);
  *lost |= ~plain;
  T rounded[kLanes];
  store_bits<T, kLanes>(rounded, bits);
  return load_vector<Elements<T>>(rounded);
}

// A sum in one double: exact while no addition raises the inexact flag.
template <class T>
struct QuickLanes {
  Doubles<kLanes> sum;

  void clear() { sum = broadcast<kLanes>(-0.0); }
  // Adds x, behind `before` others if that is less than 2, and returns the sum, rounded once.
  [[gnu::always_inline]] Elements<T> add(Doubles<kLanes> x, int before, Ints<kLanes>* lost) {
    sum = before == 0 ? x : sum + x;
    return round_quietly<T>(sum, lost);
  }
  // NaNs remain: it is enough to look once.
  void check(Ints<kLanes>* lost) const { *lost |= sum != sum; }
};

template <>
struct QuickLanes<double> {
  PairLanes pair;

  void clear() { pair.clear(); }
  [[gnu::always_inline]] Doubles<kLanes> add(Doubles<kLanes> x, int before, Ints<kLanes>* lost) {
    if (before > 1) return pair.add(x, lost);
    if (before == 1) {
      pair.error = balanced_two_sum<kLanes>(&pair.sum, x);
    } else {
      pair.sum = x;
      pair.error = Doubles<kLanes>{};
    }
    return pair.sum;
  }
  // What is not finite remains so.
  void check(Ints<kLanes>* lost) const { *lost |= (pair.sum - pair.sum) != 0.0; }
};

// Slices of kLength elements, one behind the other: kLength whole vectors, whose elements are put in order by column and back.
// Not for more than 4: g++ 12 takes some shuffles of one vector of 8 doubles across 128-bit lanes for ones within (vpermilpd).
template <int kLength, int kColumn, int kSource, class Vector, int... kLane>
[[gnu::always_inline]] inline void take_column(Vector& column, Vector source, std::integer_sequence<int, kLane...>) {
  column = __builtin_shufflevector(column, source, ((kLane * kLength + kColumn) / kLanes == kSource
                                                        ? kLanes + (kLane * kLength + kColumn) % kLanes
                                                        : kLane)...);
}

template <int kLength, int kVector, int kSource, class Vector, int... kLane>
[[gnu::always_inline]] inline void take_row(Vector& vector, Vector source, std::integer_sequence<int, kLane...>) {
  vector = __builtin_shufflevector(vector, source, ((kVector * kLanes + kLane) % kLength == kSource
                                                        ? kLanes + (kVector * kLanes + kLane) / kLength
                                                        : kLane)...);
}

template <int kLength, bool kToColumns, class Vector, int... kStep>
[[gnu::always_inline]] inline void reorder(const Vector (&from)[kLength], Vector (&to)[kLength],
                                           std::integer_sequence<int, kStep...>) {
  constexpr auto kAll = std::make_integer_sequence<int, kLanes>();
  for (int k = 0; k < kLength; ++k) to[k] = from[0];
  if constexpr (kToColumns) {
    (take_column<kLength, kStep / kLength, kStep % kLength>(to[kStep / kLength], from[kStep % kLength], kAll), ...);
  } else {
    (take_row<kLength, kStep / kLength, kStep % kLength>(to[kStep / kLength], from[kStep % kLength], kAll), ...);
  }
}

template <class T, int kLength, int kParts>
inline void scan_vectors(const T* in, T* out, int64_t count, Ints<kLanes>* lost) {
  constexpr auto kSteps = std::make_integer_sequence<int, kLength * kLength>();
  Ints<kLanes> any_lost{};
  for (int64_t first = 0; first < count; first += kLanes, in += kLanes * kLength, out += kLanes * kLength) {
    Elements<T> loaded[kLength];
    Elements<T> columns[kLength];
    QuickLanes<T> sums[kParts];
    for (int k = 0; k < kLength; ++k) loaded[k] = load_vector<Elements<T>>(in + k * kLanes);
    reorder<kLength, true>(loaded, columns, kSteps);
#pragma GCC unroll 8
    for (int k = 0; k < kLength; ++k) {
      columns[k] = sums[k % kParts].add(widen_elements<T>(columns[k]), k / kParts, &any_lost);
    }
    for (const auto& sum : sums) sum.check(&any_lost);
    reorder<kLength, false>(columns, loaded, kSteps);
    for (int k = 0; k < kLength; ++k) store_vector(out + k * kLanes, loaded[k]);
  }
  *lost |= any_lost;
}

// Scans the first slices, if they are that short, and returns how many.
template <class T, int kParts>
inline int64_t scan_shortest(const T* in, T* out, int64_t count, int64_t length, Ints<kLanes>* lost) {
  count -= count % kLanes;
  if constexpr (kParts == 1) {
    if (length == 2) return scan_vectors<T, 2, 1>(in, out, count, lost), count;
    if (length == 3) return scan_vectors<T, 3, 1>(in, out, count, lost), count;
  }
  if constexpr (kParts == 1 || kParts == 2) {
    if (length == 4) return scan_vectors<T, 4, kParts>(in, out, count, lost), count;
  }
  return 0;
}

template <class T, int kParts, bool kFirst>
[[gnu::always_inline]] inline void scan_tile(Elements<T> (&rows)[kLanes], int64_t count, QuickLanes<T>* sums,
                                             Turn<kParts>& turn, Ints<kLanes>* lost) {
#pragma GCC unroll 8
  for (int r = 0; r < kLanes; ++r, ++turn) {
    if (r >= count) break;
    const int part = kParts > 0 ? r % kParts : *turn;
    rows[r] = sums[part].add(widen_elements<T>(rows[r]), kFirst && kParts > 0 ? r / kParts : 2, lost);
  }
}

// A tile touches a line of each of its slices, and each time other ones: no processor sees them coming.
template <class T>
[[gnu::always_inline]] inline void prefetch_slices(const T* in, T* out, int64_t length) {
  for (int k = 0; k < kLanes; ++k) {
    __builtin_prefetch(in + k * length);
    __builtin_prefetch(out + k * length, 1);
  }
}

// Whole contiguous slices.
template <class T, int kParts>
bool quick_rows(const T* in, T* out, int64_t count, int64_t length, int parts) {
  Ints<kLanes> lost{};
  const int64_t end = count * length;
  for (int64_t row = scan_shortest<T, kParts>(in, out, count, length, &lost); row < count; row += kLanes) {
    const int width = static_cast<int>(std::min<int64_t>(kLanes, count - row));
    const int64_t start = row * length;
    Turn<kParts> turn(parts);
    QuickLanes<T> sums[turn.kMost];
    Elements<T> rows[kLanes];
    for (int part = 0; part < turn.parts(); ++part) sums[part].clear();
    // Where a tile has them all, whole vectors: what they spill into the next slice is overwritten by it.
    const bool spills = length < kLanes && start + (kLanes - 1) * length + kLanes <= end;
    const T* const next_in = in + start + kLanes * length;
    T* const next_out = out + start + kLanes * length;
    if (length > kLanes) prefetch_slices(next_in, next_out, length);
    load_tile(in + start, length, width, spills ? kLanes : length, rows);
    scan_tile<T, kParts, true>(rows, length, sums, turn, &lost);
    store_tile(rows, out + start, length, width, spills ? kLanes : length);
    for (int64_t i = kLanes; i < length; i += kLanes) {
      if (i * static_cast<int64_t>(sizeof(T)) % 64 == 0) prefetch_slices(next_in + i, next_out + i, length);
      load_tile(in + start + i, length, width, length - i, rows);
      scan_tile<T, kParts, false>(rows, length - i, sums, turn, &lost);
      store_tile(rows, out + start + i, length, width, length - i);
    }
    for (int part = 0; part < turn.parts(); ++part) sums[part].check(&lost);
  }
  return !any<kLanes>(lost & ~static_cast<int64_t>(kSignBit));
}

template <class T, int kBefore>
[[gnu::always_inline]] inline void scan_line(const T* in, T* out, int64_t width, QuickLanes<T>* sums, Ints<kLanes>* lost) {
  int64_t k = 0;
  for (; k + kLanes <= width; k += kLanes, ++sums) {
    store_vector(out + k, sums->add(widen_elements<T>(load_vector<Elements<T>>(in + k)), kBefore, lost));
  }
  if (k < width) store_part(out + k, sums->add(widen_elements<T>(load_part(in + k, width - k)), kBefore, lost), width - k);
}

// At most kColumnBlock neighbouring columns.
template <class T>
bool quick_columns(const T* in, T* out, int64_t length, int64_t stride, int64_t width) {
  QuickLanes<T> sums[kColumnBlock / kLanes];
  Ints<kLanes> lost{};
  scan_line<T, 0>(in, out, width, sums, &lost);
  if (length > 1) scan_line<T, 1>(in + stride, out + stride, width, sums, &lost);
  for (int64_t i = 2; i < length; ++i) scan_line<T, 2>(in + i * stride, out + i * stride, width, sums, &lost);
  for (int64_t k = 0; k < width; k += kLanes) sums[k / kLanes].check(&lost);
  return !any<kLanes>(lost & ~static_cast<int64_t>(kSignBit));
}
