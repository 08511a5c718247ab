"""Embedding bags as a user of a GPU meets them: the CPU's bits, forward and backward, by either name."""

import pytest
import torch

import reprocuda
from tests.gpu.synchronisation import no_synchronisation
from tests.operators.bits import DTYPES, assert_same_bits

ROWS, FEATURES, BAGS = 5000, 40, 700


def run(function, device, dtype, how, **options):
    generator = torch.Generator().manual_seed(3)

    def numbers(*shape):
        wide = torch.randn(shape, dtype=torch.float64, generator=generator)
        return (wide * 2.0 ** torch.randint(-12, 13, shape, generator=generator)).to(dtype).to(device)

    table, seeds = numbers(ROWS, FEATURES).requires_grad_(), numbers(BAGS, FEATURES)
    sizes = torch.randint(0, 60, (BAGS,), generator=generator)
    indices = torch.randint(0, ROWS, (int(sizes.sum()),), generator=generator).to(device)
    offsets = (sizes.cumsum(0) - sizes).to(device)
    weights = numbers(len(indices)).requires_grad_() if how == "weights" else None
    leaves = [table] if weights is None else [table, weights]
    mode = "sum" if how == "weights" else how
    out = function(indices, table, offsets, mode=mode, per_sample_weights=weights, **options)
    return [tensor.cpu() for tensor in (out.detach(), *torch.autograd.grad(out, leaves, seeds))]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("how", ["sum", "mean", "weights", "max"])
@pytest.mark.parametrize("padding", [None, 7])
def test_the_bits_of_the_cpu(how, name, padding):
    dtype = DTYPES[name]
    want = run(reprocuda.embedding_bag, "cpu", dtype, how, padding_idx=padding)
    for _ in range(3):
        for one, other in zip(run(reprocuda.embedding_bag, "cuda", dtype, how, padding_idx=padding), want, strict=True):
            assert_same_bits(one, other)
    with reprocuda.enabled():
        replaced = run(torch.nn.functional.embedding_bag, "cuda", dtype, how, padding_idx=padding)
    for one, other in zip(replaced, want, strict=True):
        assert_same_bits(one, other)


def test_no_waiting_without_padding():
    """Called directly, under torch's name and compiled; the gradient neither."""
    table = torch.randn(100, 8, device="cuda", requires_grad=True)
    indices, offsets = torch.arange(60, device="cuda"), torch.tensor([0, 10, 20], device="cuda")
    seed = torch.ones(3, 8, device="cuda")
    calls = (
        reprocuda.embedding_bag,
        torch.nn.functional.embedding_bag,
        torch.compile(reprocuda.embedding_bag, backend="aot_eager", fullgraph=True),
    )
    with reprocuda.enabled():
        for call in calls:
            for mode in ("sum", "mean", "max"):
                call(indices, table, offsets, mode=mode).backward(seed)
                with no_synchronisation():
                    call(indices, table, offsets, mode=mode).backward(seed)


def test_checked_indices_raise_and_leave_the_device_alive():
    table = torch.randn(10, 8, device="cuda")
    with reprocuda.check_indices(True), pytest.raises(RuntimeError, match=r"index 10 .* at position 1"):
        reprocuda.embedding_bag(torch.tensor([3, 10], device="cuda"), table, torch.tensor([0], device="cuda"))
    assert reprocuda.embedding_bag(torch.tensor([[3]], device="cuda"), table).shape == (1, 8)
