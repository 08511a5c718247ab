// Plain writes through an index, on the CPU. Knows nothing of torch.
//
// Guarantee: of all elements with one place the last along `dim` stands, whatever the number of threads. Every worker
// walks `dim` in order over places that no other worker writes: slices, columns, or a range of targets.
// Cost: one read of the index to check it, then one of index and source for each way the work is cut by targets; no memory. Of
// long rows, two and more for each target, two reads of the index and the last row of each target alone; 4 bytes a row.
#pragma once

#include "../problems/overwrite.h"

namespace reprocuda::cpu {

// False: an index is out of range, and nothing has been written.
bool overwrite(const Overwrite& problem);

}  // namespace reprocuda::cpu
