"""Arguments of a wrong Python type, one after the other: the class that torch raises, and a message that says which."""

import inspect

import numpy
import pytest
import torch

import reprocuda
from reprocuda import registry
from tests.operators.table import TORCH

pytestmark = pytest.mark.filterwarnings("ignore:.*beta:UserWarning")

X, I, S = torch.arange(3.0), torch.tensor([0]), torch.tensor([1.0])  # noqa: E741 - as in the other tables
MASK, TABLE = torch.tensor([True, False, True]), torch.ones(2, 2)
BY_ROWS = {"input": X, "dim": 0, "index": I}
PUT = {"input": X, "indices": (I,), "values": S, "accumulate": False}
SCATTER_REDUCE = {**BY_ROWS, "src": S, "reduce": "sum", "include_self": True}
INDEX_REDUCE = {**BY_ROWS, "source": S, "reduce": "mean", "include_self": True}
BINS = {"input": X, "bins": 3, "range": (0.0, 1.0), "weight": X, "density": False}

CALLS = {
    "index_add": {**BY_ROWS, "source": S, "alpha": 1, "out": X},
    "index_add_": {**BY_ROWS, "source": S, "alpha": 1},
    "scatter_add": {**BY_ROWS, "src": S, "out": X},
    "scatter_add_": {**BY_ROWS, "src": S},
    "index_put": PUT,
    "index_put_": PUT,
    "scatter": {**BY_ROWS, "src": S},
    "scatter_": {**BY_ROWS, "src": S},
    "index_copy": {**BY_ROWS, "source": S, "out": X},
    "index_copy_": {**BY_ROWS, "source": S},
    "index_fill": {**BY_ROWS, "value": 1.0},
    "index_fill_": {**BY_ROWS, "value": 1.0},
    "put": {"input": X, "index": I, "source": S, "accumulate": False},
    "put_": {"input": X, "index": I, "source": S, "accumulate": False},
    "masked_scatter": {"input": X, "mask": MASK, "source": X},
    "masked_scatter_": {"input": X, "mask": MASK, "source": X},
    "scatter_reduce": {**SCATTER_REDUCE, "out": X},
    "scatter_reduce_": SCATTER_REDUCE,
    "index_reduce": {**INDEX_REDUCE, "out": X},
    "index_reduce_": INDEX_REDUCE,
    "gather": {**BY_ROWS, "sparse_grad": False, "out": S},
    "index_select": {**BY_ROWS, "out": S},
    "take_along_dim": {"input": X, "indices": I, "dim": 0, "out": S},
    "take": {"input": X, "index": I, "out": S},
    "repeat_interleave": {"input": X, "repeats": 2, "dim": 0, "output_size": 6},
    "embedding": {
        "input": I, "weight": TABLE, "padding_idx": 1, "max_norm": 9.0, "scale_grad_by_freq": False, "sparse": False,
    },
    "embedding_bag": {
        "input": I, "weight": TABLE, "offsets": torch.tensor([0, 1]), "max_norm": 9.0, "scale_grad_by_freq": False,
        "mode": "sum", "sparse": False, "per_sample_weights": S, "include_last_offset": False, "padding_idx": 1,
    },
    "bincount": {"input": I, "weights": S, "minlength": 0},
    "histc": {"input": X, "bins": 3, "min": 0.0, "max": 3.0, "out": X},
    "histogram": BINS,
    "histogramdd": {**BINS, "input": X[:, None], "bins": [3]},
    "cumsum": {"input": X, "dim": 0, "dtype": torch.float64, "out": X.double()},
    "cumsum_": {"input": X, "dim": 0, "dtype": torch.float32},
    "cumprod": {"input": X, "dim": 0, "dtype": torch.float64, "out": X.double()},
    "cumprod_": {"input": X, "dim": 0, "dtype": torch.float32},
    "logcumsumexp": {"input": X, "dim": 0, "out": X},
    "segment_reduce": {
        "data": X, "reduce": "sum", "lengths": torch.tensor([3]), "offsets": torch.tensor([0, 1, 3]), "axis": 0,
        "unsafe": False, "initial": 1.0,
    },
    "coalesce": {"input": TABLE.to_sparse()},
    "sparse_mm": {"mat1": TABLE.to_sparse_csr(), "mat2": TABLE, "reduce": "sum"},
    "sparse_addmm": {"input": TABLE, "mat1": TABLE.to_sparse(), "mat2": TABLE, "beta": 1, "alpha": 1},
}  # fmt: skip

VALUES = {
    "None": None,
    "text": "a",
    "float": 1.5,
    "bool": True,
    "one": 1,
    "list": [0],
    "tuple of a float": (0.5,),
    "list of text": ["a"],
    "list of tensors": [S],
    "dict": {},
    "complex": 1j,
    "object": object(),
    "type": torch.int32,
    "beyond 64 bits": 2**70,
    "below 64 bits": -(2**70),
    "NumPy int": numpy.int64(1),
    "NumPy float": numpy.float32(0.5),
    "NumPy array": numpy.zeros(2),
    "float tensor": torch.tensor(0.5),
    "int tensor": torch.tensor(0),
    "vector": torch.tensor([0.5]),
    "tensor with a gradient": torch.tensor(1.0, requires_grad=True),
}
# torch's own functions are written in Python, and stumble: over an attribute, or a comparison with an array.
STUMBLES = ("embedding", "embedding_bag")
OURS = {
    "segment_sum": {"src": X, "plan_or_offsets": torch.tensor([0, 3])},
    "index": {"input": X, "indices": (I,)},  # torch has an operator for it, and no function
}


