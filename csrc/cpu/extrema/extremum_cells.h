// The best so far of every output of an extremum with its position, in one integer or in two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../../problems/extremum.h"

namespace reprocuda::cpu {

// Number and position in one integer, whose maximum is the larger number and of equal ones the smaller position. 0: none.
struct PackedCells {
  static constexpr int64_t kMaxRows = (int64_t{1} << 32) - 1;
  uint64_t* cells;

  static PackedCells of_results(const Extremum& problem, std::byte*) { return {reinterpret_cast<uint64_t*>(problem.arg)}; }
  static size_t bytes_each() { return sizeof(uint64_t); }
  static PackedCells at(std::byte* memory, int64_t) { return {reinterpret_cast<uint64_t*>(memory)}; }

  void clear(int64_t begin, int64_t end) const { std::fill(cells + begin, cells + end, 0); }
  PackedCells from(int64_t i) const { return {cells + i}; }
  void take(int64_t i, int32_t key, int64_t row) const {
    const uint64_t high = static_cast<uint32_t>(key) ^ 0x80000000u;
    cells[i] = std::max(cells[i], (high << 32) | static_cast<uint32_t>(~row));
  }
  void merge(int64_t i, const PackedCells& other) const { cells[i] = std::max(cells[i], other.cells[i]); }
  bool none(int64_t i) const { return cells[i] == 0; }
  int64_t key(int64_t i) const { return static_cast<int32_t>(static_cast<uint32_t>(cells[i] >> 32) ^ 0x80000000u); }
  int64_t row(int64_t i) const { return static_cast<uint32_t>(~cells[i]); }
};

// The same in two integers; -1: none.
struct WideCells {
  int64_t* keys;
  int64_t* rows;

  // The numbers' own memory holds the keys where it is as wide.
  static WideCells of_results(const Extremum& problem, std::byte* keys) {
    return {reinterpret_cast<int64_t*>(keys == nullptr ? static_cast<std::byte*>(problem.out) : keys), problem.arg};
  }
  static size_t bytes_each() { return 2 * sizeof(int64_t); }
  static WideCells at(std::byte* memory, int64_t count) {
    return {reinterpret_cast<int64_t*>(memory), reinterpret_cast<int64_t*>(memory) + count};
  }

  void clear(int64_t begin, int64_t end) const { std::fill(rows + begin, rows + end, -1); }
  WideCells from(int64_t i) const { return {keys + i, rows + i}; }
  void take(int64_t i, int64_t key, int64_t row) const {
    const bool better = rows[i] < 0 || key > keys[i];
    keys[i] = better ? key : keys[i];
    rows[i] = better ? row : rows[i];
  }
  // Rows of `other` come after ours.
  void merge(int64_t i, const WideCells& other) const {
    if (!other.none(i)) take(i, other.keys[i], other.rows[i]);
  }
  bool none(int64_t i) const { return rows[i] < 0; }
  int64_t key(int64_t i) const { return keys[i]; }
  int64_t row(int64_t i) const { return rows[i]; }
};

}  // namespace reprocuda::cpu
