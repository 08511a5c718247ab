// Which instruction set the vector kernels use, decided once at run time. All variants give the same bits.
//
// A kernel exists once per instruction set, in a namespace of that set's name, and takes the set's tag first. So an
// unqualified call with a tag finds the kernel of that namespace, and with_isa is the only place that knows them all.
#pragma once

namespace reprocuda::cpu {

namespace portable {
struct InstructionSet {};
}
namespace avx2 {
struct InstructionSet {};
}
namespace avx512 {
struct InstructionSet {};
}

enum class Isa { kPortable, kAvx2, kAvx512 };

// The widest set that this processor offers, or the narrower one named by REPROCUDA_CPU_ISA (portable, avx2, avx512). The first
// call, which is made when the library is loaded, throws std::invalid_argument for any other name.
Isa selected_isa();

// function(tag) for the set in use.
template <class Function>
auto with_isa(Function&& function) {
  switch (selected_isa()) {
#if defined(__x86_64__)
    case Isa::kAvx512: return function(avx512::InstructionSet{});
    case Isa::kAvx2: return function(avx2::InstructionSet{});
#endif
    default: return function(portable::InstructionSet{});
  }
}

}  // namespace reprocuda::cpu
