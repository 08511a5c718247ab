"""Which memory may be written: a target with an element of its own for every position, apart from what is read."""

import itertools

import pytest
import torch

import reprocuda
from tests.operators.table import TORCH

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")


def add_everywhere(target):
    """1 to every element but those of the last row, by three operators; what each of them leaves."""
    rows = torch.arange(max(target.shape[0] - 1, 1))
    source = torch.ones(len(rows), *target.shape[1:])
    elements = rows.view(-1, *[1] * (target.dim() - 1)).expand_as(source)
    yield reprocuda.index_add_(target, 0, rows, source).clone()
    yield reprocuda.scatter_add_(target, 0, elements, source).clone()
    yield reprocuda.index_put_(target, (rows,), source, True).clone()


def shapes_and_strides():
    for sizes in itertools.product([2, 3, 4], repeat=2):
        yield from ((sizes, strides) for strides in itertools.product([1, 2, 3, 4, 6], repeat=2))
    generator = torch.Generator().manual_seed(0)
    for dims in (3, 4):
        for _ in range(150):
            yield (
                tuple(torch.randint(1, 4, (dims,), generator=generator).tolist()),
                tuple(torch.randint(0, 14, (dims,), generator=generator).tolist()),
            )


def test_overlap_is_decided_exactly():
    """The oracle counts the elements; torch itself allows whatever its strides do not tell."""
    seen = {True: 0, False: 0}
    for sizes, strides in shapes_and_strides():
        positions = [sum(map(int.__mul__, at, strides)) for at in itertools.product(*map(range, sizes))]
        distinct = len(set(positions)) == len(positions)
        seen[distinct] += 1
        base = torch.zeros(100)
        target = base.as_strided(sizes, strides)
        if distinct:
            for count, result in enumerate(add_everywhere(target), start=1):
                want = torch.full(sizes, float(count))
                want[max(sizes[0] - 1, 1) :] = 0
                assert torch.equal(result, want), (sizes, strides)
            assert base.sum() == want.sum()
        else:
            for add in (reprocuda.index_add_, torch.Tensor.index_add_):
                with reprocuda.enabled(), pytest.raises(RuntimeError):
                    add(target, 0, torch.tensor([0]), torch.ones(1, *sizes[1:]))
            for put, accumulate in itertools.product((reprocuda.put_, torch.Tensor.put_), (True, False)):
                with reprocuda.enabled(), pytest.raises(RuntimeError):
                    put(target, torch.tensor([0]), torch.ones(1), accumulate)
            assert not base.any()
    assert min(seen.values()) > 100, seen


def rows_of(ns, op, base, source, index, out):
    return getattr(ns, op)(base, 0, index, source, out=out)


READ = {
    "source behind out": lambda b: (torch.zeros(2), b[0:2], None, b[1:3]),
    "source is out": lambda b: (torch.zeros(2), b[0:2], None, b[0:2]),
    "input behind out": lambda b: (b[0:2], torch.ones(2), None, b[1:3]),
    "input is out": lambda b: (b[0:2], torch.ones(2), None, b[0:2]),
    "input within a larger out": lambda b: (b[0:2], torch.ones(2), None, b[0:3]),
    "input and a smaller out": lambda b: (b[0:3], torch.ones(2), None, b[1:3]),
    "interleaved": lambda b: (torch.zeros(2), b[0:4:2], None, b[1:5:2]),
    "halves": lambda b: (torch.zeros(2), b[0:2], None, b[2:4]),
    "index behind out": lambda b: (torch.zeros(2).long(), torch.ones(2).long(), b.long()[:0], None),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("op", ["index_add", "scatter_add"])
@pytest.mark.parametrize("what", READ)
def test_an_out_that_is_read_is_refused_where_torch_refuses_it(what, op):
    def attempt(ns):
        base = torch.arange(8.0)
        input, source, index, out = READ[what](base)
        if out is None:
            memory = torch.tensor([0, 1, 0])
            index, out = memory[:2], memory[1:]
        index = torch.tensor([0, 1]) if index is None else index
        try:
            return rows_of(ns, op, input, source, index, out).tolist(), base.tolist()
        except RuntimeError as error:
            assert "memory" in str(error)
            return RuntimeError

    want = attempt(TORCH)
    assert attempt(reprocuda) == want
    with reprocuda.enabled():
        assert attempt(TORCH) == want
