"""The fingerprint is the one its contract defines, changes with every bit, and with nothing else."""

import doctest

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from reprocuda import ops
from reprocuda.auditing import fingerprint as module
from reprocuda.auditing.fingerprint import Digests, fingerprint
from tests.auditing.reference import DTYPES, reference
from tests.auditing.tensors import LAYOUTS, SHAPES, random_bits
from tests.processes import by_instruction_set

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_definition(dtype):
    for shape in SHAPES:
        x = random_bits(dtype, shape)
        assert fingerprint(x) == reference(x), shape


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_threads_do_not_enter(threads):
    x = random_bits(torch.float32, (64 * 2048 * 3 // 4 + 5,))  # some blocks more than three threads' shares
    wanted = reference(x)
    torch.set_num_threads(threads)
    assert fingerprint(x) == wanted
    assert fingerprint(x[1:]) == reference(x[1:].clone())


PRINT_MANY = """
import torch
from reprocuda.auditing.fingerprint import fingerprint
from tests.auditing.tensors import SHAPES, random_bits
from tests.processes import by_instruction_set
for dtype in (torch.bool, torch.int16, torch.float32, torch.complex128):
    for shape in [*SHAPES, (999, 101)]:
        x = random_bits(dtype, shape)
        print(fingerprint(x), fingerprint(x.expand(3, *shape).movedim(0, -1)))
"""


def test_instruction_sets_do_not_enter():
    printed = by_instruction_set(PRINT_MANY)
    assert len(printed["portable"].split()) == 2 * 4 * (len(SHAPES) + 1)
    assert len({*printed.values()}) == 1


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.int64, torch.complex128]
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_do_not_enter(layout, dtype):
    x = LAYOUTS[layout](random_bits(dtype, (60, 128)))
    assert fingerprint(x) == reference(x.clone(memory_format=torch.contiguous_format))


def test_more_dimensions_than_a_problem_holds():
    x = random_bits(torch.int32, (1 << 20,)).as_strided((2,) * 18, [(1 << d) + d % 2 for d in range(18)])
    assert fingerprint(x) == reference(x.contiguous())


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_conjugated_and_negated_views_count_by_their_values(dtype):
    x = torch.randn(31, 17, dtype=dtype)
    assert fingerprint(x.conj()) == reference(x.conj().resolve_conj()) != fingerprint(x)
    negated = x.conj().imag
    assert negated.is_neg() and fingerprint(negated) == reference(negated.resolve_neg().contiguous())


def test_bool_counts_by_its_truth():
    bytes_ = torch.tensor([0, 1, 2, 255, 0, 128], dtype=torch.uint8)
    assert fingerprint(bytes_.view(torch.bool)) == fingerprint(torch.tensor([False, True, True, True, False, True]))


# --- what must change it --------------------------------------------------------------------------------------------


def flipped(x: torch.Tensor, position: int, bit: int) -> torch.Tensor:
    bits = x.clone().view(torch.int32)
    bits.view(-1)[position] ^= (1 << bit) - (1 << 32 if bit == 31 else 0)
    return bits.view(x.dtype)


def test_every_single_bit():
    x = torch.randn(130)
    prints = {fingerprint(x)} | {fingerprint(flipped(x, p, b)) for p in range(130) for b in range(32)}
    assert len(prints) == 1 + 130 * 32


def test_every_swap():
    x = torch.randn(90)
    prints = {fingerprint(x)}
    for i in range(90):
        for j in range(i):
            y = x.clone()
            y[i], y[j] = x[j], x[i]
            prints.add(fingerprint(y))
    assert len(prints) == 1 + 90 * 89 // 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_changes_at_two_places(dtype, value):
    """Sign flips above all: they change the highest bit, which products modulo a power of two like to lose."""
    x = torch.full((600,), value, dtype=dtype)
    places = [0, 1, 2, 3, 31, 32, 63, 64, 127, 128, 255, 256, 257, 511, 512, 599]
    prints = {fingerprint(x)}
    for i in places:
        for j in places:
            y = x.clone()
            y[[i, j]] = -value
            prints.add(fingerprint(y))
    assert len(prints) == 1 + len(places) * (len(places) + 1) // 2


def test_shifts_permuted_rows_and_blocks():
    x = torch.randn(64, 512)  # a row is a block
    order = torch.randperm(64)
    variants = [x, x[order], x.roll(1), x.roll(1, 0), x.roll(1, 1), x.roll(511), x.flip(0), x.flip(1), -x, x + 0.0]
    assert len({fingerprint(y) for y in variants}) == len(variants) - 1  # the last one is x


def test_shape_and_dtype():
    zeros = [torch.zeros(n) for n in (0, 1, 2, 511, 512, 513, 1024)]
    shapes = [torch.zeros(shape) for shape in [(), (1, 1), (2, 3), (3, 2), (6,), (0, 2), (2, 0), (1, 512), (512, 1)]]
    bits = torch.randn(1024)
    dtypes = [bits, bits.view(torch.int32), bits.view(torch.uint32), bits.view(torch.complex64), bits.view(torch.int64)]
    everything = [*zeros, *shapes, *dtypes]
    assert len({fingerprint(x) for x in everything}) == len(everything)


def test_zeros_and_nans():
    nans = torch.tensor([0x7FC00000, 0x7FC00001, 0x7F800001, -0x400000], dtype=torch.int32).view(torch.float32)
    values = [torch.tensor([0.0]), torch.tensor([-0.0]), *nans.split(1)]
    assert len({fingerprint(x) for x in values}) == len(values)


# --- how it is called -----------------------------------------------------------------------------------------------


def test_no_gradient_is_recorded_and_nothing_is_changed():
    x = torch.randn(5, requires_grad=True)
    y = x * 2
    before, version = y.detach().clone(), y._version
    assert fingerprint(y) == fingerprint(before)
    assert y._version == version
    digests = torch.zeros(1, 2, dtype=torch.int64)
    ops.fingerprint_(digests, 0, y)
    assert not digests.requires_grad
    y.sum().backward()
    assert torch.equal(x.grad, torch.full((5,), 2.0))
    with torch.inference_mode():
        assert fingerprint(before * 1) == fingerprint(before)
    assert fingerprint(torch.nn.Parameter(before)) == fingerprint(before)


class Watcher(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []
        self.digests = Digests(rows_per_buffer=1)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        result = function(*args, **(kwargs or {}))
        self.digests.append(result)
        return result


def test_modes_do_not_see_it():
    x = torch.randn(5)
    with Watcher() as outer, Watcher() as inner:
        x + 1
        fingerprint(x)
        Digests().take()
    assert outer.seen == inner.seen == ["aten.add.Tensor"]
    assert (outer.digests.take() == inner.digests.take()).all()


def test_function_overrides_do_not_see_it():
    calls = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.randn(5)
    watched = x.as_subclass(Watched)
    calls.clear()
    got = fingerprint(watched)
    assert [call for call in calls if "fingerprint" in str(call)] == []
    assert got == fingerprint(x)


def test_digests_keep_order_over_buffers():
    tensors = [torch.full((3,), float(i % 7)) for i in range(23)]
    digests = Digests(rows_per_buffer=4)
    for _ in range(2):
        assert [digests.append(x) for x in tensors] == list(range(23))
        assert len(digests) == 23
        taken = digests.take()
        assert taken.dtype == np.uint64 and taken.shape == (23, 2)
        assert [module.digest_text(row) for row in taken] == [fingerprint(x) for x in tensors]
        assert digests.take().shape == (0, 2) and len(digests) == 0
    with pytest.raises(ValueError, match="rows_per_buffer must be at least 1, got 0"):
        Digests(rows_per_buffer=0)


def without_memory() -> dict[str, torch.Tensor]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    return {
        "FakeTensor": fake,
        "meta": torch.ones(3, device="meta"),
        "zero tensors": torch._efficientzerotensor(3),
        "sparse_coo": torch.eye(3).to_sparse(),
        "sparse_csr": torch.eye(3).to_sparse_csr(),
        "quantised": torch.empty(3, dtype=torch.qint8),
        "jagged": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    }


@pytest.mark.filterwarnings("ignore")
def test_what_has_no_memory_is_refused():
    digests = Digests()
    for what, x in without_memory().items():
        refused = f"x must be a strided tensor.*({what}|Nested)"
        with pytest.raises(NotImplementedError, match=rf"^reprocuda\.auditing\.Digests\.append: {refused}"):
            digests.append(x)
        with pytest.raises(NotImplementedError, match=rf"^reprocuda\.auditing\.fingerprint: {refused}"):
            fingerprint(x)
    with pytest.raises(TypeError, match=r"x must be a torch\.Tensor, got list"):
        digests.append([1.0])
    assert len(digests) == 0 and digests.take().shape == (0, 2)
    digests.append(torch.ones(3))
    assert module.digest_text(digests.take()[0]) == fingerprint(torch.ones(3))


@pytest.mark.parametrize("row", [-1, 4, 2**40])
def test_a_row_out_of_range(row):
    digests = torch.zeros(4, 2, dtype=torch.int64)
    with pytest.raises(IndexError, match=rf"fingerprint_\(\): row {row} is out of bounds for digests of 4 rows"):
        ops.fingerprint_(digests, row, torch.ones(3))
    assert not digests.any()


@pytest.mark.parametrize(
    "digests",
    [
        torch.zeros(4, 2),
        torch.zeros(8, dtype=torch.int64),
        torch.zeros(4, 3, dtype=torch.int64),
        torch.zeros(2, 4, dtype=torch.int64).t(),
    ],
)
def test_digests_of_another_kind(digests):
    with pytest.raises(RuntimeError, match=r"contiguous int64 tensor of shape \[capacity, 2\]"):
        ops.fingerprint_(digests, 0, torch.ones(3))


def test_only_its_row_is_written():
    digests = torch.full((5, 2), 7)
    ops.fingerprint_(digests, 3, torch.ones(3))
    assert (digests[[0, 1, 2, 4]] == 7).all()
    assert module.digest_text(digests[3].numpy().view(np.uint64)) == fingerprint(torch.ones(3))


def test_opcheck():
    arguments = (torch.zeros(2, 2, dtype=torch.int64), 1, torch.randn(3, 4).t())
    torch.library.opcheck(ops.fingerprint_, arguments)


@pytest.mark.parametrize("name", ["fingerprint", "Digests"])
def test_the_example_runs(name):
    thing = getattr(module, name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    report = []
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs={}):
        assert test.examples
        runner.run(test, out=report.append)
    assert not report, "".join(report)
