// What g++ calls where kernels, compiled with -fsanitize=alignment,bounds,shift,float-cast-overflow, do what C++ leaves
// undefined and a device does differently from this processor: it faults on a misaligned vector, clamps a shift, saturates a
// conversion. As with the hooks in races.cpp the sanitizer's own library is not linked.
#include "block.h"

namespace reprocuda::emulation {
namespace {

// The beginning of every record that the compiler passes.
struct Place {
  const char* file;
  uint32_t line;
  uint32_t column;
};

void report(const void* record, const char* what) {
  if (current_block == nullptr) return;  // host code beside the kernels is tested elsewhere
  tracking_accesses = false;
  const Place& place = *static_cast<const Place*>(record);
  Block::current().fail(std::string(what) + " at " + place.file + ":" + std::to_string(place.line));
}

}  // namespace
}  // namespace reprocuda::emulation

#pragma GCC visibility push(default)
extern "C" {
using reprocuda::emulation::report;

void __ubsan_handle_type_mismatch_v1(void* record, uintptr_t) { report(record, "a misaligned access"); }
void __ubsan_handle_out_of_bounds(void* record, uintptr_t) { report(record, "an index outside an array"); }
void __ubsan_handle_shift_out_of_bounds(void* record, uintptr_t, uintptr_t) { report(record, "a shift by too many bits"); }
void __ubsan_handle_float_cast_overflow(void* record, uintptr_t) { report(record, "a conversion out of range"); }
}
#pragma GCC visibility pop
