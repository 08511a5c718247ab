// exp, log and sqrt of contiguous elements, one source for every instruction set.

template <Elementary kFunction>
inline void map_doubles(const double* in, double* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = elementary<kFunction>(in[i]);
}

template <class T, Elementary kFunction>
inline void map_blocks(const T* in, T* out, int64_t count) {
  if constexpr (std::is_same_v<T, double>) {
    map_doubles<kFunction>(in, out, count);
  } else {
    constexpr int64_t kBlock = 512;
    double block[kBlock];
    for (int64_t i = 0; i < count; i += kBlock) {
      const int64_t size = std::min(kBlock, count - i);
      widen_block(in + i, block, size);
      map_doubles<kFunction>(block, block, size);
      round_block(block, out + i, size);
    }
  }
}

template <class T>
void map_elements(Elementary function, const T* in, T* out, int64_t count) {
  dispatch_elementary(function, [&]<Elementary kFunction>() { map_blocks<T, kFunction>(in, out, count); });
}

template <class T>
MapElements<T> map_kernel(InstructionSet) {
  return map_elements<T>;
}
