"""Means with an initial value, which is in the sum and not in the count: a segment's `initial`, torch_scatter's `out`.

The sum over bags divides by the number of what it sums. So each of a target's n members, and the initial value, gets a
weight of 2, and n - 1 zeros are added: twice the sum over 2n, exact, rounded once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import ops
from ..arguments.autocast import outside_autocast
from ..ops import fragment


@torch.library.impl("reprocuda::mean_with_initial", "CompositeExplicitAutograd", lib=fragment)
def _mean_with_initial(self: Tensor, permutation: Tensor | None, offsets: Tensor, source: Tensor) -> Tensor:
    """(self + the sum of the rows of source that a plan aims there) / their number; self where there are none.

    Args:
        self: [num_targets, ...].
        permutation, offsets: of the plan of all rows.
        source: [num_rows, ...].
    """
    counts = offsets.diff()
    per_target = counts.reshape([-1] + [1] * (self.dim() - 1))
    if not (self.is_floating_point() or self.is_complex()):
        sums = ops.index_add_planned(self, 0, permutation, offsets, source)
        return torch.div(sums.to(torch.int64), per_target.clamp(min=1), rounding_mode="floor").to(self.dtype)
    own = torch.view_as_real(self) if self.is_complex() else self
    rows = torch.view_as_real(source) if self.is_complex() else source
    features = math.prod(own.shape[1:])
    own, rows = own.reshape(own.shape[0], features), rows.reshape(source.shape[0], features)
    means = _means(own, permutation, offsets, rows, counts)
    result = means.reshape(*self.shape, 2) if self.is_complex() else means.reshape(self.shape)
    result = torch.view_as_complex(result) if self.is_complex() else result
    return torch.where(per_target == 0, self, result)


@outside_autocast
def _means(own: Tensor, permutation: Tensor | None, offsets: Tensor, rows: Tensor, counts: Tensor) -> Tensor:
    num_rows = rows.shape[0]
    table = torch.cat([rows, own, rows.new_full((1, rows.shape[1]), -0.0)])
    # Behind each member a zero, but behind the first of a target the initial value.
    places = torch.full((num_rows, 2), table.shape[0] - 1, device=rows.device)
    places[:, 0] = torch.arange(num_rows, device=rows.device) if permutation is None else permutation
    full = (counts > 0).nonzero().flatten()
    places[offsets[full], 1] = num_rows + full
    twos = table.new_full((2 * num_rows,), 2, dtype=table.dtype if table.is_cpu else torch.float64)
    return ops.gather_segment_sum(table, places.flatten(), 2 * offsets, twos, True)


def by_plan(self: Tensor, dim: int, permutation: Tensor | None, offsets: Tensor, source: Tensor) -> Tensor:
    """`mean_with_initial` along `dim`."""
    means = ops.mean_with_initial(self.movedim(dim, 0), permutation, offsets, source.movedim(dim, 0))
    return means.movedim(0, dim).contiguous()


def by_elements(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`mean_with_initial`, the target along `dim` of each element of source named by an index of its shape."""
    if _is_of_rows(self, dim, index):
        rows = index
        for other in reversed(range(index.dim())):
            rows = rows if other == dim else rows.select(other, 0)
        return by_plan(self, dim, *ops.segment_plan(rows.long(), self.shape[dim]), source)
    places = torch.arange(self.numel(), device=self.device).reshape(self.shape).gather(dim, index.long())
    plan = ops.segment_plan(places.reshape(-1), self.numel())
    return ops.mean_with_initial(self.reshape(-1), *plan, source.reshape(-1)).reshape(self.shape)


def _is_of_rows(self: Tensor, dim: int, index: Tensor) -> bool:
    """Whether an index that was broadcast names the same target for all of a row."""
    others = [d for d in range(index.dim()) if d != dim]
    return index.dim() > 0 and all(index.stride(d) == 0 and index.shape[d] == self.shape[d] > 0 for d in others)
