// Running products and log-sum-exps in one order, whoever computes them.
//
// The order: blocks of kRunningBlock elements along the dimension, groups of kBlocksOfGroup blocks. Inside a block from left to
// right; what precedes a block is what precedes its group, combined with the blocks before it in the group from left to
// right; groups likewise. A prefix is what precedes its block combined with the block's own. An empty part is left out.
// Guarantee: every step is a sequence of float64 operations, each rounded once, so the bits depend on neither device nor
// schedule. Narrower dtypes are rounded once, at the end; integers wrap.
#pragma once

#include "elementary.h"

namespace reprocuda {

inline constexpr int kRunningBlock = 64;
inline constexpr int kBlocksOfGroup = 256;

// What a stretch of elements comes to.
template <class C, int kCount>
struct RunningState {
  C cell[kCount];
};

// Each operation: its state, that of one element (of kComponents numbers), of two stretches, and the result of a state.
struct RealProduct {
  using Cell = double;
  static constexpr int kComponents = 1;
  using State = RunningState<double, 1>;
  static REPROCUDA_HD State of(const double* x) { return {{x[0]}}; }
  static REPROCUDA_HD State combine(const State& a, const State& b) { return {{a.cell[0] * b.cell[0]}}; }
  static REPROCUDA_HD void finish(const State& state, double* out) { out[0] = state.cell[0]; }
};

// As torch multiplies: its infinities and NaNs are those of the four products.
struct ComplexProduct {
  using Cell = double;
  static constexpr int kComponents = 2;
  using State = RunningState<double, 2>;
  static REPROCUDA_HD State of(const double* x) { return {{x[0], x[1]}}; }
  static REPROCUDA_HD State combine(const State& a, const State& b) {
    return {{a.cell[0] * b.cell[0] - a.cell[1] * b.cell[1], a.cell[0] * b.cell[1] + a.cell[1] * b.cell[0]}};
  }
  static REPROCUDA_HD void finish(const State& state, double* out) {
    out[0] = state.cell[0];
    out[1] = state.cell[1];
  }
};

// Modulo 2^64, whose last bits are those of every narrower integer.
struct IntegerProduct {
  using Cell = uint64_t;
  static constexpr int kComponents = 1;
  using State = RunningState<uint64_t, 1>;
  static REPROCUDA_HD State of(const uint64_t* x) { return {{x[0]}}; }
  static REPROCUDA_HD State combine(const State& a, const State& b) { return {{a.cell[0] * b.cell[0]}}; }
  static REPROCUDA_HD void finish(const State& state, uint64_t* out) { out[0] = state.cell[0]; }
};

// The largest of the elements, and the sum of exp(element - largest). Equal numbers, infinities too, differ by 0.
struct LogSumExp {
  using Cell = double;
  static constexpr int kComponents = 1;
  using State = RunningState<double, 2>;
  static REPROCUDA_HD State of(const double* x) { return {{x[0], 1.0}}; }
  static REPROCUDA_HD State combine(const State& a, const State& b) {
    const bool second = b.cell[0] > a.cell[0] || b.cell[0] != b.cell[0];
    const double largest = second ? b.cell[0] : a.cell[0];
    const double other = second ? a.cell[0] : b.cell[0];
    const double scale = exp_of(other == largest ? 0.0 : other - largest);
    return {{largest, second ? a.cell[1] * scale + b.cell[1] : a.cell[1] + b.cell[1] * scale}};
  }
  static REPROCUDA_HD void finish(const State& state, double* out) { out[0] = state.cell[0] + log_of(state.cell[1]); }
};

// What precedes something: nothing, or a state.
template <class Op>
struct Preceding {
  typename Op::State state;
  bool any;

  static REPROCUDA_HD Preceding nothing() { return {{}, false}; }
  REPROCUDA_HD void append(const typename Op::State& next) {
    state = any ? Op::combine(state, next) : next;
    any = true;
  }
  REPROCUDA_HD void append(const Preceding& next) {
    if (next.any) append(next.state);
  }
};

}  // namespace reprocuda
