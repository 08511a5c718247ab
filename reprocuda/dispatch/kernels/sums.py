"""What replaces aten's sums by index."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ... import ops
from ...arguments.alpha import LARGEST_EXACT, split_alpha
from ...arguments.autocast import widest
from ...arguments.checks import check_on_device, checks
from ...families.points import has_duplicates, normalize_indices, on_device_of
from ..overrides import Override, Slot
from .support import ERRORS, along_dim, along_dim_out, size_along, writes_through


def _index_add(slot: Slot) -> Callable:
    switch, keys, ours, in_place = slot.switch, slot.keys, slot.ours, slot.override.in_place

    def kernel(self, dim, index, source, *, alpha=1):
        try:
            if not switch.on:
                if alpha == 1:
                    return slot.native(keys, self, dim, index, source)
                return slot.native(keys, self, dim, index, source, alpha=alpha)
            if checks.on:
                check_on_device("index_add", index, 0, size_along(self, dim))
            if alpha == 1:
                result = ours(self, dim, index, source)
            elif self.is_floating_point() and (
                type(alpha) is float or (type(alpha) is int and -LARGEST_EXACT <= alpha <= LARGEST_EXACT)
            ):
                result = ours(self, dim, index, source, alpha)
            else:
                result = ours(self, dim, index, source, *split_alpha(alpha, self.dtype))
            return self if in_place else result
        except ERRORS as error:
            return slot.failed(error, self, dim, index, source, alpha=alpha)

    return kernel


def _index_add_out(slot: Slot) -> Callable:
    switch, keys, ours = slot.switch, slot.keys, slot.ours

    def kernel(self, dim, index, source, *, alpha=1, out):
        try:
            if not switch.on:
                return slot.native(keys, self, dim, index, source, alpha=alpha, out=out)
            if checks.on:
                check_on_device("index_add", index, 0, size_along(self, dim))
            ours(self, dim, index, source, *split_alpha(alpha, self.dtype), out)
            return out
        except ERRORS as error:
            return slot.failed(error, self, dim, index, source, alpha=alpha, out=out)

    return kernel


def _index_put_under_autocast(slot: Slot) -> Callable:
    """torch's promotion rule, which it has on CUDA only. What it promotes goes on to _index_put_impl_, as ever."""
    switch = slot.switch
    autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def kernel(self, indices, values, accumulate=False):
        if switch.on and self.dtype != values.dtype:
            self, values = widest(self, values)
        with torch._C._ExcludeDispatchKeyGuard(autocast):
            return torch.ops.aten.index_put(self, indices, values, accumulate)

    return kernel


def _index_put_impl_(slot: Slot) -> Callable:
    switch, keys, ours, ours_by_rows = slot.switch, slot.keys, slot.ours, ops.index_put_rows_._op
    overwrite = ops.index_put_overwrite_._op

    def kernel(self, indices, values, accumulate=False, unsafe=False):
        try:
            if not switch.on or not (accumulate or has_duplicates(indices)):
                return slot.native(keys, self, indices, values, accumulate, unsafe)
            tensors, dims = normalize_indices(self, indices)
            if not accumulate:
                overwrite(self, tensors, dims, values)
            elif len(tensors) == 1 and dims[0] == 0:
                ours_by_rows(self, tensors[0], values)
            else:
                ours(self, tensors, dims, values)
            return self
        except ERRORS as error:
            return slot.failed(error, self, indices, values, accumulate, unsafe)

    return kernel


def _embedding_dense_backward(slot: Slot) -> Callable:
    switch, keys, ours = slot.switch, slot.keys, slot.ours

    def kernel(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
        try:
            if not switch.on:
                return slot.native(keys, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
            if checks.on:
                check_on_device("embedding_dense_backward", indices, 0, num_weights)
            return ours(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
        except ERRORS as error:
            return slot.failed(error, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)

    return kernel


def _repair_scatter_add(self, dim, index, src):
    base, cast = widest(self, src)
    unchanged = base is self and cast is src
    return NotImplemented if unchanged else torch.ops.aten.scatter_add(base, dim, index, cast)


def _repair_index_put_(self, indices, values, accumulate=False, unsafe=False):
    moved, value = on_device_of(self, indices, values)
    if value is values and all(one is other for one, other in zip(moved, indices, strict=True)):
        return NotImplemented
    return torch.ops.aten._index_put_impl_(self, moved, value, accumulate, unsafe)


def _repair_embedding(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    """torch reads grad_output as a matrix with a row an index, whatever its shape."""
    if indices.dtype not in (torch.int32, torch.int64) or grad_output.dim() == indices.dim() + 1:
        return NotImplemented
    rows = grad_output.reshape(indices.numel(), grad_output.shape[-1])
    return torch.ops.aten.embedding_dense_backward(
        rows, indices.flatten(), num_weights, padding_idx, scale_grad_by_freq
    )


INDEX_ADD = (
    Override("index_add", ops.index_add, _index_add),
    Override("index_add_", ops.index_add_, _index_add, in_place=True),
    Override("index_add.out", ops.index_add_out, _index_add_out, writes_through(torch.ops.aten.index_add)),
)
SCATTER_ADD = (
    Override("scatter_add", ops.scatter_add, along_dim("scatter_add"), _repair_scatter_add),
    Override("scatter_add_", ops.scatter_add_, along_dim("scatter_add"), in_place=True),
    Override(
        "scatter_add.out",
        ops.scatter_add_out,
        along_dim_out("scatter_add"),
        writes_through(torch.ops.aten.scatter_add),
    ),
)
INDEX_PUT = (
    Override("_index_put_impl_", ops.index_put_, _index_put_impl_, _repair_index_put_, in_place=True),
    Override("index_put", None, _index_put_under_autocast, keys={"cpu": "AutocastCPU"}),
)
EMBEDDING = (
    Override("embedding_dense_backward", ops.embedding_dense_backward, _embedding_dense_backward, _repair_embedding),
)
