"""enable, disable and enabled: counted, nested, undone by exceptions, for all threads and chosen operators."""

import contextlib
import importlib
import warnings

import pytest
import torch

import reprocuda
from tests.processes import run_python

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")
SAME = torch.zeros(3, dtype=torch.long)
CANCELLING = torch.tensor([1e8, 1.0, -1e8])


def index_add_is_ours() -> bool:
    return torch.zeros(1).index_add_(0, SAME, CANCELLING).item() == 1


def scatter_add_is_ours() -> bool:
    return torch.zeros(1).scatter_add_(0, SAME, CANCELLING).item() == 1


def test_nested_scopes_are_counted():
    assert not index_add_is_ours()
    with reprocuda.enabled():
        with reprocuda.enabled("index_add"):
            assert index_add_is_ours()
        assert index_add_is_ours() and scatter_add_is_ours()
        with contextlib.suppress(ZeroDivisionError), reprocuda.enabled():
            1 / 0  # noqa: B018
        assert index_add_is_ours()
    assert not index_add_is_ours()


def test_python_names_are_untouched():
    """Names imported before are reached too, because what changes lies below them."""
    from torch import index_add

    before = torch.index_add, torch.Tensor.index_add_, torch.nn.functional.embedding
    with reprocuda.enabled():
        assert (torch.index_add, torch.Tensor.index_add_, torch.nn.functional.embedding) == before
        assert index_add(torch.zeros(1), 0, SAME, CANCELLING).item() == 1


def test_one_scope_object_can_be_entered_again():
    scope = reprocuda.enabled("index_add")
    for _ in range(2):
        with scope, scope:
            assert index_add_is_ours()
        assert not index_add_is_ours()


def test_decorator():
    @reprocuda.enabled("index_add")
    def inside(depth):
        assert index_add_is_ours()
        return depth if depth == 0 else inside(depth - 1)

    assert inside(3) == 0 and not index_add_is_ours()

    @reprocuda.enabled()
    def failing():
        raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert not index_add_is_ours()


def test_enable_and_disable_pair_up():
    reprocuda.enable()
    reprocuda.enable("index_add")
    with reprocuda.enabled():
        reprocuda.disable()
    assert index_add_is_ours() and scatter_add_is_ours()
    reprocuda.disable()
    assert not index_add_is_ours()
    with pytest.raises(RuntimeError, match="nothing is enabled"):
        reprocuda.disable()
    with reprocuda.enabled(), pytest.raises(RuntimeError, match="nothing is enabled"):
        reprocuda.disable()  # a scope is not enable()


def test_chosen_operators():
    with reprocuda.enabled("scatter_add"):
        assert scatter_add_is_ours() and not index_add_is_ours()
    with reprocuda.enabled(["index_select"]):  # its gradient is index_add
        assert index_add_is_ours() and not scatter_add_is_ours()
    with reprocuda.enabled(["index_add", "index_select"]):
        assert index_add_is_ours()
    assert not index_add_is_ours()
    for unknown in ("median", "segment_sum", ["index_add", "nonsense"]):
        with pytest.raises(ValueError, match="no operator to enable"):
            reprocuda.enable(unknown)


def test_chosen_devices():
    with reprocuda.enabled(devices="cpu"):
        assert index_add_is_ours()
    with reprocuda.enabled(devices=[torch.device("cpu")]):
        assert index_add_is_ours()
    with reprocuda.enabled(devices=[]):
        assert not index_add_is_ours()
    for wrong in ("cuda:0", "mps"):
        with pytest.raises(ValueError, match="devices are"):
            reprocuda.enabled(devices=wrong)
    if not reprocuda.build_info()["cuda_loaded"]:
        with pytest.raises(RuntimeError, match="no kernels for cuda"):
            reprocuda.enable(devices="cuda")


