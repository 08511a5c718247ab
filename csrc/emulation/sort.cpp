// The emulated twin of cuda/sort.cu. As with CUB, either pair of arrays may end up with the result and the other is garbage.
#include "../cuda/sort.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "api.h"

namespace reprocuda::cuda {

template <class Word>
Pairs<Word> sort_pairs(Pairs<Word> pairs, Pairs<Word> spare, int64_t count, int key_bits, const Context&) {
  emulation::count_launch("sort_pairs");
  const size_t n = static_cast<size_t>(count);
  const Word mask = key_bits >= static_cast<int>(8 * sizeof(Word)) ? ~Word{0} : (Word{1} << key_bits) - 1;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (pairs.keys[a] & mask) < (pairs.keys[b] & mask); });
  for (size_t i = 0; i < n; ++i) {
    spare.keys[i] = pairs.keys[order[i]];
    spare.values[i] = pairs.values[order[i]];
  }
  if (emulation::flip_coin()) {
    std::copy_n(spare.keys, n, pairs.keys);
    std::copy_n(spare.values, n, pairs.values);
    std::swap(pairs, spare);
  }
  emulation::poison(pairs.keys, n * sizeof(Word));
  emulation::poison(pairs.values, n * sizeof(Word));
  return spare;
}

template Pairs<uint32_t> sort_pairs(Pairs<uint32_t>, Pairs<uint32_t>, int64_t, int, const Context&);
template Pairs<uint64_t> sort_pairs(Pairs<uint64_t>, Pairs<uint64_t>, int64_t, int, const Context&);

}  // namespace reprocuda::cuda
