"""reproducible() and deterministic(): what they set, what they put back, and what they say of what is left."""

import contextlib
import importlib
import itertools
import operator
import os
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import reprocuda
from reprocuda.toolkit.flags import Flags

ROWS = torch.zeros(3, dtype=torch.long)
CANCELLING = torch.tensor([1e8, 1.0, -1e8])
unpool, SIZE = torch._C._nn.max_unpool2d, (4, 4)  # which torch has no deterministic form of, on the CPU either

pytestmark = pytest.mark.filterwarnings(
    "ignore:reprocuda.reproducible. PYTHONHASHSEED", "ignore::reprocuda.CompileWarning"
)


def exact():
    return torch.zeros(1).index_add(0, ROWS, CANCELLING).item() == 1.0


def everything():
    state = reprocuda.rng_state()
    plain = (state["python"], state["numpy"], state["torch"].tolist(), state["torch_seed"], state["seeded"])
    return Flags.read(), dict(os.environ), exact(), plain, list(warnings.filters), sys.excepthook


def set_flags(**kwargs):
    torch.use_deterministic_algorithms(kwargs.get("mode", False), warn_only=kwargs.get("warn_only", False))
    torch.utils.deterministic.fill_uninitialized_memory = kwargs.get("fill", True)
    torch.backends.cudnn.deterministic = kwargs.get("cudnn", False)
    torch.backends.cudnn.benchmark = kwargs.get("benchmark", False)


@pytest.fixture(autouse=True)
def flags_stay():
    before = Flags.read()
    yield
    after = Flags.read()
    before.apply()
    assert before.diff(after) == {}


STARTS = [
    {},
    {"mode": True},
    {"mode": True, "warn_only": True, "fill": False},
    {"warn_only": True, "benchmark": True, "cudnn": True},
]
SCOPES = {
    "debug": lambda: reprocuda.reproducible(1, "debug", tf32=True, cudnn_benchmark=True),
    "train": lambda: reprocuda.reproducible(1, "train", matmul_precision="medium", fill_uninitialized=True),
    "fast": lambda: reprocuda.reproducible(1, "fast", tf32=False),
    "deterministic": lambda: reprocuda.deterministic(fill_uninitialized=True, warn_only=True),
    "ours alone": lambda: reprocuda.deterministic(native=False),
    "nested": lambda: nested(),
}


@contextlib.contextmanager
def nested():
    with reprocuda.reproducible(2, "train"), reprocuda.reproducible(3, "fast", tf32=True), reprocuda.deterministic():
        yield


@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("name", SCOPES)
def test_a_scope_puts_everything_back(name, start):
    outside = Flags.read()
    set_flags(**start)
    try:
        before = everything()
        for leave in (None, ZeroDivisionError):
            with contextlib.suppress(ZeroDivisionError), SCOPES[name]():
                if name in ("debug", "train", "fast", "nested"):  # those that seed
                    random.random(), np.random.rand(), torch.rand(3)
                torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark  # and what else changed meanwhile
                torch.set_float32_matmul_precision("high")
                if leave:
                    raise leave
            assert everything() == before
    finally:
        outside.apply()


@pytest.mark.parametrize("name", SCOPES)
def test_scopes_work_after_disable_global_flags(name, monkeypatch):
    """torch's testing package calls it when it is imported: from then on only scopes may set torch.backends' flags."""
    before = Flags.read()
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", False)
    with pytest.raises(RuntimeError, match="disable_global_flags"):
        torch.backends.cudnn.benchmark = True
    with SCOPES[name]():
        assert torch.backends.flags_frozen()
    assert Flags.read() == before


def test_a_function_covers_each_call():
    @reprocuda.deterministic(native=False, strict=True)
    def inside(depth):
        return exact() and (depth == 0 or inside(depth - 1)) and exact()

    assert inside(2) and not exact()
    with pytest.raises(TypeError, match="deterministic cannot cover"):

        @reprocuda.deterministic()
        async def later():
            pass


