"""What of torch is at work on a call: autograd, a transform of torch.func, or a tracer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_proxy_mode


def transforms_active() -> bool:
    """Forward-mode AD or a functorch transform: what in-place Functions and plain kernels cannot serve."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def needs_autograd(base: Tensor | None, src: Tensor | None = None) -> bool:
    wanted = (base is not None and base.requires_grad) or (src is not None and src.requires_grad)
    return (wanted and torch.is_grad_enabled()) or transforms_active()


def needs_operators(op: str) -> bool:
    """Whether only the custom operators themselves serve: in compiled and traced code, and in torch.func.functionalize.

    Raises:
        RuntimeError: functionalize together with another transform, which `op` would have to meet as a Function.
    """
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    if not torch._C._are_functorch_transforms_active():
        return False
    levels = {level.key() for level in torch._C._functorch.get_interpreter_stack()}
    functionalize = torch._C._functorch.TransformType.Functionalize
    if functionalize in levels and len(levels) > 1:
        raise RuntimeError(
            f"{op}(): torch.func.functionalize together with grad, vmap or jvp is not supported: torch has no rule for "
            "an autograd.Function there. Apply functionalize alone, or trace with make_fx without it"
        )
    return functionalize in levels


def records() -> bool:
    """Whether a tracer runs that has no number for an entry of a tensor: torch.jit.trace would keep it as a constant,
    make_fx refuses to read it.
    """
    return torch._C._is_tracing() or get_proxy_mode() is not None


def is_legacy_batched(tensor: Tensor) -> bool:
    """Inside torch.autograd.grad(is_grads_batched=True), whose older vmap serves out-of-place operators only."""
    return torch._C._functorch.is_legacy_batchedtensor(tensor)
