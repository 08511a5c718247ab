// The emulated device: resident blocks, launches and their count.
//
// Each resident block lives on an operating system thread of its own, because `__shared__` is `static thread_local`; only
// the holder of a baton runs, so the interleaving is the schedule's and not the operating system's.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "block.h"
#include "faults.h"
#include "kernel_info.h"
#include "poison.h"

namespace reprocuda::emulation {

inline constexpr int kMaxResidentBlocks = 4;
inline constexpr double kPatienceSeconds = 2;  // of processor time between two synchronisation points
inline constexpr size_t kMaxDynamicShared = 99 * 1024;  // what every supported device grants

class Machine {
 public:
  // The workers outlive everything: they sleep until the process ends.
  static Machine& instance() {
    static Machine* machine = new Machine;
    return *machine;
  }

  void set_options(const Options& options) {
    const std::lock_guard lock(mutex_);
    options_ = options;
    launches_since_options_ = 0;
    choices_ = Random(~options.seed);
  }

  std::map<std::string, int64_t> launch_counts() const { return counts_; }
  void reset_launch_counts() { counts_.clear(); }
  void print(const std::string& text) { output_ += text; }
  std::string take_output() { return std::exchange(output_, {}); }
  void count(const std::string& name) { ++counts_[name]; }
  uint64_t steps() const { return total_steps_; }
  Random& choices() { return choices_; }

  void launch(const void* kernel, Index3 grid, Index3 block, size_t dynamic_bytes, void (*invoke)(const void*),
              const void* arguments) {
    const std::lock_guard lock(mutex_);
    kernel_ = &kernel_info(kernel);
    const std::string& name = kernel_->name;
    check_configuration(name, grid, block, dynamic_bytes);
    ++counts_[name];
    Random random(options_.seed * 1000003 + launches_since_options_++);
    begin(random, grid, block, dynamic_bytes, invoke, arguments);
    RaceDetector::instance().start_launch(num_blocks_, options_.detect_races);
    const int residents = static_cast<int>(std::min<uint64_t>(resident_blocks(random), num_blocks_));
    active_.clear();
    for (int i = 0; i < residents; ++i) active_.push_back(&worker(i));
    {
      const FaultGuard guard;
      overdue = false;
      sem_post(&active_[random.below(residents)]->turn);
      watch();
    }
    current_thread = nullptr;
    current_block = nullptr;
    total_steps_ += steps_;
    if (!error_.empty()) throw KernelError(name + ": " + error_ + (output_.empty() ? "" : "\n  printed: " + take_output()));
  }

 private:
  struct Worker final : BlockHost {
    explicit Worker(Machine& machine)
        : machine(machine), stacks(allocate(kMaxThreads * kStackBytes)), block(*this, stacks), dynamic(kMaxDynamicShared) {
      sem_init(&turn, 0, 0);
      std::thread runner([this] { this->machine.work(*this); });
      thread = runner.native_handle();
      runner.detach();
    }
    bool after_step() override { return machine.after_step(*this); }
    void fail(std::string message) override {
      if (machine.error_.empty()) machine.error_ = std::move(message);
    }
    static std::byte* allocate(size_t bytes) {
      void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      return static_cast<std::byte*>(memory);
    }

    Machine& machine;
    sem_t turn;
    pthread_t thread;
    std::byte* stacks;
    Block block;
    DynamicShared dynamic;
  };

  Machine() { sem_init(&done_, 0, 0); }

  static void wait(sem_t& semaphore) {
    while (sem_wait(&semaphore) != 0) {
    }
  }

  // Waits for the launch to end, and sees to it that it does.
  void watch() {
    const auto seconds = [](clockid_t clock) {
      timespec now{};
      clock_gettime(clock, &now);
      return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    };
    uint64_t seen = 0;
    double since = seconds(CLOCK_PROCESS_CPUTIME_ID);
    timespec next{};
    clock_gettime(CLOCK_REALTIME, &next);
    for (;;) {
      ++next.tv_sec;
      if (sem_timedwait(&done_, &next) == 0) return;
      if (errno != ETIMEDOUT) continue;
      const double now = seconds(CLOCK_PROCESS_CPUTIME_ID);
      const uint64_t steps = steps_.load(std::memory_order_relaxed);
      if (steps != seen) {
        seen = steps;
        since = now;
      } else if (now - since > kPatienceSeconds && current_block != nullptr) {
        pthread_kill(running_.load()->thread, FaultGuard::kOverdueSignal);
      }
    }
  }

  Worker& worker(int i) {
    while (static_cast<int>(workers_.size()) <= i) workers_.push_back(std::make_unique<Worker>(*this));
    return *workers_[i];
  }

  static void check_configuration(const std::string& name, Index3 grid, Index3 block, size_t dynamic_bytes) {
    const auto require = [&](bool condition, const char* what) {
      if (!condition) throw KernelError(name + ": invalid launch: " + what);
    };
    require(grid.x > 0 && grid.y > 0 && grid.z > 0, "an empty grid");
    require(grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535, "the grid is too large");
    require(block.x > 0 && block.y > 0 && block.z > 0, "an empty block");
    require(block.x <= kMaxThreads && block.y <= kMaxThreads && block.z <= 64, "the block is too large");
    require(block.x * block.y * block.z <= kMaxThreads, "more than 1024 threads a block");
    require(dynamic_bytes <= kMaxDynamicShared, "more dynamic shared memory than every device grants");
  }

