// Integer sums in a window of bits, see fixed_bins.h. Included once for every instruction set, after lanes.inl.
//
// Needs round-to-nearest. Adding 1.5 * 2^52 to a double below 2^51 in magnitude rounds it to an integer, and leaves that in the
// lower bits of the sum: so both integers of a number are made by additions, and so are doubles of integers.
namespace {
#include "keyed.inl"
}  // namespace

inline constexpr double kMagic = 0x1.8p52;

template <int L>
inline Ints<L> integer_in(Doubles<L> sum) {
  return (Ints<L>)sum - static_cast<int64_t>(bits_of(kMagic));
}

// For |value| < 2^51.
template <int L>
inline Doubles<L> double_of(Ints<L> value) {
  return (Doubles<L>)(value + static_cast<int64_t>(bits_of(kMagic))) - kMagic;
}

template <int L>
struct Split {
  Ints<L> high;
  Ints<L> low;
  Ints<L> misfit;  // all ones where the number is not what the two say
};

// x * to_high and the remainder are exact: multiples of a power of two, close to each other. A product that underflows to 0 and
// a -0 are told by the last condition; one that underflows to something else is no integer; what is not finite leaves a NaN.
template <int L>
inline Split<L> split(Doubles<L> x, const FixedWindow& window) {
  const Doubles<L> scaled = x * window.to_high;
  const Doubles<L> high = scaled + kMagic;
  const Doubles<L> rest = (scaled - (high - kMagic)) * static_cast<double>(int64_t{1} << window.low_bits);
  const Doubles<L> low = rest + kMagic;
  const Doubles<L> size = (Doubles<L>)((Ints<L>)scaled & static_cast<int64_t>(~kSignBit));
  const Ints<L> misfit = ((low - kMagic) != rest) | ~(size <= window.most_high) | ((scaled == 0.0) & ((Ints<L>)x != 0));
  return {integer_in<L>(high), integer_in<L>(low), misfit};
}

inline Split<2> split_one(double x, const FixedWindow& window) { return split<2>(Doubles<2>{x, 0.0}, window); }

inline bool start_fixed(const FixedWindow& window, int64_t* cells, const double* self, int64_t count) {
  Ints<kLanes> misfits = {};
  int64_t t = 0;
  for (; t + kLanes <= count; t += kLanes) {
    const Split<kLanes> parts = split<kLanes>(load_vector<Doubles<kLanes>>(self + t), window);
    store_interleaved<kLanes>(reinterpret_cast<double*>(cells + 2 * t), (Doubles<kLanes>)parts.high,
                              (Doubles<kLanes>)parts.low);
    misfits |= parts.misfit;
  }
  bool fits = !any<kLanes>(misfits);
  for (; t < count; ++t) {
    const Split<2> parts = split_one(self[t], window);
    cells[2 * t] = parts.high[0];
    cells[2 * t + 1] = parts.low[0];
    fits = fits && parts.misfit[0] == 0;
  }
  return fits;
}

template <class Key>
int64_t add_fixed(const FixedWindow& window, int64_t* cells, int64_t num_targets, const Key* keys, const double* src,
                  int64_t first, int64_t last, bool* fits) {
  const uint64_t bound = static_cast<uint64_t>(num_targets);
  Ints<kLanes> misfits = {};
  int64_t row = first;
  for (; row + kLanes <= last; row += kLanes) {
    if (any_key_outside(keys + row, bound)) break;
    const Split<kLanes> parts = split<kLanes>(load_vector<Doubles<kLanes>>(src + row), window);
    misfits |= parts.misfit;
    alignas(64) double pairs[2 * kLanes];
    store_interleaved<kLanes>(pairs, (Doubles<kLanes>)parts.high, (Doubles<kLanes>)parts.low);
    for (int lane = 0; lane < kLanes; ++lane) {
      int64_t* const cell = cells + 2 * static_cast<int64_t>(keys[row + lane]);
      store_vector(cell, load_vector<Ints<2>>(cell) + load_vector<Ints<2>>(pairs + 2 * lane));
    }
  }
  *fits = !any<kLanes>(misfits);
  for (; row < last; ++row) {
    const uint64_t key = static_cast<uint64_t>(static_cast<int64_t>(keys[row]));
    if (key >= bound) return row;
    const Split<2> parts = split_one(src[row], window);
    *fits = *fits && parts.misfit[0] == 0;
    cells[2 * key] += parts.high[0];
    cells[2 * key + 1] += parts.low[0];
  }
  return -1;
}

inline void normalize_fixed(const FixedWindow& window, int64_t* cells, int64_t count) {
  const int64_t mask = (int64_t{1} << window.low_bits) - 1;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t low = cells[2 * t + 1];
    cells[2 * t] += low >> window.low_bits;
    cells[2 * t + 1] = low & mask;
  }
}

// Both doubles hold their integers, so that their sum is rounded once, and scaled exactly: no nonzero sum is near the ends of
// the format.
inline void finish_fixed(const FixedWindow& window, const int64_t* sets, int64_t num_sets, int64_t set_stride, double* out,
                         int64_t first, int64_t last) {
  constexpr int64_t kMost = int64_t{1} << 50;
  const int64_t mask = (int64_t{1} << window.low_bits) - 1;
  const double low_range = static_cast<double>(int64_t{1} << window.low_bits);
  const double unit = from_bits<double>(static_cast<uint64_t>(1023 + window.unit) << 52);
  for (int64_t t = first; t < last; t += kLanes) {
    Ints<kLanes> high = {};
    Ints<kLanes> low = {};
    for (int64_t set = 0; set < num_sets; ++set) {
      Doubles<kLanes> a;
      Doubles<kLanes> b;
      // Past the last is padding.
      load_interleaved<kLanes>(reinterpret_cast<const double*>(sets + set * set_stride + 2 * t), &a, &b);
      high += (Ints<kLanes>)a;
      low += (Ints<kLanes>)b;
    }
    high += low >> window.low_bits;
    low &= mask;
    double results[kLanes];
    store_vector(results, (double_of<kLanes>(high) * low_range + double_of<kLanes>(low)) * unit);
    if (any<kLanes>((Ints<kLanes>)((typename Vectors<kLanes>::Bits)(high + kMost) >= static_cast<uint64_t>(2 * kMost)))) {
      for (int lane = 0; lane < kLanes; ++lane) {
        Fixed128 sum = Fixed128::from_integer(high[lane]).shifted_left(window.low_bits);
        sum = sum.plus(Fixed128::from_integer(low[lane]));
        results[lane] = round_fixed<double>(sum, window.unit, false, false);
      }
    }
    std::memcpy(out + t, results, std::min<int64_t>(kLanes, last - t) * sizeof(double));
  }
}

FixedBinsKernels fixed_bins_kernels(InstructionSet) {
  return {&start_fixed, &add_fixed<int32_t>, &add_fixed<int64_t>, &normalize_fixed, &finish_fixed};
}