def test_what_each_mode_sets():
    with reprocuda.reproducible(5, "debug", ops="index_add") as run:
        assert exact() and torch.get_deterministic_debug_mode() == 2
        assert torch.utils.deterministic.fill_uninitialized_memory and torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark and torch.empty(3).isnan().all()
        assert run.operators == ("index_add",) and run.seeds.seed == 5 and run.mode == "debug"
        assert reprocuda.status().compile_forced_eager
        if not torch.cuda.is_initialized():
            assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        text = str(run)
        assert "index_add" in text and "on, raises (was off)" in text
    with reprocuda.reproducible(5, "train"):
        assert exact() and torch.get_deterministic_debug_mode() == 1
        assert not torch.utils.deterministic.fill_uninitialized_memory
        assert not reprocuda.status().compile_forced_eager
    torch.backends.cudnn.benchmark = True
    with reprocuda.reproducible(5, "fast"):
        assert not exact() and torch.get_deterministic_debug_mode() == 0 and torch.backends.cudnn.benchmark
        first = random.random(), np.random.rand(), torch.rand(1)
    torch.backends.cudnn.benchmark = False
    with reprocuda.reproducible(5, "fast"):
        assert first == (random.random(), np.random.rand(), torch.rand(1))


def test_speed_is_not_given_away_unasked():
    outside = Flags.read()
    torch.set_float32_matmul_precision("high")
    try:
        for mode in ("debug", "train", "fast"):
            with reprocuda.reproducible(mode=mode):
                assert torch.get_float32_matmul_precision() == "high" and torch.backends.cudnn.allow_tf32
        with reprocuda.reproducible(mode="train", tf32=False):
            assert torch.get_float32_matmul_precision() == "highest" and not torch.backends.cudnn.allow_tf32
        assert torch.backends.cudnn.allow_tf32 and torch.backends.cuda.matmul.allow_tf32
    finally:
        outside.apply()


def test_as_a_function_it_holds_until_restored():
    before = everything()
    run = reprocuda.reproducible(mode="train")
    assert exact() and torch.are_deterministic_algorithms_enabled()
    run.restore()
    assert everything() == before
    torch.rand(1)
    here = everything()
    run.restore()
    assert everything() == here
    with pytest.raises(RuntimeError, match="this one has ended"), run:
        pass


def getter(read):
    try:
        return read()
    except RuntimeError:
        return "raises"


def tf32_by_every_getter():
    older = (torch.get_float32_matmul_precision, lambda: torch.backends.cuda.matmul.allow_tf32)
    newer = [
        f"{backend}.{name}fp32_precision"
        for backend, names in (("cuda", ("matmul.",)), ("cudnn", ("", "conv.", "rnn.")), ("mkldnn", ("", "matmul.")))
        for name in names
    ]
    found = {name: operator.attrgetter(name)(torch.backends) for name in newer}
    return found | {"older": [getter(read) for read in (*older, lambda: torch.backends.cudnn.allow_tf32)]}


