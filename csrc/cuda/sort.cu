#include "sort.h"

#include <cub/device/device_radix_sort.cuh>

#include "../kernels/device.cuh"

namespace reprocuda::cuda {

// Integer keys and a stable algorithm: the same permutation on every device.
template <class Word>
Pairs<Word> sort_pairs(Pairs<Word> pairs, Pairs<Word> spare, int64_t count, int key_bits, const Context& context) {
  cub::DoubleBuffer<Word> keys(pairs.keys, spare.keys);
  cub::DoubleBuffer<Word> values(pairs.values, spare.values);
  size_t bytes = 0;
  check_cuda(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, values, count, 0, key_bits, context.stream));
  void* temporary = context.temporary<char>(static_cast<int64_t>(bytes));
  check_cuda(cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, values, count, 0, key_bits, context.stream));
  return {keys.Current(), values.Current()};
}

template Pairs<uint32_t> sort_pairs(Pairs<uint32_t>, Pairs<uint32_t>, int64_t, int, const Context&);
template Pairs<uint64_t> sort_pairs(Pairs<uint64_t>, Pairs<uint64_t>, int64_t, int, const Context&);

}  // namespace reprocuda::cuda
