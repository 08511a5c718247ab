#include "sort.h"

#include "../kernels/device.cuh"

#if defined(__CUDACC__)
#include <cub/device/device_radix_sort.cuh>
#else
#include <algorithm>
#include <numeric>
#include <vector>
#endif

namespace reprocuda::cuda {

#if defined(__CUDACC__)

// Integer keys and a fixed algorithm: the same permutation on every device.
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

#else

template <class Word>
Pairs<Word> sort_pairs(Pairs<Word> pairs, Pairs<Word> spare, int64_t count, int key_bits, const Context&) {
  emulation::Machine::instance().count("sort_pairs");
  const Word mask = key_bits >= static_cast<int>(8 * sizeof(Word)) ? ~Word{0} : (Word{1} << key_bits) - 1;
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return (pairs.keys[a] & mask) < (pairs.keys[b] & mask); });
  for (int64_t i = 0; i < count; ++i) {
    spare.keys[i] = pairs.keys[order[static_cast<size_t>(i)]];
    spare.values[i] = pairs.values[order[static_cast<size_t>(i)]];
  }
  return spare;
}

#endif

template Pairs<uint32_t> sort_pairs(Pairs<uint32_t>, Pairs<uint32_t>, int64_t, int, const Context&);
template Pairs<uint64_t> sort_pairs(Pairs<uint64_t>, Pairs<uint64_t>, int64_t, int, const Context&);

}  // namespace reprocuda::cuda
