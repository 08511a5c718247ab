// Rows into the bins of binned_sum.h, a vector of columns at a time; included per instruction set after lanes.inl.
//
// Guarantee: the bins hold the exact sums, as if BinnedSum::add had been called for every element. Up to eight rows are
// decoded into registers; then each bin that any of them needs takes its share by a masked addition, so nothing is scattered.
// Integer arithmetic only. Cost: about half a nanosecond an element while their exponents span few bins.

template <class T, class Position>
class BinnedRows {
 public:
  using V = Vectors<kLanes>;

  // `column` counts from the tile of the job; bin k of column c is bins[k * columns + c].
  BinnedRows(const RowsJob<T, Position>& job, int64_t column, int64_t columns, int64_t* bins, uint32_t* flags)
      : job_(job), offset_(job.first_column + column), columns_(columns), bins_(bins), flags_(flags) {}

  void add(int64_t first, int64_t last) const {
    for (; first + 8 <= last; first += 8) add_rows<8>(first);
    for (; first + 2 <= last; first += 2) add_rows<2>(first);
    if (first < last) add_rows<1>(first);
  }

 private:
  const T* row(int64_t position) const { return job_.src + job_.grouping.row(position) * job_.inner + offset_; }

  void add_scalars(const T* row, int64_t begin, int64_t end) const {
    for (int64_t c = begin; c < end; ++c) BinnedSum{bins_ + c, columns_, flags_ + c}.add(to_float(row[c]));
  }

  template <int kRows>
  void add_rows(int64_t first) const {
    const int64_t whole = columns_ / kLanes * kLanes;
    const T* rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = row(first + r);
    for (int64_t column = 0; column < whole; column += kLanes) add_block<kRows>(rows, column);
    for (int r = 0; r < kRows; ++r) add_scalars(rows[r], whole, columns_);
  }

  template <int kRows>
  void add_block(const T* const* rows, int64_t column) const {
    typename V::Word words[kRows];
    typename V::Word used = {};    // bit k: some lane needs bin k
    typename V::Word special = {};
    typename V::Word counted = {};
    for (int r = 0; r < kRows; ++r) {
      words[r] = (typename V::Word)load_floats<kLanes>(rows[r] + column);
      const typename V::Word field = (words[r] >> 23) & 0xff;
      special |= (typename V::Word)(field == 0xff);
      counted |= (typename V::Word)(words[r] != 0x80000000u);
      // Zeros need no bin, and subnormals share one with the smallest normal numbers.
      const typename V::Word nonzero = (typename V::Word)((words[r] << 1) != 0);
      used |= ((typename V::Word{} + 1) << (field >> 4)) & nonzero;
    }
    uint32_t any_special = 0;
    uint32_t any_used = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      any_special |= special[lane];
      any_used |= used[lane];
      flags_[column + lane] |= counted[lane] & kSawNonNegZero;
    }
    if (any_special != 0) {
      for (int r = 0; r < kRows; ++r) add_scalars(rows[r], column, column + kLanes);
      return;
    }
    Ints<kLanes> terms[kRows];
    Ints<kLanes> bin[kRows];
    for (int r = 0; r < kRows; ++r) {
      const typename V::Word field = (words[r] >> 23) & 0xff;
      const typename V::Word is_normal = (typename V::Word)(field != 0);
      const typename V::Word exponent = field + (1 & ~is_normal);
      const typename V::Word significand = (words[r] & 0x7fffff) | (0x800000 & is_normal);
      const Ints<kLanes> sign = __builtin_convertvector((typename V::SignedWord)words[r] >> 31, Ints<kLanes>);
      const Ints<kLanes> shift = __builtin_convertvector(exponent & 15, Ints<kLanes>);
      const Ints<kLanes> shifted = __builtin_convertvector(significand, Ints<kLanes>) << shift;
      terms[r] = (shifted ^ sign) - sign;
      bin[r] = __builtin_convertvector(exponent >> 4, Ints<kLanes>);
    }
    for (; any_used != 0; any_used &= any_used - 1) {
      const int64_t k = __builtin_ctz(any_used);
      int64_t* const at = bins_ + k * columns_ + column;
      Ints<kLanes> sum = load_vector<Ints<kLanes>>(at);
      for (int r = 0; r < kRows; ++r) sum += terms[r] & (bin[r] == k);
      store_vector(at, sum);
    }
  }

  const RowsJob<T, Position>& job_;
  int64_t offset_;
  int64_t columns_;
  int64_t* bins_;
  uint32_t* flags_;
};