def test_backward_outside_of_the_scope_is_torchs():
    w = torch.zeros(1, 1, requires_grad=True)
    with reprocuda.enabled():
        y = torch.nn.functional.embedding(SAME, w)
    y.backward(CANCELLING[:, None])
    torchs = w.grad.clone()
    w.grad = None
    with reprocuda.enabled():
        torch.nn.functional.embedding(SAME, w).backward(CANCELLING[:, None])
    assert w.grad.item() == 1 and torchs.item() != 1


def test_strict_makes_compiled_code_run_eagerly_for_its_scope():
    calls = []

    def backend(graph, inputs):
        calls.append(1)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, i, s: x.index_add(0, i, s), backend=backend)
    with reprocuda.enabled(strict=True):
        with reprocuda.enabled(strict=True):
            assert compiled(torch.zeros(1), SAME, CANCELLING).item() == 1
        assert reprocuda.status().compile_forced_eager
        assert compiled(torch.zeros(1), SAME, CANCELLING).item() == 1
    assert not calls and not reprocuda.status().compile_forced_eager
    compiled(torch.zeros(1), SAME, CANCELLING)
    assert calls


def test_without_strict_a_warning_tells_once():
    code = """
        import warnings, reprocuda
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            reprocuda.enable(strict=True)
            assert not seen
            reprocuda.enable()
            with reprocuda.enabled("index_add"):
                pass
        assert [w.category for w in seen] == [reprocuda.CompileWarning], seen
        assert "torch.compile" in str(seen[0].message) and seen[0].filename == "<string>", seen[0].filename
        print("told once")
    """
    assert run_python(code) == "told once"


def test_importing_installs_nothing():
    code = """
        import torch, reprocuda
        from torch.library import get_kernel
        print("RegisterCPU" in str(get_kernel("aten::index_add_", "CPU")))
    """
    assert run_python(code) == "True"


def test_installing_is_silent():
    code = """
        import warnings
        warnings.simplefilter("error")
        import reprocuda
        warnings.simplefilter("ignore", reprocuda.CompileWarning)
        reprocuda.enable()
        print("quiet")
    """
    assert run_python(code) == "quiet"


class _Worker(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, _):
        return torch.zeros(1).index_add_(0, SAME, CANCELLING)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_that_are_spawned_start_without_and_forked_ones_inherit():
    """As the documentation says; a worker_init_fn that calls enable() covers them."""
    code = """
        import sys, torch, reprocuda, warnings
        from tests.dispatch.test_scopes import _Worker
        from torch.utils.data import DataLoader

        def switch_on(worker):
            import reprocuda
            reprocuda.enable(strict=False)

        warnings.simplefilter("ignore")
        reprocuda.enable()
        load = lambda **how: next(iter(DataLoader(_Worker(), num_workers=1, **how))).item() == 1
        print(load(multiprocessing_context="fork"), load(multiprocessing_context="spawn"))
    """
    assert run_python(code) == "True False"


