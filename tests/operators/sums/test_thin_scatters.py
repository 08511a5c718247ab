"""Few elements for many outputs: additions in place, where what each of them lost is summed exactly afterwards."""

import pytest
import torch

import reprocuda
from reprocuda import ops
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, assert_same_bits, from_numpy_bits, threads, to_numpy_bits
from tests.operators.forcing import STAGES, forced

TARGETS, COLUMNS = 400, 24


def problem(dtype, kind, generator, rows=90):
    base = make(kind, (TARGETS, COLUMNS), dtype, generator)
    # Most rows meet others, some many of them, some none.
    index = torch.randint(0, 40, (rows, COLUMNS), generator=generator) ** 2 % TARGETS
    return base, index, make(kind, (rows, COLUMNS), dtype, generator)


def fractions(base, index, source, name):
    columns = [
        oracle.exact_segment_sums(
            to_numpy_bits(source[:, f].contiguous()),
            index[:, f].numpy(),
            base.shape[0],
            name,
            initial=to_numpy_bits(base[:, f].contiguous()),
        )
        for f in range(base.shape[1])
    ]
    return torch.stack([from_numpy_bits(column, DTYPES[name]) for column in columns], 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DTYPES)
def test_exact_and_rounded_once(name, kind):
    base, index, source = problem(DTYPES[name], kind, torch.Generator().manual_seed(1))
    want = fractions(base, index, source, name)
    assert_same_bits(reprocuda.scatter_add(base, 0, index, source), want, "out of place")
    assert_same_bits(reprocuda.scatter_add(base, 0, index.int(), source.t().contiguous().t()), want, "strides")
    assert_same_bits(base.clone().scatter_(0, index[:0], source[:0]), base)
    reprocuda.scatter_add_(base, 0, index, source)
    assert_same_bits(base, want, "in place")


@pytest.mark.parametrize("name", DTYPES)
def test_losses_that_decide_a_tie_and_come_back(name):
    """1, half of its last place and a little more or less: the first loss alone would be rounded the wrong way."""
    dtype = DTYPES[name]
    half, tiny = torch.finfo(dtype).eps / 2, torch.finfo(dtype).tiny
    terms = [[1.0, half, tiny], [1.0, half, -tiny], [1.0, half, half], [1.0, half, -1.0], [-1.0, -half, 1.0]]
    terms += [[torch.finfo(dtype).max, torch.finfo(dtype).max, -torch.finfo(dtype).max], [-0.0, -0.0, -0.0]]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        source = torch.tensor(terms, dtype=torch.float64).t()[order].to(dtype)
        source = torch.cat([source, source[:, :2]], 1)  # 9 columns
        base = torch.full((64, 9), -0.0, dtype=dtype)
        got = reprocuda.scatter_add(base, 0, torch.full((3, 9), 5), source)
        want = oracle.exact_sum(to_numpy_bits(source.t().contiguous()), dtype=name)
        assert_same_bits(got[5], from_numpy_bits(want, dtype), f"{order}")
        assert_same_bits(got[:5], base[:5])


@pytest.mark.parametrize("name", DTYPES)
def test_neither_threads_nor_order_nor_stage_change_a_bit(name):
    generator = torch.Generator().manual_seed(2)
    base = make("wide", (3000, 300), DTYPES[name], generator)
    index = torch.randint(0, 3000, (700, 300), generator=generator) // 9 * 9
    source = make("wide", (700, 300), DTYPES[name], generator)
    with forced(stage=STAGES[-1]):
        want = reprocuda.scatter_add(base, 0, index, source)
    order = torch.randperm(700, generator=generator)
    for count in (1, 2):
        with threads(count):
            assert_same_bits(reprocuda.scatter_add(base, 0, index, source), want, f"{count} threads")
            assert_same_bits(reprocuda.scatter_add(base, 0, index[order], source[order]), want, f"{count} shuffled")


