// Exact sums of rows as pairs of doubles, see numerics/pair_sum.h, a vector of columns at a time; included per instruction set
// after lanes.inl.
//
// Needs round-to-nearest. Cost: about as much an element as the filter, and a nanosecond a column.

template <class T, class Position, int L>
class PairRows {
 public:
  PairRows(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t target)
      : job_(job), first_(first), last_(last), outputs_(target * job.inner + job.first_column) {}

  // Stores what is proven; returns how many columns it leaves, at the front of `columns`.
  int64_t sum(int32_t* columns, int64_t count) {
    left_ = columns;
    for (int64_t c = 0; c < count;) {
      if (is_run<4>(columns + c, count - c)) {
        sum_run<4>(columns + c);
        c += 4 * L;
      } else if (is_run<1>(columns + c, count - c)) {
        sum_run<1>(columns + c);
        c += L;
      } else {
        const int lanes = static_cast<int>(std::min<int64_t>(L, count - c));
        sum_scattered(columns + c, lanes);
        c += lanes;
      }
    }
    return left_ - columns;
  }

 private:
  struct Pairs {
    Doubles<L> sum;
    Doubles<L> error;
    Ints<L> lost;

    void clear() {
      sum = broadcast<L>(-0.0);
      error = Doubles<L>{};
      lost = Ints<L>{};
    }
    void add(Doubles<L> x) {
      const Doubles<L> rest = accumulate_two_sum<L>(&sum, x);
      lost |= (Ints<L>)accumulate_two_sum<L>(&error, rest);
    }
  };

  const T* row(int64_t position) const {
    return job_.src + job_.grouping.row(position) * job_.inner + job_.first_column;
  }

  template <int kBlocks>
  bool is_run(const int32_t* columns, int64_t count) const {
    return job_.alpha.is_one && count >= kBlocks * L && columns[kBlocks * L - 1] - columns[0] == kBlocks * L - 1;
  }

  static Doubles<L> gather(const T* source, const int32_t* at) {
    Doubles<L> x;
    for (int lane = 0; lane < L; ++lane) x[lane] = to_double(source[at[lane]]);
    return x;
  }

  // Neighbouring columns.
  template <int kBlocks>
  void sum_run(const int32_t* columns) {
    Pairs pairs[kBlocks];
    for (int b = 0; b < kBlocks; ++b) pairs[b].clear();
    const auto add = [&](const T* source) {
      for (int b = 0; b < kBlocks; ++b) pairs[b].add(load<L>(source + columns[0] + b * L));
    };
    if (job_.self != nullptr) add(job_.self + outputs_);
    for (int64_t position = first_; position < last_; ++position) add(row(position));
    for (int b = 0; b < kBlocks; ++b) finish(pairs[b], columns + b * L, L, true);
  }

  // Any columns, and products. Lanes behind the last repeat it.
  void sum_scattered(const int32_t* columns, int lanes) {
    int32_t at[L];
    int32_t partners[L];  // real to imaginary part and back
    Doubles<L> crossed;
    for (int lane = 0; lane < L; ++lane) {
      at[lane] = columns[std::min(lane, lanes - 1)];
      partners[lane] = at[lane] ^ 1;
      crossed[lane] = (at[lane] & 1) != 0 ? job_.alpha.imag : -job_.alpha.imag;
    }
    Pairs pairs;
    pairs.clear();
    if (job_.self != nullptr) pairs.add(gather(job_.self + outputs_, at));
    for (int64_t position = first_; position < last_; ++position) {
      const Doubles<L> x = gather(row(position), at);
      pairs.add(job_.alpha.is_one ? x : broadcast<L>(job_.factor(position)) * x);  // exact in fp64
      if (job_.complex_pairs && !job_.alpha.is_one) pairs.add(crossed * gather(row(position), partners));
    }
    finish(pairs, columns, lanes, false);
  }

  void finish(const Pairs& pairs, const int32_t* columns, int lanes, bool is_run) {
    constexpr int64_t kSign = static_cast<int64_t>(kSignBit);
    Doubles<L> head = pairs.sum;
    const Doubles<L> tail = accumulate_two_sum<L>(&head, pairs.error);
    const Ints<L> lost = (pairs.lost & ~kSign) != 0;
    // round_to_odd, and the sign of an exact zero.
    const Ints<L> bits = (Ints<L>)head;
    const Ints<L> outward = (((Ints<L>)tail ^ bits) >> 63) | 1;
    const Ints<L> odd = bits + (outward & (tail != 0.0) & ((bits & 1) == 0));
    const Ints<L> zero = (Ints<L>)pairs.sum == kSign ? Ints<L>{} + kSign : Ints<L>{};
    const Doubles<L> value = (Doubles<L>)(head == 0.0 ? zero : odd);
    Ints<L> plain;
    const Ints<L> rounded = rounded_bits<T, L>(value, &plain);
    T* const out = job_.out + outputs_;
    if (is_run && !any<L>(lost | ~plain)) return store_bits<T, L>(out + columns[0], rounded);
    for (int lane = 0; lane < lanes; ++lane) {
      const int32_t column = columns[lane];
      if (lost[lane] != 0) {
        *left_++ = column;
      } else {
        out[column] = round_to<T>(value[lane]);
      }
    }
  }

  const RowsJob<T, Position>& job_;
  int64_t first_;
  int64_t last_;
  int64_t outputs_;
  int32_t* left_ = nullptr;
};
