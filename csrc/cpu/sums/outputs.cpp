#include "outputs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../parallel.h"
#include "../workspace.h"

namespace reprocuda::cpu {

namespace {

constexpr int64_t kPieceBytes = 1 << 18;

// Two workers whose first writes meet in one fresh huge page would each clear it, so a piece of a large output is one.
int64_t piece_bytes(int64_t bytes) {
  constexpr int64_t huge_page = static_cast<int64_t>(kHugePage);
  return bytes >= 4 * huge_page ? huge_page : kPieceBytes;
}

}  // namespace

void fill_untouched(void* out, const void* self, int64_t bytes) {
  if (self == out) return;
  prefer_huge_pages(out, static_cast<size_t>(bytes));
  std::byte* const to = static_cast<std::byte*>(out);
  const std::byte* const from = static_cast<const std::byte*>(self);
  const int64_t piece_size = piece_bytes(bytes);
  const int64_t lead = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) % piece_size);  // pieces begin at multiples
  run_tasks(workers_for(bytes, kPieceBytes), (lead + bytes + piece_size - 1) / piece_size, [&](int, int64_t piece) {
    const int64_t begin = std::max<int64_t>(piece * piece_size - lead, 0);
    const int64_t size = std::min((piece + 1) * piece_size - lead, bytes) - begin;
    if (from == nullptr) {
      std::memset(to + begin, 0, size);
    } else {
      std::memcpy(to + begin, from + begin, size);
    }
  });
}

void fill_untouched(const Accumulation& problem) {
  const int64_t outputs = problem.outer * problem.num_targets * problem.inner;
  fill_untouched(problem.out, problem.self, outputs * element_size(problem.dtype));
}

}  // namespace reprocuda::cpu
