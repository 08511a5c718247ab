// The keys of an element-wise problem, computed on the fly: one walk over the elements in logical order that yields runs
// along the innermost dimension.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../problems/accumulation.h"
#include "../index_checks.h"

namespace reprocuda::cpu {

class ElementKeys {
 public:
  // `problem` must outlive the keys.
  explicit ElementKeys(const ElementAccumulation& problem);

  // A stretch of elements that are evenly spaced in all three arrays; offsets count elements.
  struct Run {
    int64_t element;
    int64_t length;
    int64_t src;
    int64_t index;
    int64_t key;  // without the part that the index adds
  };

  int ndim() const { return ndim_; }
  int64_t size(int d) const { return dims_[d].size; }
  int64_t src_stride() const { return dims_[ndim_ - 1].src; }
  int64_t index_stride() const { return dims_[ndim_ - 1].index; }
  int64_t key_stride() const { return dims_[ndim_ - 1].key; }
  // What one step of the index adds to the key.
  int64_t index_scale() const { return index_scale_; }

  // Calls visit(Run) for the elements in [begin, end).
  template <class Visit>
  void for_each_run(int64_t begin, int64_t end, Visit&& visit) const {
    if (begin >= end) return;
    int64_t at[kMaxDims];
    Run run{begin, 0, 0, 0, 0};
    int64_t rest = begin;
    for (int d = ndim_ - 1; d >= 0; --d) {
      at[d] = rest % dims_[d].size;
      rest /= dims_[d].size;
      run.src += at[d] * dims_[d].src;
      run.index += at[d] * dims_[d].index;
      run.key += at[d] * dims_[d].key;
    }
    const Dim& inner = dims_[ndim_ - 1];
    for (;;) {
      run.length = std::min(inner.size - at[ndim_ - 1], end - run.element);
      visit(run);
      run.element += run.length;
      if (run.element >= end) return;
      // Back to the start of the innermost dimension, then one step further out, as an odometer turns.
      move(run, inner, -at[ndim_ - 1]);
      at[ndim_ - 1] = 0;
      for (int d = ndim_ - 2; d >= 0; --d) {
        if (++at[d] < dims_[d].size) {
          move(run, dims_[d], 1);
          break;
        }
        move(run, dims_[d], 1 - at[d]);
        at[d] = 0;
      }
    }
  }

  // Calls visit(key, value) for the elements in [begin, end), whose index must be in range.
  template <class U, class Visit>
  void for_each(int64_t begin, int64_t end, Visit&& visit) const {
    with_index([&](auto* index) {
      const U* const src = static_cast<const U*>(problem_.src);
      const int64_t src_step = src_stride();
      const int64_t index_step = index_stride();
      const int64_t key_step = key_stride();
      for_each_run(begin, end, [&](const Run& run) {
        for (int64_t i = 0; i < run.length; ++i) {
          visit(run.key + i * key_step + index[run.index + i * index_step] * index_scale_, src[run.src + i * src_step]);
        }
      });
    });
  }

  // Calls visit(key); returns the first element whose index is out of range, where it stops, or -1.
  template <class Visit>
  int64_t for_each_key(int64_t begin, int64_t end, Visit&& visit) const {
    return with_index([&](auto* index) {
      const uint64_t bound = static_cast<uint64_t>(problem_.dim_size);
      int64_t bad = -1;
      for_each_run(begin, end, [&](const Run& run) {
        for (int64_t i = 0; bad < 0 && i < run.length; ++i) {
          const int64_t at = index[run.index + i * index_stride()];
          if (static_cast<uint64_t>(at) >= bound) {
            bad = run.element + i;
          } else {
            visit(run.key + i * key_stride() + at * index_scale_);
          }
        }
      });
      return bad;
    });
  }

  // Calls function(const int32_t*) or function(const int64_t*).
  template <class Function>
  auto with_index(Function&& function) const {
    if (problem_.index_is_int64) return function(static_cast<const int64_t*>(problem_.index));
    return function(static_cast<const int32_t*>(problem_.index));
  }

  // The first element whose index is out of range, or -1.
  int64_t first_out_of_range() const;

 private:
  struct Dim {
    int64_t size;
    int64_t src;
    int64_t index;
    int64_t key;
  };

  static void move(Run& run, const Dim& dim, int64_t steps) {
    run.src += steps * dim.src;
    run.index += steps * dim.index;
    run.key += steps * dim.key;
  }

  const ElementAccumulation& problem_;
  Dim dims_[kMaxDims];
  int ndim_ = 0;
  int64_t index_scale_ = 1;
};

}  // namespace reprocuda::cpu
