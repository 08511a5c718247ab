// Who runs next: the adversary.
//
// A schedule is an order of preference over the threads of a block (a rank for each) and a rule that picks one of those
// that can run. Everything derives from one seed, so a failure found once is found again.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

namespace reprocuda::emulation {

enum class Schedule : int {
  kRandom,       // any thread that can run, a new choice at every step
  kForward,      // lane by lane: a thread runs until it must wait, the lowest first
  kReverse,      // the same, the highest first
  kRoundRobin,   // every thread one step, in turn: close to lockstep
  kByLane,       // lane 0 of every warp before lane 1 of any
  kPriorities,   // a random order of preference, in which the running thread is sometimes demoted
  kStarveWarp,   // one warp runs only when no other thread can
  kStarveThread, // one thread runs only when no other can
};
inline constexpr int kNumSchedules = 8;

class Random {
 public:
  explicit Random(uint64_t seed = 0) : state_(mix(seed + 0x9e3779b97f4a7c15)) {}

  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1d;
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }
  bool one_in(uint32_t n) { return below(n) == 0; }

  template <class Iterator>
  void shuffle(Iterator begin, Iterator end) {
    for (auto n = end - begin; n > 1; --n) std::swap(begin[n - 1], begin[below(static_cast<uint32_t>(n))]);
  }

  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
    return x == 0 ? 1 : x;
  }

 private:
  uint64_t state_;
};

// A set of ranks with a fast "next member from here".
class RankSet {
 public:
  void clear() {
    std::fill_n(words_, kWords, 0);
    used_ = 0;
  }
  void insert(unsigned rank) {
    words_[rank / 64] |= uint64_t{1} << (rank % 64);
    used_ |= 1u << (rank / 64);
  }
  void erase(unsigned rank) {
    uint64_t& word = words_[rank / 64];
    word &= ~(uint64_t{1} << (rank % 64));
    if (word == 0) used_ &= ~(1u << (rank / 64));
  }
  bool contains(unsigned rank) const { return (words_[rank / 64] >> (rank % 64)) & 1; }
  bool empty() const { return used_ == 0; }
  unsigned first() const {
    unsigned word = std::countr_zero(used_);
    return word * 64 + std::countr_zero(words_[word]);
  }
  // The first member at or after `rank`, or the first of all.
  unsigned next_from(unsigned rank) const {
    unsigned word = rank / 64;
    uint64_t rest = words_[word] & (~uint64_t{0} << (rank % 64));
    if (rest != 0) return word * 64 + std::countr_zero(rest);
    uint32_t later = used_ & (~uint32_t{0} << word << 1);
    if (later == 0) return first();
    word = std::countr_zero(later);
    return word * 64 + std::countr_zero(words_[word]);
  }

 private:
  static constexpr int kWords = 16;  // 1024 threads
  uint64_t words_[kWords] = {};
  uint32_t used_ = 0;  // which words are nonzero
};

class ThreadPicker {
 public:
  void start(Schedule schedule, unsigned num_threads, Random& random) {
    schedule_ = schedule;
    n_ = num_threads;
    last_ = 0;
    favoured_ = n_;
    thread_of_.resize(n_);
    rank_of_.resize(n_);
    std::iota(thread_of_.begin(), thread_of_.end(), 0u);
    order(random);
    for (unsigned rank = 0; rank < n_; ++rank) rank_of_[thread_of_[rank]] = rank;
    ready_.clear();
    for (unsigned rank = 0; rank < n_; ++rank) ready_.insert(rank);
  }

  void make_ready(unsigned thread) { ready_.insert(rank_of_[thread]); }
  void make_waiting(unsigned thread) { ready_.erase(rank_of_[thread]); }
  bool nobody_ready() const { return ready_.empty(); }

  unsigned pick(Random& random) {
    unsigned rank = 0;
    switch (schedule_) {
      case Schedule::kRandom:
        rank = ready_.next_from(random.below(n_));
        break;
      case Schedule::kRoundRobin:
        rank = ready_.next_from(last_ + 1 == n_ ? 0 : last_ + 1);
        break;
      case Schedule::kStarveWarp:
      case Schedule::kStarveThread:
        rank = favoured_ == 0 ? ready_.first() : ready_.next_from(random.below(favoured_));
        if (rank >= favoured_) rank = ready_.first();
        break;
      case Schedule::kPriorities:
        if (random.one_in(32)) demote(ready_.first(), random);
        rank = ready_.first();
        break;
      default:
        rank = ready_.first();
    }
    last_ = rank;
    return thread_of_[rank];
  }

 private:
  void order(Random& random) {
    const auto begin = thread_of_.begin();
    const auto end = thread_of_.end();
    constexpr unsigned kWarp = 32;
    switch (schedule_) {
      case Schedule::kReverse:
        std::reverse(begin, end);
        break;
      case Schedule::kByLane:
        std::stable_sort(begin, end, [](unsigned a, unsigned b) { return a % kWarp < b % kWarp; });
        break;
      case Schedule::kPriorities:
        random.shuffle(begin, end);
        break;
      case Schedule::kStarveWarp: {
        const unsigned victim = random.below((n_ + kWarp - 1) / kWarp);
        favoured_ = static_cast<unsigned>(
            std::stable_partition(begin, end, [=](unsigned t) { return t / kWarp != victim; }) - begin);
        break;
      }
      case Schedule::kStarveThread: {
        const unsigned victim = random.below(n_);
        std::rotate(begin + victim, begin + victim + 1, end);
        favoured_ = n_ - 1;
        break;
      }
      default:
        break;
    }
  }

  void demote(unsigned rank, Random& random) {
    const unsigned other = random.below(n_);
    const bool ready_here = ready_.contains(rank);
    const bool ready_there = ready_.contains(other);
    std::swap(thread_of_[rank], thread_of_[other]);
    rank_of_[thread_of_[rank]] = rank;
    rank_of_[thread_of_[other]] = other;
    if (ready_here == ready_there) return;
    (ready_there ? ready_.insert(rank) : ready_.erase(rank));
    (ready_here ? ready_.insert(other) : ready_.erase(other));
  }

  Schedule schedule_ = Schedule::kForward;
  unsigned n_ = 0;
  unsigned last_ = 0;
  unsigned favoured_ = 0;  // ranks below this one go first
  std::vector<unsigned> thread_of_;
  std::vector<unsigned> rank_of_;
  RankSet ready_;
};

}  // namespace reprocuda::emulation
