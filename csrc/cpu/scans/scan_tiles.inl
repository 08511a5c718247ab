// Tiles of kLanes x kLanes elements: kLanes streams, read, turned and written. Included once for every instruction set, after
// lanes.inl.

// The bits of kLanes elements; of float64 the elements.
template <class T>
using Elements = std::conditional_t<
    sizeof(T) == 8, Doubles<kLanes>,
    std::conditional_t<sizeof(T) == 4, typename Vectors<kLanes>::Word, typename Vectors<kLanes>::Short>>;

template <class T>
[[gnu::always_inline]] inline Doubles<kLanes> widen_elements(Elements<T> elements) {
  T all[kLanes];
  store_vector(all, elements);
  return load<kLanes>(all);
}

// rows[r][lane] becomes rows[lane][r]. kHalf is 1 at the last of log2(kLanes) steps.
template <int kHalf, class Vector, int... kLane>
inline void exchange(Vector& a, Vector& b, std::integer_sequence<int, kLane...>) {
  const Vector first = __builtin_shufflevector(a, b, ((kLane & kHalf) != 0 ? kLane - kHalf + kLanes : kLane)...);
  b = __builtin_shufflevector(a, b, ((kLane & kHalf) != 0 ? kLane + kLanes : kLane + kHalf)...);
  a = first;
}

template <int kHalf, class Vector>
[[gnu::always_inline]] inline void transpose(Vector (&rows)[kLanes]) {
#pragma GCC unroll 8
  for (int r = 0; r < kLanes; ++r) {
    if ((r & kHalf) == 0) exchange<kHalf>(rows[r], rows[r + kHalf], std::make_integer_sequence<int, kLanes>());
  }
  if constexpr (kHalf > 1) transpose<kHalf / 2>(rows);
}

// The first `count` of kLanes elements; zeros behind them.
template <class T>
[[gnu::always_inline]] inline Elements<T> load_part(const T* from, int64_t count) {
#if defined(__x86_64__)
  if constexpr (kLanes == 8) {
    const __mmask8 mask = static_cast<__mmask8>((1u << count) - 1);
    if constexpr (sizeof(T) == 8) return (Elements<T>)_mm512_maskz_loadu_epi64(mask, from);
    if constexpr (sizeof(T) == 4) return (Elements<T>)_mm256_maskz_loadu_epi32(mask, from);
    if constexpr (sizeof(T) == 2) return (Elements<T>)_mm_maskz_loadu_epi16(mask, from);
  }
#endif
  Elements<T> part = {};
  std::memcpy(&part, from, sizeof(T) * static_cast<size_t>(count));
  return part;
}

template <class T>
[[gnu::always_inline]] inline void store_part(T* to, Elements<T> vector, int64_t count) {
#if defined(__x86_64__)
  if constexpr (kLanes == 8) {
    const __mmask8 mask = static_cast<__mmask8>((1u << count) - 1);
    if constexpr (sizeof(T) == 8) return _mm512_mask_storeu_epi64(to, mask, (__m512i)vector);
    if constexpr (sizeof(T) == 4) return _mm256_mask_storeu_epi32(to, mask, (__m256i)vector);
    if constexpr (sizeof(T) == 2) return _mm_mask_storeu_epi16(to, mask, (__m128i)vector);
  }
#endif
  std::memcpy(to, &vector, sizeof(T) * static_cast<size_t>(count));
}

// Streams behind the last repeat it, elements behind the end are 0: neither is stored.
template <class T>
[[gnu::always_inline]] inline void load_tile(const T* in, int64_t stride, int width, int64_t count,
                                             Elements<T> (&rows)[kLanes]) {
  const int64_t last = (width - 1) * stride;
  if (count >= kLanes) {
    for (int k = 0; k < kLanes; ++k) rows[k] = load_vector<Elements<T>>(in + std::min(k * stride, last));
  } else {
    for (int k = 0; k < kLanes; ++k) rows[k] = load_part(in + std::min(k * stride, last), count);
  }
  transpose<kLanes / 2>(rows);
}

template <class T>
[[gnu::always_inline]] inline void store_tile(Elements<T> (&rows)[kLanes], T* out, int64_t stride, int width, int64_t count) {
  transpose<kLanes / 2>(rows);
  if (count >= kLanes && width == kLanes) {
    for (int k = 0; k < kLanes; ++k) store_vector(out + k * stride, rows[k]);
  } else {
    for (int k = 0; k < width; ++k) store_part(out + k * stride, rows[k], std::min<int64_t>(count, kLanes));
  }
}