def test_scopes_are_seen_by_other_threads():
    import threading

    seen = []
    with reprocuda.enabled():
        thread = threading.Thread(target=lambda: seen.append(index_add_is_ours()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_status_says_what_is_replaced():
    def states(**how):
        return {o.name: o.state for o in reprocuda.status().operators if o.device == "cpu"}

    with reprocuda.enabled("index_add"):
        inside = states()
    assert inside["index_add"] == inside["index_select"] == "ours"
    assert inside["scatter_add"] == "off" and inside["segment_sum"] == "call only"
    assert set(states().values()) == {"off", "call only"}
    status = reprocuda.status()
    assert any("index_add" in line for line in status.deterministic_in_torch)
    assert any("CTCLoss" in line for line in status.would_raise)
    assert not status.flag and "inductor" in status.compile_bypass
    printed = str(status)
    for part in ("index_add_", "exact", "these raise", "torch.compile"):
        assert part in printed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reprocuda.status()


def test_the_registry_has_one_entry_an_operator():
    torch_scatters = importlib.import_module("reprocuda.scatter")
    in_package = {f"scatter.{function.__name__}" for function in torch_scatters.FUNCTIONS}
    assert set(reprocuda.registry) - in_package <= set(reprocuda.__all__) and in_package <= set(reprocuda.registry)
    for name, operator in reprocuda.registry.items():
        assert operator.name == name and operator.tier in ("exact", "fixed order", "per device")
        if name in in_package:
            assert operator.replaces == (f"torch_{name}",) and not operator.overrides
            continue
        for path in operator.replaces:
            found = torch
            for part in path.removeprefix("torch.").split("."):
                found = getattr(found, part)
        for overload in operator.overloads:
            assert torch._C._dispatch_has_kernel(f"aten::{overload}")


def test_a_generator_or_coroutine_cannot_be_decorated():
    def generator():
        yield

    async def coroutine():
        pass

    async def generator_of_the_other_kind():
        yield

    for function in (generator, coroutine, generator_of_the_other_kind):
        with pytest.raises(TypeError, match="with reprocuda"):
            reprocuda.enabled()(function)


def test_leaving_a_scope_that_is_not_open_changes_nothing():
    with pytest.raises(RuntimeError, match="not open"):
        reprocuda.enabled("index_add").__exit__(None, None, None)
    index, source = torch.zeros(3, dtype=torch.long), torch.tensor([1e8, 1.0, -1e8])
    with reprocuda.enabled("index_add"):
        assert torch.zeros(1).index_add(0, index, source).item() == 1.0


def test_a_warning_that_is_an_error_installs_nothing():
    code = """
        import warnings, torch, reprocuda
        from torch.library import get_kernel
        warnings.simplefilter("error")
        for attempt in (reprocuda.enable, reprocuda.enabled().__enter__) * 2:
            try:
                attempt()
            except reprocuda.CompileWarning:
                pass
            else:
                raise AssertionError("not warned")
            assert "RegisterCPU" in str(get_kernel("aten::index_add_", "CPU"))
            assert {o.state for o in reprocuda.status().operators if o.device == "cpu"} == {"off", "call only"}
            try:
                reprocuda.disable()
            except RuntimeError as error:
                assert "nothing is enabled" in str(error)
        reprocuda.enable(strict=True)
        print({o.state for o in reprocuda.status().operators if o.device == "cpu"} == {"ours", "call only"})
    """
    assert run_python(code) == "True"


@pytest.mark.parametrize("nothing", [{"ops": []}, {"ops": ()}, {"devices": []}], ids=str)
def test_enabling_nothing_does_nothing(nothing):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with reprocuda.enabled(**nothing), reprocuda.enabled(**nothing, strict=True):
            assert not index_add_is_ours() and not reprocuda.status().compile_forced_eager
        reprocuda.enable(**nothing)
        reprocuda.disable()  # it pairs up all the same


def test_a_strict_scope_cannot_be_opened_inside_compiled_code():
    def inside(x):
        with reprocuda.enabled(strict=True):
            return x.index_add(0, SAME, CANCELLING)

    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="a strict scope cannot be opened inside a function"):
        torch.compile(inside, backend="aot_eager")(torch.zeros(1))
    assert not index_add_is_ours() and not reprocuda.status().compile_forced_eager
    with reprocuda.enabled():
        assert (
            torch.compile(lambda x: x.index_add(0, SAME, CANCELLING), backend="aot_eager")(torch.zeros(1)).item() == 1
        )
    torch._dynamo.reset()
    assert inside(torch.zeros(1)).item() == 1


def test_a_scope_inside_compiled_code_runs_uncompiled():
    def inside(x):
        with reprocuda.enabled():
            return x.index_add(0, SAME, CANCELLING)

    torch._dynamo.reset()
    assert torch.compile(inside, backend="aot_eager")(torch.zeros(1)).item() == 1
    assert not index_add_is_ours()
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(inside, backend="aot_eager", fullgraph=True)(torch.zeros(1))
    torch._dynamo.reset()