@pytest.mark.parametrize("tf32", [True, False])
def test_a_mixture_of_torchs_two_interfaces_to_tf32_comes_back_as_it_was(tf32):
    start, backends = Flags.read(), torch.backends
    raised = set()
    for older, matmul, mkldnn in itertools.product(
        ("highest", "high", "medium"), ("ieee", "tf32"), ("ieee", "tf32", "bf16")
    ):
        for cudnn, convolution, rnn in ((True, "ieee", "ieee"), (False, "tf32", "tf32"), (True, "tf32", "ieee")):
            torch.set_float32_matmul_precision(older)
            backends.cudnn.allow_tf32 = cudnn
            backends.cuda.matmul.fp32_precision, backends.mkldnn.matmul.fp32_precision = matmul, mkldnn
            backends.cudnn.conv.fp32_precision, backends.cudnn.rnn.fp32_precision = convolution, rnn
            before = tf32_by_every_getter()
            raised.update(place for place, value in enumerate(before["older"]) if value == "raises")
            with reprocuda.reproducible(mode="fast", tf32=tf32):
                assert backends.cuda.matmul.allow_tf32 is tf32 and backends.cudnn.allow_tf32 is tf32
            assert tf32_by_every_getter() == before, (older, matmul, mkldnn)
    start.apply()
    assert raised == {0, 1, 2}
    assert Flags.read() == start


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"mode": "strict"}, ValueError, "mode must be one of 'debug', 'train', 'fast', got 'strict'"),
        ({"seed": -3}, ValueError, "seed must not be negative, got -3"),
        ({"seed": None}, TypeError, "seed must be an integer, got None"),
        ({"ops": "median"}, ValueError, "median"),
        ({"devices": "tpu"}, (ValueError, RuntimeError), "tpu"),
        ({"tf32": 1}, TypeError, "tf32 must be True, False or None, got 1"),
        ({"fill_uninitialized": "yes"}, TypeError, "fill_uninitialized must be True, False or None, got 'yes'"),
        ({"matmul_precision": "low"}, ValueError, "matmul_precision must be one of 'highest'"),
        ({"rank": -1}, ValueError, "rank must not be negative, got -1"),
    ],
)
def test_bad_arguments_change_nothing(kwargs, error, message):
    before = everything()
    with pytest.raises(error, match=message):
        reprocuda.reproducible(**kwargs)
    assert everything() == before
    with pytest.raises(TypeError, match="warn_only must be True or False, got 1"):
        reprocuda.deterministic(warn_only=1)


def test_debug_mode_names_operator_arguments_line_and_cure():
    pooled, where = torch.ones(1, 1, 2, 2), torch.arange(4).view(1, 1, 2, 2)
    with pytest.raises(reprocuda.NondeterministicError) as caught, reprocuda.reproducible():
        F.max_unpool2d(pooled, where, 2)
    error = caught.value
    assert isinstance(error, RuntimeError) and "max_unpool" in error.operator and error.file == __file__
    assert "F.max_unpool2d(pooled, where, 2)" in Path(__file__).read_text().splitlines()[error.line - 1]
    text = str(error)
    assert "input: float32 [1, 1, 2, 2] on cpu" in text and "indices: int64" in text and "cure: " in text
    assert "does not have a deterministic implementation" in str(error.__cause__)


def test_arguments_of_a_call_without_python_come_from_the_statement():
    class Holder:
        target = torch.zeros(1, 1, 2, 2)

    holder, index = Holder(), torch.arange(4).view(1, 1, 2, 2)
    with pytest.raises(reprocuda.NondeterministicError) as caught, reprocuda.reproducible():
        unpool(
            holder.target,
            index,
            SIZE,
        )
    text = str(caught.value)
    assert "holder.target: float32 [1, 1, 2, 2] on cpu" in text and "index: int64 [1, 1, 2, 2] on cpu" in text
    assert caught.value.operator == "max_unpooling2d_forward_out"


def test_a_refusal_inside_an_installed_package_names_the_users_line(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "layers_of_others.py").write_text(
        "import torch\n\n\ndef unpool(target, index):\n    return torch._C._nn.max_unpool2d(target, index, [2, 2])\n"
    )
    monkeypatch.syspath_prepend(folder)
    unpool_of_others = importlib.import_module("layers_of_others").unpool
    with pytest.raises(reprocuda.NondeterministicError) as caught, reprocuda.reproducible():
        unpool_of_others(torch.zeros(1, 1, 2, 2), torch.arange(4).view(1, 1, 2, 2))
    assert caught.value.file == __file__ and "unpool_of_others(torch.zeros(1, 1, 2, 2)" in str(caught.value)
    assert "target: float32 [1, 1, 2, 2] on cpu" in str(caught.value)  # in the package's words


class UnpoolBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return unpool(gradient.view(1, 1, 1, 3), torch.arange(3).view(1, 1, 1, 3), (1, 3)).view(3)


def test_an_operator_of_the_backward_pass_is_named_too():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(reprocuda.NondeterministicError) as caught, reprocuda.reproducible():
        UnpoolBackward.apply(x).sum().backward()
    assert caught.value.operator == "max_unpooling2d_forward_out" and "in the backward pass" in str(caught.value)