@pytest.mark.parametrize("name", DTYPES)
def test_two_threads_share_short_rows(name):
    """Eight columns are two threads' work, who meet in every cache line."""
    generator = torch.Generator().manual_seed(4)
    base = make("wide", (20000, 8), DTYPES[name], generator)
    index = torch.randint(0, 2000, (5000, 8), generator=generator)
    source = make("wide", (5000, 8), DTYPES[name], generator)
    want = fractions(base, index, source, name)
    for count in (1, 2):
        with threads(count):
            assert_same_bits(reprocuda.scatter_add(base, 0, index, source), want, f"{count} threads")


def test_a_bad_index_leaves_the_target_alone():
    base = torch.zeros(64, 8)
    index = torch.tensor([[1] * 8, [64] * 8])
    with pytest.raises((IndexError, RuntimeError)):
        reprocuda.scatter_add_(base, 0, index, torch.ones(2, 8))
    assert base.count_nonzero() == 0


@pytest.mark.parametrize("name", DTYPES)
def test_the_gradient_of_maxima_over_bags(name):
    """Every bag's gradient to the first row that has its maximum; sums of what meets there."""
    generator = torch.Generator().manual_seed(3)
    for kind in ("normal", "wide", "small integers"):
        table = torch.randn(TARGETS, COLUMNS, generator=generator).to(DTYPES[name]).requires_grad_()
        indices = torch.randint(0, 60, (80, 5), generator=generator)
        seeds = make(kind, (80, COLUMNS), DTYPES[name], generator)
        result = reprocuda.embedding_bag(indices, table, mode="max")
        (got,) = torch.autograd.grad(result, table, seeds)
        argmax = indices.gather(1, torch.zeros(80, 1, dtype=torch.long)).expand(80, COLUMNS).clone()
        for bag in range(80):
            rows = table.detach()[indices[bag]].double()
            first = (rows == rows.amax(0)).int().argmax(0)
            argmax[bag] = indices[bag][first]
        assert_same_bits(got, fractions(torch.zeros_like(got), argmax, seeds, name), f"{name} {kind}")


# Targets, bags, columns: thin; a row for each element; dense; nothing at all.
SHAPES = [(400, 90, 24), (400, 90, 1), (7, 90, 3), (3, 0, 5), (0, 4, 2), (3, 4, 0)]


@pytest.mark.parametrize("targets, bags, columns", SHAPES)
@pytest.mark.parametrize("name", DTYPES)
def test_the_backward_of_maxima_adds_to_zeros_and_leaves_out_empty_bags(name, targets, bags, columns):
    generator = torch.Generator().manual_seed(5)
    argmax = torch.randint(0, min(targets, 50) + 1, (bags, columns), generator=generator)
    argmax[argmax == min(targets, 50)] = targets  # nowhere
    for kind in ("wide", "small integers"):
        grad = make(kind, (bags, columns), DTYPES[name], generator)
        grad[::5] = -0.0  # where nothing else comes, the zero stays
        got = ops.gather_segment_max_backward(grad, argmax, targets)
        assert got.shape == (targets, columns) and got.is_contiguous()
        if columns > 0:
            want = fractions(grad.new_zeros(targets + 1, columns), argmax, grad, name)[:targets]
            assert_same_bits(got, want, kind)
            strided = ops.gather_segment_max_backward(grad.t().contiguous().t(), argmax.t().contiguous().t(), targets)
            assert_same_bits(strided, want, kind)
    one = grad.new_ones(()).expand(bags, columns)
    assert_same_bits(
        ops.gather_segment_max_backward(one, argmax, targets),
        ops.gather_segment_max_backward(one.contiguous(), argmax, targets),
    )


@pytest.mark.parametrize("bad", [-1, 5])
def test_the_backward_of_maxima_refuses_a_row_that_is_none(bad):
    argmax = torch.tensor([[0, 1], [4, bad]])
    with pytest.raises(RuntimeError, match=rf"embedding_bag\(\): index {bad} is out of bounds .* at position 3"):
        ops.gather_segment_max_backward(torch.ones(2, 2), argmax, 4)


def test_the_backward_of_maxima_refuses_what_does_not_fit():
    grad, argmax = torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.long)
    for arguments in ((grad, argmax[:1], 4), (grad, argmax.int(), 4), (grad[0], argmax[0], 4), (grad, argmax, -1)):
        with pytest.raises(ValueError, match="embedding_bag"):
            ops.gather_segment_max_backward(*arguments)
