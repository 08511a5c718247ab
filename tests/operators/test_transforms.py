"""torch.func: vmap over every combination of batched arguments, and vmap, grad, jvp and vjp through each other."""

import itertools

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import reprocuda
from tests.operators.bits import assert_same_bits

BATCH = 3
PLAN = reprocuda.SegmentPlan.from_index(torch.tensor([2, 0, 2]), 4)


def real(*shape):
    return lambda: torch.randn(shape, dtype=torch.float64)


def index(bound, *shape):
    return lambda: torch.randint(bound, shape)


FUNCTIONS = {
    "index_add": (lambda x, i, s: reprocuda.index_add(x, 1, i, s, alpha=3), real(2, 4, 3), index(4, 5), real(2, 5, 3)),
    "index_add scalar": (lambda x, i, s: reprocuda.index_add(x, 0, i, s), real(), index(1, 1), real()),
    "index_add planned": (lambda x, s: reprocuda.index_add(x, 0, PLAN, s), real(4, 2), real(3, 2)),
    "index_add_": (lambda x, i, s: reprocuda.index_add_(x + s.sum() + i.sum(), 0, i, s), real(4), index(4, 5), real(5)),
    "scatter_add": (lambda x, i, s: reprocuda.scatter_add(x, 1, i, s), real(2, 4), index(4, 2, 3), real(3, 5)),
    "scatter_add scalar": (lambda x, i, s: reprocuda.scatter_add(x, 0, i, s), real(), index(1, 1), real(1)),
    "index_put adjacent": (
        lambda x, i, j, s: reprocuda.index_put(x, (None, i, j), s, True),
        real(2, 4, 3), index(4, 5), index(3, 2, 1), real(5),
    ),
    "index_put apart": (
        lambda x, i, j, s: reprocuda.index_put(x, (i, None, j), s, True),
        real(2, 4, 3), index(2, 5), index(3, 2, 1), real(2, 5, 4),
    ),
    "index": (lambda x, i: reprocuda.index(x, (None, i)), real(2, 4, 3), index(4, 5)),
    "index apart": (lambda x, i: reprocuda.index(x, (i, None, i)), real(2, 4, 3), index(2, 5)),
    "gather": (lambda x, i: reprocuda.gather(x, 0, i), real(2, 4), index(2, 5, 3)),
    "gather scalar": (lambda x, i: reprocuda.gather(x, 0, i), real(), index(1, 1)),
    "index_select": (lambda x, i: reprocuda.index_select(x, -1, i), real(2, 4), index(4, 5)),
    "index_select scalar": (lambda x, i: reprocuda.index_select(x, 0, i), real(), index(1, 1)),
    "index_select planned": (lambda x: reprocuda.index_select(x, 1, PLAN), real(2, 4)),
    "take_along_dim": (lambda x, i: reprocuda.take_along_dim(x, i, 1), real(1, 4), index(4, 2, 5)),
    "embedding": (lambda i, w: reprocuda.embedding(i, w), index(4, 2, 5), real(4, 3)),
    "embedding padded": (
        lambda i, w: reprocuda.embedding(i, w, padding_idx=1, scale_grad_by_freq=True), index(4, 2, 5), real(4, 3),
    ),
    "embedding planned": (lambda w: reprocuda.embedding(PLAN, w, padding_idx=2), real(4, 2)),
    "segment_sum": (lambda s: reprocuda.segment_sum(s, PLAN), real(3, 2)),
    "segment_sum vector": (lambda s: reprocuda.segment_sum(s, PLAN), real(3)),
}  # fmt: skip