  void begin(Random& random, Index3 grid, Index3 block, size_t dynamic_bytes, void (*invoke)(const void*),
             const void* arguments) {
    const int forced = options_.schedule;
    const auto schedule = static_cast<Schedule>(forced >= 0 ? forced : random.below(kNumSchedules));
    job_ = {invoke, arguments, grid, block, block.x * block.y * block.z, schedule, kernel_->module_base};
    dynamic_bytes_ = dynamic_bytes;
    num_blocks_ = uint64_t{grid.x} * grid.y * grid.z;
    steps_ = 0;
    error_.clear();
    pattern_ = PoisonPattern(random);
    random_ = random;
    // Any odd multiplier permutes a power of two; the indices beyond the grid are passed over.
    span_ = std::bit_ceil(num_blocks_);
    visited_ = 0;
    const bool in_order = schedule == Schedule::kForward || schedule == Schedule::kReverse;
    multiplier_ = in_order ? 1 : random_.next() | 1;
    offset_ = in_order ? 0 : random_.next();
    backwards_ = schedule == Schedule::kReverse;
    constexpr uint32_t kPeriods[] = {16, 128, 1024, 4096};
    switch_period_ = kPeriods[random_.below(std::size(kPeriods))];
    steps_to_switch_ = 1 + random_.below(2 * switch_period_);
  }

  uint64_t resident_blocks(Random& random) const {
    return options_.resident_blocks > 0 ? std::min(options_.resident_blocks, kMaxResidentBlocks)
                                        : 1 + random.below(kMaxResidentBlocks);
  }

  // The next block of the grid, in the schedule's order.
  bool take_block(Index3& index) {
    while (visited_ < span_) {
      const uint64_t position = (visited_++ * multiplier_ + offset_) & (span_ - 1);
      if (position >= num_blocks_) continue;
      const uint64_t b = backwards_ ? num_blocks_ - 1 - position : position;
      index = {static_cast<unsigned>(b % job_.grid.x), static_cast<unsigned>(b / job_.grid.x % job_.grid.y),
               static_cast<unsigned>(b / (uint64_t{job_.grid.x} * job_.grid.y))};
      return true;
    }
    return false;
  }

  // The life of a worker: sleep until handed the baton, run blocks while there are any, hand the baton on.
  void work(Worker& self) {
    for (;;) {
      wait(self.turn);
      running_ = &self;
      Index3 index;
      while (error_.empty() && take_block(index)) {
        self.block.run(job_, index, Random(random_.next()), prepare_shared(self));
        if (error_.empty() && !self.dynamic.guard_is_intact()) error_ = "a write past the dynamic shared memory";
      }
      std::erase(active_, &self);
      sem_post(active_.empty() ? &done_ : &active_[random_.below(static_cast<uint32_t>(active_.size()))]->turn);
    }
  }

  SharedMemory prepare_shared(Worker& self) {
    const auto [variables, variable_bytes] = static_shared_memory(*kernel_);
    pattern_.fill(variables, variable_bytes);
    self.dynamic.prepare(dynamic_bytes_, pattern_);
    std::byte* dynamic = self.dynamic.data();
    return {dynamic,
            {reinterpret_cast<uintptr_t>(dynamic), dynamic_bytes_ + DynamicShared::kGuardBytes},
            dynamic_bytes_,
            {reinterpret_cast<uintptr_t>(variables), variable_bytes}};
  }

  bool after_step(Worker& self) {
    const uint64_t steps = steps_.load(std::memory_order_relaxed) + 1;  // only the holder of the baton counts
    steps_.store(steps, std::memory_order_relaxed);
    if (steps > options_.max_steps && error_.empty()) error_ = "no progress after " + std::to_string(steps) + " steps";
    if (--steps_to_switch_ == 0) {
      steps_to_switch_ = 1 + random_.below(2 * switch_period_);
      Worker* other = active_[random_.below(static_cast<uint32_t>(active_.size()))];
      if (other != &self) {
        sem_post(&other->turn);
        wait(self.turn);
        running_ = &self;
      }
    }
    return error_.empty();
  }

  mutable std::mutex mutex_;
  Options options_;
  uint64_t launches_since_options_ = 0;
  Random choices_;  // of the harness around the kernels
  std::map<std::string, int64_t> counts_;
  uint64_t total_steps_ = 0;

  std::vector<std::unique_ptr<Worker>> workers_;
  sem_t done_;

  // The launch in progress; only the holder of the baton touches it.
  const KernelInfo* kernel_ = nullptr;
  Job job_;
  size_t dynamic_bytes_ = 0;
  uint64_t num_blocks_ = 0;
  uint64_t span_ = 0, visited_ = 0, multiplier_ = 1, offset_ = 0;
  bool backwards_ = false;
  std::atomic<uint64_t> steps_ = 0;
  std::atomic<Worker*> running_ = nullptr;
  uint32_t switch_period_ = 1, steps_to_switch_ = 1;
  Random random_;
  PoisonPattern pattern_;
  std::string error_;
  std::string output_;  // what kernels have printed
  std::vector<Worker*> active_;
};

}  // namespace reprocuda::emulation
