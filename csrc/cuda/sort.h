// Stable radix sort of (key, value) pairs: the one place that needs CUB, hidden behind a header that g++ can read too.
#pragma once

#include <cstdint>

#include "context.h"

namespace reprocuda::cuda {

template <class Word>
struct Pairs {
  Word* keys;
  Word* values;
};

// Sorts by the lowest `key_bits` bits of the keys, stably. Both arrays have `count` pairs and are overwritten; returns the
// one that holds the result. Word is uint32_t or uint64_t.
template <class Word>
Pairs<Word> sort_pairs(Pairs<Word> pairs, Pairs<Word> spare, int64_t count, int key_bits, const Context& context);

extern template Pairs<uint32_t> sort_pairs(Pairs<uint32_t>, Pairs<uint32_t>, int64_t, int, const Context&);
extern template Pairs<uint64_t> sort_pairs(Pairs<uint64_t>, Pairs<uint64_t>, int64_t, int, const Context&);

}  // namespace reprocuda::cuda
