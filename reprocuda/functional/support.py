"""What the functions of every family share: dimensions, out= and in-place forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..arguments.irregular import overlaps_itself, refusal, refuse_overlap, shares_storage, write_resized
from ..arguments.transforms import needs_operators, transforms_active
from ..families.sums import refuse_inference_update
from ..plan import has_data


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension counted from the front. What is out of range stays so, for the operator to refuse."""
    ndim = max(ndim, 1)
    return dim + ndim if -ndim <= dim < 0 else dim


def write_out(
    op: str,
    compute: Callable[[], Tensor],
    write: Callable[[], None],
    native: Callable,
    out: Tensor,
    base: Tensor,
    *inputs: Tensor,
) -> Tensor:
    """The out= form: `write` straight into `out` if it has the result's shape and dtype, else as torch resizes and
    refuses.

    Args:
        op: its name.
        compute: the operator, out of place.
        write: the compiled operator's out form.
        native: torch's operator with this out=, which errs where torch errs.
        out: the user's tensor.
        base: the operator's first argument, which may be `out`.
        inputs: the other tensors that it reads.
    """
    refuse_inference_update(out)
    direct = needs_operators(op)
    wants_grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (base, *inputs, out))
    if wants_grad or (transforms_active() and not direct):
        return native()
    if direct or out.is_conj() or out.is_neg():  # such a view has to be resolved, which copies it
        return out.copy_(compute())
    try:
        write()
        torch.autograd.graph.increment_version(out)
        return out
    except ValueError:
        if out.dtype == base.dtype and out.device == base.device:
            refuse_overlap(out, base, *inputs)
        result = compute()
        if out.dtype != result.dtype or out.device != result.device or torch._debug_has_internal_overlap(out) == 1:
            return native()
        if out.shape == result.shape and overlaps_itself(out):
            raise refusal(op, "out overlaps itself") from None
        return write_resized(out, result)


def read_out(native: Callable[[Tensor], Tensor], out: Tensor, shape: Sequence[int], *inputs: Tensor) -> Tensor:
    """The out= form of what torch reads. torch resizes `out`, but in its warning it would name our line.

    Args:
        native: torch's function with this out=.
        out: the user's tensor.
        shape: the result's, where torch accepts the arguments.
        inputs: the tensors that are read.
    """
    if not has_data(out) or torch.jit.is_tracing() or out.numel() == 0 or tuple(out.shape) == tuple(shape):
        return native(out)
    if shares_storage(out, inputs) or torch._debug_has_internal_overlap(out) != 0:  # which torch may refuse
        return native(out)
    return write_resized(out, native(out.new_empty(0, requires_grad=out.requires_grad)))


def replace_with(target: Tensor, result: Tensor) -> Tensor:
    """For in-place forms where the custom operators, which are out of place, have to serve."""
    if torch.compiler.is_compiling() or not transforms_active():
        return target.copy_(result)
    # functionalize makes aten::copy of copy_, which has no derivative
    return target.masked_scatter_(torch.ones_like(target, dtype=torch.bool), result)
