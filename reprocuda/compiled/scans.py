"""Shapes and derivatives of prefix sums."""

from __future__ import annotations

import torch
from torch.library import register_autograd

from .. import ops
from ..ops import fragment
from .support import fake


def _meta_cumsum(self, dim):
    return self.new_empty(torch.cumsum(self.to("meta"), dim).shape)


def _meta_writes(self, dim, *out):
    torch.cumsum(self.to("meta"), dim)


fake("cumsum", _meta_cumsum)
fake("cumsum_", _meta_writes, writes=True)
fake("cumsum_out", _meta_writes, writes=True)


def _setup(ctx, inputs, output):
    ctx.dim = inputs[1]


def _backward(ctx, grad):
    if grad.dim() == 0:
        return grad, None
    return ops.cumsum(grad.flip(ctx.dim), ctx.dim).flip(ctx.dim), None


register_autograd("reprocuda::cumsum", _backward, setup_context=_setup, lib=fragment)
