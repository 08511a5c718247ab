// Prefix sums of a few neighbouring columns by the filter. Included once for every instruction set, after scan_sums.inl and
// scan_tiles.inl.

template <class T>
inline bool scan_columns(const T* in, T* out, int64_t length, int64_t stride, int width, uint8_t* flags) {
  Lanes<T, kLanes> sums;
  sums.clear();
  unsigned failed = 0;
  for (int64_t i = 0; i < length; ++i, in += stride, out += stride) {
    T rounded[kLanes];  // lanes behind the last are zeros, of which each is certified
    sums.add(widen_elements<T>(width == kLanes ? load_vector<Elements<T>>(in) : load_part(in, width)));
    flags[i] = 0;
    if (!store_rounded<T>(sums, rounded)) [[unlikely]] {
      for (int lane = 0; lane < width; ++lane) {
        if (!sums.certify_lane(lane, 1, rounded + lane)) flags[i] |= static_cast<uint8_t>(1u << lane);
      }
      failed |= flags[i];
    }
    store_part(out, load_vector<Elements<T>>(rounded), width);
  }
  return failed != 0;
}
