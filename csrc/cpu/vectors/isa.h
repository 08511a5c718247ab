// Which instruction set the vector kernels use, decided once at run time. All variants give the same bits.
#pragma once

namespace reprocuda::cpu {

enum class Isa { kPortable, kAvx2, kAvx512 };

// The widest set that this processor offers, or the narrower one named by REPROCUDA_CPU_ISA (portable, avx2, avx512).
Isa selected_isa();

}  // namespace reprocuda::cpu
