"""Shapes and derivatives of exp, log and sqrt."""

from __future__ import annotations

from torch.library import register_autograd

from ..families.elementary import DERIVATIVES, Derivative
from ..ops import fragment
from .support import contiguous_like, fake


def _register(name: str, derivative: Derivative) -> None:
    def setup(ctx, inputs, output):
        ctx.save_for_backward(output if derivative.of_result else inputs[0])

    def backward(ctx, grad):
        return derivative.chain(grad, *ctx.saved_tensors)

    fake(name, contiguous_like)
    register_autograd(f"reprocuda::{name}", backward, setup_context=setup, lib=fragment)


for _name, _derivative in DERIVATIVES.items():
    _register(_name, _derivative)
