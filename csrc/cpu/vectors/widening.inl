// Whole blocks of an element type to doubles and back, rounded once. Included behind lanes.inl, as that is.

template <class T>
inline void widen_block(const T* in, double* out, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_vector(out + i, load<kLanes>(in + i));
  for (; i < count; ++i) out[i] = to_double(in[i]);
}

// Every NaN becomes the quiet one.
template <class T>
inline void round_block(const double* in, T* out, int64_t count) {
  if constexpr (sizeof(T) >= 4) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<T>(detail::select(in[i] == in[i], in[i], from_bits<double>(FloatFormat<double>::kQuietNaN)));
    }
  } else {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      Ints<kLanes> plain;
      const Ints<kLanes> bits = rounded_bits<T, kLanes>(load_vector<Doubles<kLanes>>(in + i), &plain);
      if (any<kLanes>(~plain)) [[unlikely]] {
        for (int k = 0; k < kLanes; ++k) out[i + k] = round_to<T>(in[i + k]);
      } else {
        store_bits<T, kLanes>(out + i, bits);
      }
    }
    for (; i < count; ++i) out[i] = round_to<T>(in[i]);
  }
}
