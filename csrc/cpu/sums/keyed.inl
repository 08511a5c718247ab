// What loops over keys and cells of two doubles share. Included per instruction set after lanes.inl.

// a[0], b[0], a[1], b[1] ... in memory, for scalar code to pick up.
template <int L>
inline void store_interleaved(double* to, Doubles<L> a, Doubles<L> b) {
  if constexpr (L == 8) {
    store_vector(to, __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
    store_vector(to + 8, __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
  } else if constexpr (L == 4) {
    store_vector(to, __builtin_shufflevector(a, b, 0, 4, 1, 5));
    store_vector(to + 4, __builtin_shufflevector(a, b, 2, 6, 3, 7));
  } else {
    store_vector(to, __builtin_shufflevector(a, b, 0, 2));
    store_vector(to + 2, __builtin_shufflevector(a, b, 1, 3));
  }
}

// The inverse.
template <int L>
inline void load_interleaved(const double* from, Doubles<L>* a, Doubles<L>* b) {
  const auto first = load_vector<Doubles<L>>(from);
  const auto second = load_vector<Doubles<L>>(from + L);
  if constexpr (L == 8) {
    *a = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14);
    *b = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15);
  } else if constexpr (L == 4) {
    *a = __builtin_shufflevector(first, second, 0, 2, 4, 6);
    *b = __builtin_shufflevector(first, second, 1, 3, 5, 7);
  } else {
    *a = __builtin_shufflevector(first, second, 0, 2);
    *b = __builtin_shufflevector(first, second, 1, 3);
  }
}

// State kState of L cells of kStates doubles each, by shuffles: to read it back from single stores would wait for them.
template <int L, int kStates, int kState, size_t... kLane>
inline Doubles<L> state_of_cells(const double* cells, std::index_sequence<kLane...>) {
  constexpr auto place = [](int lane) { return lane * kStates + kState; };
  Doubles<L> state = load_vector<Doubles<L>>(cells);
  state = __builtin_shufflevector(state, state, (place(kLane) < L ? place(kLane) : static_cast<int>(kLane))...);
  const auto take_from = [&]<int kVector>(std::integral_constant<int, kVector>) {
    if constexpr (kVector < kStates) {
      state = __builtin_shufflevector(state, load_vector<Doubles<L>>(cells + kVector * L),
                                      (place(kLane) / L == kVector ? L + place(kLane) % L : static_cast<int>(kLane))...);
    }
  };
  take_from(std::integral_constant<int, 1>{});
  take_from(std::integral_constant<int, 2>{});
  take_from(std::integral_constant<int, 3>{});
  take_from(std::integral_constant<int, 4>{});
  return state;
}

// The states of L cells as lanes load them: all of the first, then all of the second.
template <int L, int kStates>
inline void load_cells(const double* cells, double* states) {
  static_assert(kStates <= 5);
  [&]<int... kState>(std::integer_sequence<int, kState...>) {
    (store_vector(states + kState * L, state_of_cells<L, kStates, kState>(cells, std::make_index_sequence<L>{})), ...);
  }(std::make_integer_sequence<int, kStates>{});
}

inline bool any_key_outside(const int64_t* keys, uint64_t bound) {
  return any<kLanes>(load_vector<typename Vectors<kLanes>::Bits>(keys) >= bound);
}

inline bool any_key_outside(const int32_t* keys, uint64_t bound) {
  const Ints<kLanes> wide = __builtin_convertvector(load_vector<typename Vectors<kLanes>::SignedWord>(keys), Ints<kLanes>);
  return any<kLanes>((typename Vectors<kLanes>::Bits)wide >= bound);
}
