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

inline bool any_key_outside(const int64_t* keys, uint64_t bound) {
  return any<kLanes>(load_vector<typename Vectors<kLanes>::Bits>(keys) >= bound);
}

inline bool any_key_outside(const int32_t* keys, uint64_t bound) {
  const Ints<kLanes> wide = __builtin_convertvector(load_vector<typename Vectors<kLanes>::SignedWord>(keys), Ints<kLanes>);
  return any<kLanes>((typename Vectors<kLanes>::Bits)wide >= bound);
}
