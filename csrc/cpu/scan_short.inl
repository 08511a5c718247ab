// Prefix sums of short slices: loaded and stored as whole vectors. Included once for every instruction set, after
// scan_sums.inl.

// Runs of kLength elements, one behind the other: kLength whole vectors, whose elements are put in order by column and back.
template <int kLength, int kColumn, int kSource, class Vector, int... kLane>
[[gnu::always_inline]] inline void take_column(Vector& column, Vector source, std::integer_sequence<int, kLane...>) {
  column = __builtin_shufflevector(column, source, ((kLane * kLength + kColumn) / kLanes == kSource
                                                        ? kLanes + (kLane * kLength + kColumn) % kLanes
                                                        : kLane)...);
}

template <int kLength, int kVector, int kSource, class Vector, int... kLane>
[[gnu::always_inline]] inline void take_run(Vector& vector, Vector source, std::integer_sequence<int, kLane...>) {
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
    (take_run<kLength, kStep / kLength, kStep % kLength>(to[kStep / kLength], from[kStep % kLength], kAll), ...);
  }
}

// Returns whether all prefixes of kLanes such runs are certified; if not, stored ones are worth nothing.
template <class T, int kLength, int kParts>
inline bool scan_short_runs(const T* in, T* out) {
  using Vector = std::conditional_t<
      sizeof(T) == 8, Doubles<kLanes>,
      std::conditional_t<sizeof(T) == 4, typename Vectors<kLanes>::Word, typename Vectors<kLanes>::Short>>;
  constexpr auto kSteps = std::make_integer_sequence<int, kLength * kLength>();
  Doubles<kLanes> loaded[kLength];
  Doubles<kLanes> columns[kLength];
  Vector results[kLength];
  Vector stored[kLength];
  for (int k = 0; k < kLength; ++k) loaded[k] = load<kLanes>(in + k * kLanes);
  reorder<kLength, true>(loaded, columns, kSteps);
  bool certified = true;
  if constexpr (std::is_same_v<T, double>) {
    PairLanes sums[kParts];
    Ints<kLanes> lost{};
    for (auto& sum : sums) sum.clear();
    for (int k = 0; k < kLength; ++k) results[k] = sums[k % kParts].add(columns[k], &lost);
    certified = !any<kLanes>(lost & ~static_cast<int64_t>(kSignBit));
  } else {
    Lanes<T, kLanes> sums[kParts];
    for (auto& sum : sums) sum.clear();
    for (int k = 0; k < kLength; ++k) {
      T rounded[kLanes];
      sums[k % kParts].add(columns[k]);
      certified = store_rounded<T>(sums[k % kParts], rounded) && certified;
      results[k] = load_vector<Vector>(rounded);
    }
  }
  reorder<kLength, false>(results, stored, kSteps);
  for (int k = 0; k < kLength; ++k) store_vector(out + k * kLanes, stored[k]);
  return certified;
}

template <class T, int kParts>
inline bool scan_if_short(const Streams<T>& streams) {
  if constexpr (kParts == 1 || kParts == 2) {
    if (streams.width < kLanes || streams.stride != streams.length) return false;
    if constexpr (kParts == 1) {
      if (streams.length == 2) return scan_short_runs<T, 2, 1>(streams.in, streams.out);
      if (streams.length == 3) return scan_short_runs<T, 3, 1>(streams.in, streams.out);
    }
    if (streams.length == 4) return scan_short_runs<T, 4, kParts>(streams.in, streams.out);
  }
  return false;
}