def test_other_errors_pass_unchanged():
    with pytest.raises(RuntimeError, match="mine") as caught, reprocuda.reproducible():
        raise RuntimeError("mine")
    assert type(caught.value) is RuntimeError


def test_dtypes_that_cannot_be_filled_are_explained():
    with pytest.raises(reprocuda.NondeterministicError, match="fill_uninitialized=False"), reprocuda.reproducible():
        torch.empty(4, dtype=torch.bits8)
    with reprocuda.reproducible(fill_uninitialized=False), reprocuda.deterministic():
        assert torch.empty(4, dtype=torch.bits8).numel() == 4


def test_operators_of_ours_do_not_raise_under_the_flag():
    """On CUDA these are refused by torch; the replaced kernels must neither refuse nor be refused."""
    weight = torch.ones(3, 2, requires_grad=True)
    with reprocuda.reproducible(fill_uninitialized=True):
        F.embedding(ROWS, weight).sum().backward()
        assert weight.grad.tolist() == [[3, 3], [0, 0], [0, 0]]
        assert torch.zeros(1).scatter_add(0, ROWS, CANCELLING).item() == 1.0
        assert torch.zeros(1).index_put((ROWS,), CANCELLING, accumulate=True).item() == 1.0
        out = torch.empty(1)  # full of NaN
        assert torch.index_add(torch.zeros(1), 0, ROWS, CANCELLING, out=out).item() == 1.0


def test_the_fill_does_not_show_in_our_results():
    def results():
        weight = torch.linspace(-1, 1, 10).view(5, 2).requires_grad_()
        F.embedding(torch.tensor([0, 2, 2]), weight).square().sum().backward()
        index, values = torch.tensor([0, 2, 2]), torch.tensor([1.0, 2, 3])
        added = torch.index_add(torch.zeros(4), 0, index, values, out=torch.empty(4))
        return [weight.grad, added, torch.zeros(4).scatter_add(0, index, values)]

    with reprocuda.deterministic(fill_uninitialized=True):
        filled = results()
    with reprocuda.deterministic(fill_uninitialized=False):
        assert not torch.utils.deterministic.fill_uninitialized_memory
        plain = results()
    assert all(torch.equal(a, b) for a, b in zip(filled, plain, strict=True))


def test_train_mode_warns_once_for_each_operator():
    def both():
        F.max_unpool3d(torch.ones(1, 1, 1, 1, 2), torch.arange(2).view(1, 1, 1, 1, 2), 2)
        F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.arange(4).view(1, 1, 2, 2), 2)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):  # again in a second run
            with reprocuda.reproducible(mode="train"):
                both(), both()
                both()
    texts = [str(w.message).split(" does not")[0] for w in caught if "deterministic implementation" in str(w.message)]
    assert texts == ["max_unpooling3d_forward_out", "max_unpooling2d_forward_out"] * 2


def test_a_flag_toggled_in_compiled_code_is_as_in_eager():
    def toggling(x, index, source):
        torch.use_deterministic_algorithms(True, warn_only=True)
        y = x.scatter_add(0, index, source)
        torch.use_deterministic_algorithms(False)
        return y + 1

    torch._dynamo.reset()
    compiled = torch.compile(toggling, backend="aot_eager")
    with reprocuda.enabled():
        result = compiled(torch.zeros(1), ROWS, CANCELLING)
    assert result.tolist() == toggling(torch.zeros(1).double(), ROWS, CANCELLING.double()).tolist() == [2.0]
    assert not torch.are_deterministic_algorithms_enabled()


def test_what_cannot_be_changed_is_told(monkeypatch):
    monkeypatch.setattr(reprocuda.toolkit.modes, "hash_seed", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with pytest.warns(reprocuda.ReproducibilityWarning) as told, reprocuda.reproducible(mode="train") as run:
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ  # setting it now would only look as if it helped
    assert ["python -m reprocuda run" in text for text in run.remaining] == [True, True]
    assert [w.filename for w in told if w.category is reprocuda.ReproducibilityWarning] == [__file__] * 2
    assert str(run).count("still open") == 2
