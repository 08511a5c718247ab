"""Shapes and derivatives of exp, log and sqrt."""

from __future__ import annotations

import torch
from torch.library import register_autograd

from ..ops import fragment
from .support import fake


def _like(self):
    return torch.empty_like(self, memory_format=torch.contiguous_format)


def _keep_result(ctx, inputs, output):
    ctx.save_for_backward(output)


def _exp_backward(ctx, grad):
    (result,) = ctx.saved_tensors
    return grad * result


def _log_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _log_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad / x


def _sqrt_backward(ctx, grad):
    (result,) = ctx.saved_tensors
    return grad / (2 * result)


fake("exp", _like)
fake("sqrt", _like)
fake("log", _like)
register_autograd("reprocuda::exp", _exp_backward, setup_context=_keep_result, lib=fragment)
register_autograd("reprocuda::sqrt", _sqrt_backward, setup_context=_keep_result, lib=fragment)
register_autograd("reprocuda::log", _log_backward, setup_context=_log_setup, lib=fragment)
