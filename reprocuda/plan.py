"""SegmentPlan: which rows belong to which segment, found once and used by many sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from .arguments.signatures import KINDS, Kind, typed


def has_data(tensor: Tensor) -> bool:
    """Whether its entries may be read: not in code being compiled, nor of tensors that have a shape only."""
    return not (torch.compiler.is_compiling() or isinstance(tensor, FakeTensor) or tensor.is_meta)


def _refuse_batched(method: str, tensor: Tensor) -> None:
    if torch.compiler.is_compiling():
        return
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            raise RuntimeError(
                f"SegmentPlan.{method}(): the tensor is batched by vmap, and a plan is one grouping for all. Make the "
                "plan outside of vmap, or pass the index itself to the operator"
            )
        tensor = functorch.get_unwrapped(tensor)


@dataclass(frozen=True, eq=False)
class SegmentPlan:
    """A stable grouping of rows by target.

    Make it once, with one of the `from_` methods, and pass it wherever an operator takes `index`: to `index_add`,
    `index_select`, `embedding` and `segment_sum`, and through them to their backward. It is immutable, holds no sums
    and no values, and serves any dtype, any number of calls, layers and epochs.

    Attributes:
        permutation: int64 [num_rows], the rows grouped by segment, each segment's in their order; None if they are
        already.
        offsets: int64 [num_segments + 1], where each segment starts.
        num_rows: the number of rows.
        shape: the shape of the index that the plan was made from; `embedding` returns [*shape, features].

    Determinism: exact; a plan changes the order in which rows are read and never the sum.

    Cost: 16 bytes a row and 8 a segment; the index is copied: its buffer may be refilled. `from_index` groups with
    a counting sort on the CPU, O(num_rows + num_segments), and a radix sort on CUDA; the other two sort nothing.
    """

    permutation: Tensor | None
    offsets: Tensor
    num_rows: int
    shape: torch.Size

    @classmethod
    @typed
    def from_index(cls, index: Tensor, num_segments: int) -> SegmentPlan:
        """Groups the rows of an index in any order.

        Args:
            index: int32 or int64, any shape: the segment of each row, in [0, num_segments).
            num_segments: how many segments there are. It is never read off the index: that would wait for the device.

        Raises:
            IndexError: an entry is out of range (on CUDA: a device assert; see `check_indices`).
            RuntimeError: `index` is batched by vmap, as for the other two: a plan is one grouping for all.

        Example:
            >>> import torch, reprocuda
            >>> plan = reprocuda.SegmentPlan.from_index(torch.tensor([2, 0, 2]), 3)
            >>> plan.offsets.tolist(), plan.permutation.tolist()
            ([0, 1, 1, 3], [1, 0, 2])
        """
        from .arguments.checks import check_on_device, checks

        _refuse_batched("from_index", index)
        flat = index.detach().reshape(-1).clone()  # the caller may reuse the buffer between forward and backward
        if checks.on:
            check_on_device("SegmentPlan.from_index", flat, 0, num_segments)
        permutation, offsets = torch.ops.reprocuda.segment_plan(flat, num_segments)
        plan = cls(permutation, offsets, flat.numel(), index.shape)
        plan.__dict__["targets"] = flat.long()  # known already; the cached property would compute it
        return plan

    @classmethod
    @typed
    def from_offsets(cls, offsets: Tensor, *, num_rows: int | None = None) -> SegmentPlan:
        """Rows that are grouped already, as in a CSR matrix: segment s has the rows offsets[s] to offsets[s + 1] - 1.

        Args:
            offsets: int32 or int64 [num_segments + 1], from 0 and never falling.
            num_rows: its last entry. Give it on CUDA, where reading it waits for the device.

        Raises:
            ValueError: the offsets are not such a vector (on CUDA only their shape and dtype are checked).

        Example:
            >>> import torch, reprocuda
            >>> plan = reprocuda.SegmentPlan.from_offsets(torch.tensor([0, 2, 2, 3]))
            >>> reprocuda.segment_sum(torch.tensor([1., 2., 4.]), plan)
            tensor([3., 0., 4.])
        """
        _refuse_batched("from_offsets", offsets)
        if offsets.dim() != 1 or offsets.numel() == 0 or offsets.dtype not in (torch.int32, torch.int64):
            raise ValueError("offsets must be an int32 or int64 vector of num_segments + 1 elements")
        offsets = offsets.detach().to(torch.int64, copy=True)
        rows = int(offsets[-1]) if num_rows is None else num_rows
        readable = has_data(offsets) and offsets.is_cpu
        if readable and (int(offsets[0]) != 0 or int(offsets[-1]) != rows or bool((offsets.diff() < 0).any())):
            raise ValueError(f"offsets must rise from 0 to the number of rows, {rows}")
        return cls(None, offsets, rows, torch.Size([rows]))

    @classmethod
    @typed
    def from_sorted(cls, index: Tensor, num_segments: int) -> SegmentPlan:
        """Groups the rows of an index that rises already: one binary search a segment, no sort.

        Args:
            index: int32 or int64 [num_rows], never falling, in [0, num_segments).
            num_segments: how many segments there are.

        Raises:
            ValueError: the index is not sorted or out of range (checked on the CPU only, see `check_indices`;
                compiled code does not check).

        Example:
            >>> import torch, reprocuda
            >>> reprocuda.SegmentPlan.from_sorted(torch.tensor([0, 0, 2]), 3).offsets.tolist()
            [0, 2, 2, 3]
        """
        from .arguments.checks import checks

        _refuse_batched("from_sorted", index)
        if index.dim() != 1 or index.dtype not in (torch.int32, torch.int64):
            raise ValueError("a sorted index must be an int32 or int64 vector")
        index = index.detach().to(torch.int64, copy=True).contiguous()
        readable = has_data(index) and index.numel() and (index.is_cpu or checks.on)
        if readable and (bool((index.diff() < 0).any()) or int(index[0]) < 0 or int(index[-1]) >= num_segments):
            raise ValueError(f"a sorted index must rise within [0, {num_segments})")
        offsets = torch.searchsorted(index, torch.arange(num_segments + 1, device=index.device))
        plan = cls(None, offsets, index.numel(), index.shape)
        plan.__dict__["targets"] = index
        return plan

    @property
    def num_segments(self) -> int:
        return self.offsets.shape[0] - 1

    @cached_property
    def targets(self) -> Tensor:
        """int64 [num_rows]: the segment of each row."""
        segments = torch.arange(self.num_segments, device=self.offsets.device)
        grouped = torch.repeat_interleave(segments, self.offsets.diff(), output_size=self.num_rows)
        if self.permutation is None:
            return grouped
        return torch.empty_like(grouped).index_copy_(0, self.permutation, grouped)


KINDS["SegmentPlan"] = Kind("SegmentPlan", frozenset((SegmentPlan,)), lambda value: isinstance(value, SegmentPlan))