def loop(function, args, dims):
    return [function(*[arg[b] if dim == 0 else arg for arg, dim in zip(args, dims, strict=True)]) for b in range(BATCH)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_is_a_loop(name):
    function, *make = FUNCTIONS[name]
    for dims in itertools.product([0, None], repeat=len(make)):
        if all(dim is None for dim in dims):
            continue
        args = [
            torch.stack([one() for _ in range(BATCH)]) if dim == 0 else one()
            for one, dim in zip(make, dims, strict=True)
        ]
        want = torch.stack(loop(function, args, dims))
        assert_same_bits(vmap(function, in_dims=dims)(*args), want, str(dims))
        last = [arg.movedim(0, -1) if dim == 0 else arg for arg, dim in zip(args, dims, strict=True)]
        last_dims = tuple(None if d is None else -1 for d in dims)
        assert_same_bits(vmap(function, in_dims=last_dims)(*last), want, str(last_dims))

        def loss(*args):
            return (function(*args) ** 2).sum()

        floating = tuple(k for k, arg in enumerate(args) if arg.is_floating_point())
        per_sample = vmap(grad(loss, argnums=floating), in_dims=dims)(*args)
        for got, wanted in zip(
            per_sample, zip(*loop(grad(loss, argnums=floating), args, dims), strict=True), strict=True
        ):
            assert_same_bits(got, torch.stack(wanted), f"gradients {dims}")

        leaves = [arg.clone().requires_grad_() if arg.is_floating_point() else arg for arg in args]
        (vmap(function, in_dims=dims)(*leaves) ** 2).sum().backward()
        looped = [arg.clone().requires_grad_() if arg.is_floating_point() else arg for arg in args]
        sum((result**2).sum() for result in loop(function, looped, dims)).backward()
        for k in floating:
            if dims[k] == 0:
                assert_same_bits(leaves[k].grad, looped[k].grad, f"gradients of a batch {dims}")
            else:  # used by every element of the batch: autograd adds the uses, rounding between them
                torch.testing.assert_close(leaves[k].grad, looped[k].grad)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_agree_with_each_other(name):
    function, *make = FUNCTIONS[name]
    args = [one() for one in make]
    floating = tuple(k for k, arg in enumerate(args) if arg.is_floating_point())

    def of_floats(*floats):
        full = list(args)
        for k, value in zip(floating, floats, strict=True):
            full[k] = value
        return function(*full)

    floats = [args[k] for k in floating]
    tangents = [torch.randn_like(x) for x in floats]
    _, tangent = jvp(of_floats, tuple(floats), tuple(tangents))
    result, pull = vjp(of_floats, *floats)
    cotangent = torch.randn_like(result)

    def sum_of(xs, ys):
        return sum((x * y).sum() for x, y in zip(xs, ys, strict=True))

    if "padded" not in name and "planned" not in name:  # the gradient of padding is 0 by definition, not by derivation
        # Two inner products, each summed by torch.
        torch.testing.assert_close(sum_of([tangent], [cotangent]), sum_of(tangents, pull(cotangent)))
        for forward, backward in zip(
            jacfwd(of_floats, argnums=tuple(range(len(floats))))(*floats),
            jacrev(of_floats, argnums=tuple(range(len(floats))))(*floats),
            strict=True,
        ):
            assert_same_bits(forward, backward)
    curvature = hessian(lambda *xs: (of_floats(*xs) ** 3).sum())(*floats)
    assert torch.isfinite(curvature).all()


def test_a_bad_index_does_not_reach_the_neighbour_in_the_batch():
    x, source = torch.zeros(2, 3), torch.ones(2, 1)
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        vmap(lambda x, i, s: reprocuda.index_add(x, 0, i, s))(x, torch.tensor([[3], [0]]), source)
    with pytest.raises((IndexError, RuntimeError)):
        vmap(lambda w, i: reprocuda.embedding(i, w))(torch.zeros(2, 3, 1), torch.tensor([[3], [0]]))


def test_batched_sums_are_exact():
    """vmap changes how the sum is posed, not its bits."""
    x, source = torch.zeros(4, 30, 3), torch.randn(4, 500, 3) * 10 ** torch.randint(-3, 3, (4, 500, 3))
    index = torch.randint(30, (4, 500))
    got = vmap(lambda x, i, s: reprocuda.index_add(x, 0, i, s, alpha=0.1))(x, index, source)
    want = torch.stack([reprocuda.index_add(x[b], 0, index[b], source[b], alpha=0.1) for b in range(4)])
    assert_same_bits(got, want)