def torchs(name):
    given = {
        "put": torch.put,
        "put_": torch.Tensor.put_,
        "index_fill_": torch.Tensor.index_fill_,
        "masked_scatter_": torch.Tensor.masked_scatter_,
        "cumsum_": torch.Tensor.cumsum_,
        "cumprod_": torch.Tensor.cumprod_,
        "embedding": torch.nn.functional.embedding,
    }
    return given.get(name) or getattr(TORCH, name)


def fresh(arguments):
    return {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}


def outcome(function, name, arguments):
    """The result, or the error."""
    arguments, in_order = fresh(arguments), []
    for parameter in inspect.signature(getattr(reprocuda, name)).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY and parameter.name in arguments:
            if parameter.default is not parameter.empty and parameter.name not in ("src", "accumulate"):
                break
            in_order.append(arguments.pop(parameter.name))
    try:
        return function(*in_order, **arguments)
    except Exception as error:
        return error


def same(ours, theirs):
    if isinstance(theirs, (tuple, list)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if theirs.is_sparse:
        ours, theirs = ours.to_dense(), theirs.to_dense()
    return torch.equal(ours.isnan(), theirs.isnan()) and torch.equal(ours.nan_to_num(), theirs.nan_to_num())


def public_functions():
    """Those of the registry but for torch_scatter's, and their in-place forms."""
    return [name for name in reprocuda.__all__ if name in registry or name.removesuffix("_") in registry]


def test_every_function_is_tried():
    assert {*CALLS, *OURS} == {*public_functions()}
    for name, arguments in CALLS.items():
        assert isinstance(outcome(torchs(name), name, arguments), (torch.Tensor, tuple)), name


@pytest.mark.parametrize("name", CALLS)
def test_torchs_class_for_every_type(name):
    for argument, right in CALLS[name].items():
        for kind, value in VALUES.items():
            if isinstance(right, torch.Tensor) and isinstance(value, torch.Tensor):
                continue  # whose dtypes and shapes other tests ask for
            arguments = {**CALLS[name], argument: value}
            theirs = outcome(torchs(name), name, arguments)
            ours = outcome(getattr(reprocuda, name), name, arguments)
            what = f"{argument} = {kind}: {ours!r}, torch {theirs!r}"
            if not isinstance(theirs, Exception):
                assert not isinstance(ours, Exception) and same(ours, theirs), what
                continue
            stumbled = name in STUMBLES and (isinstance(theirs, AttributeError) or "ambiguous" in str(theirs))
            assert type(ours) in ((TypeError, type(theirs)) if stumbled else (type(theirs),)), what
            if isinstance(ours, TypeError) and "invalid combination" not in str(ours):
                assert f"{name}():" in str(ours) and f"'{argument}'" in str(ours), what


@pytest.mark.parametrize("name", OURS)
def test_what_torch_has_no_function_for(name):
    for argument in OURS[name]:
        for value in (None, "a", 1, 1.5, {}, object(), numpy.zeros(2), (0.5,)):
            message = rf"{name}\(\): argument '{argument}' must be .*Tensor.*, not {type(value).__name__}: "
            with pytest.raises(TypeError, match=message):
                getattr(reprocuda, name)(**{**OURS[name], argument: value})


SCATTER = {
    name: getattr(reprocuda.scatter, name.removeprefix("scatter."))
    for name in registry
    if name.startswith("scatter.")
}
WRONG = {
    "Tensor": (None, "a", 1, [0], numpy.zeros(2)),
    "Tensor | None": ("a", 1, [0], numpy.zeros(2)),
    "int": (None, "a", 1.5, True, [0], torch.tensor(0.5), torch.tensor([0, 1])),
    "int | None": ("a", 1.5, True, [0], torch.tensor(0.5), torch.tensor([0, 1])),
    "bool": (None, "a", 1, [0]),
    "float": (None, "a", [0], 1j),
    "str": (None, 1, ["sum"]),
}


@pytest.mark.parametrize("name", SCATTER)
def test_torch_scatters_functions(name):
    function = SCATTER[name]
    right = {"src": X, "index": torch.tensor([0, 1, 1]), "indptr": torch.tensor([0, 1, 2, 3])}
    parameters = inspect.signature(function).parameters
    right = {argument: value for argument, value in right.items() if argument in parameters}
    assert isinstance(function(**right), (torch.Tensor, tuple))
    for argument, parameter in parameters.items():
        for value in WRONG[parameter.annotation]:
            with pytest.raises(TypeError, match=rf"{function.__name__}\(\): argument '{argument}' must be "):
                function(**{**right, argument: value})


def test_plans():
    for value in (None, [0], "a", numpy.zeros(2, dtype=numpy.int64)):
        for make in (reprocuda.SegmentPlan.from_index, reprocuda.SegmentPlan.from_sorted):
            with pytest.raises(TypeError, match=rf"{make.__name__}\(\): argument 'index' must be Tensor"):
                make(value, 3)
            with pytest.raises(TypeError, match=rf"{make.__name__}\(\): argument 'num_segments' must be int"):
                make(I, 1.5)
        with pytest.raises(TypeError, match=r"from_offsets\(\): argument 'offsets' must be Tensor"):
            reprocuda.SegmentPlan.from_offsets(value)
    plan = reprocuda.SegmentPlan.from_index(I, 3)
    with pytest.raises(TypeError, match=r"scatter_add\(\): argument 'index' must be Tensor, not SegmentPlan"):
        reprocuda.scatter_add(X, 0, plan, S)


def test_positional_arguments_are_looked_at_as_named_ones_are():
    with pytest.raises(TypeError, match=r"index_add\(\): argument 'source' must be Tensor, not list: \[1.0\]"):
        reprocuda.index_add(X, 0, I, [1.0])
    with pytest.raises(TypeError, match=r"takes 4 positional arguments but 5 were given"):
        reprocuda.index_add(X, 0, I, S, 1)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'reduce'"):
        reprocuda.index_add(X, 0, I, S, reduce=None)


def test_a_message_does_not_read_a_tensor():
    """On a device that would wait, and there may be a million elements."""
    with pytest.raises(TypeError, match=r"'dim' must be int, not a torch.float32 tensor of shape \[1000, 1000\]$"):
        reprocuda.index_add(X, torch.zeros(1000, 1000, device="meta"), I, S)
    with pytest.raises(TypeError, match=r"'index' must be Tensor or SegmentPlan, not list: ") as error:
        reprocuda.index_add(X, 0, [*range(10**6)], S)
    assert len(str(error.value)) < 200


def test_what_stands_for_a_number_counts_as_one():
    want = torch.tensor([1.0, 1.0, 2.0])
    for dim in (torch.tensor(0), numpy.int64(0), numpy.array(0)):
        assert torch.equal(reprocuda.index_add(X, dim, I, S), want)
        assert torch.equal(reprocuda.scatter.scatter_sum(X, torch.tensor([0, 1, 2]), dim), X)
    for alpha in (torch.tensor(1.0), numpy.float32(1), numpy.int64(1), numpy.True_):
        assert torch.equal(reprocuda.index_add(X, 0, I, S, alpha=alpha), want)


def test_pythons_types_name_dtypes():
    for kind in (float, int, complex):
        assert reprocuda.cumsum(X, 0, dtype=kind).dtype == torch.cumsum(X, 0, dtype=kind).dtype


def test_a_subclass_of_a_plan_is_a_plan():
    class Plan(reprocuda.SegmentPlan):
        pass

    plan = Plan.from_index(I, 3)
    assert type(plan) is Plan and torch.equal(reprocuda.index_add(X, 0, plan, S), torch.tensor([1.0, 1.0, 2.0]))


class Logged:
    """No tensor, but one by torch's protocol."""

    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def plain(value):
            if isinstance(value, (list, tuple)):
                return [plain(part) for part in value]
            return value.tensor if isinstance(value, cls) else value

        return cls(function(*plain(args), **{name: plain(value) for name, value in (kwargs or {}).items()}))


def test_what_torch_hands_a_call_to_is_handed_ours():
    want = torch.tensor([1.0, 1.0, 2.0])
    for ns in (TORCH, reprocuda):
        assert torch.equal(ns.index_add(Logged(X), 0, I, S).tensor, want)
        assert torch.equal(ns.index_add(X, 0, I, source=Logged(S)).tensor, want)
        assert torch.equal(ns.index_put(X, (Logged(I),), S, True).tensor, want)
    assert torch.equal(reprocuda.scatter.scatter_sum(X, Logged(torch.tensor([0, 1, 2]))).tensor, X)


def test_a_size_that_is_traced_stays_open():
    def add(x, i):
        return reprocuda.scatter.scatter_sum(x, i, 0, dim_size=x.shape[0])

    traced = torch.jit.trace(add, (X, torch.tensor([0, 1, 1])))
    assert traced(torch.ones(5), torch.tensor([0, 1, 1, 4, 4])).tolist() == [1, 2, 0, 0, 2]


def test_a_warning_points_at_the_callers_line():
    for call in (
        lambda out: reprocuda.index_add(X, 0, I, S, out=out),
        lambda out: reprocuda.cumsum(X, 0, out=out),
        lambda out: reprocuda.histc(X, 3, out=out),
        lambda out: reprocuda.gather(X, 0, I, out=out),
        lambda out: reprocuda.index_select(X, 0, I, out=out),
        lambda out: reprocuda.take(X, I, out=out),
        lambda out: reprocuda.take_along_dim(X, I, 0, out=out),
        lambda out: reprocuda.take_along_dim(X, I, out=out),
    ):
        with pytest.warns(UserWarning, match="was resized") as warned:
            call(torch.zeros(7))
        assert [warning.filename for warning in warned] == [__file__]
