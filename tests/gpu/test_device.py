"""The operators as a user of a GPU meets them: the CPU's bits, torch's streams, memory and graphs, no waiting."""

import subprocess
import sys

import pytest
import torch

import reprocuda
from tests.gpu.synchronisation import no_synchronisation
from tests.operators.bits import assert_same_bits
from tests.operators.table import CASES

ROWS, FEATURES, SEGMENTS = 30_000, 24, 700


def problem(device="cpu", dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    index = torch.randint(SEGMENTS, (ROWS,), generator=generator)
    source = torch.randn(ROWS, FEATURES, generator=generator).to(dtype)
    return torch.zeros(SEGMENTS, FEATURES, dtype=dtype, device=device), index.to(device), source.to(device)


def summed(device="cpu", dtype=torch.float32):
    target, index, source = problem(device, dtype)
    return reprocuda.index_add(target, 0, index, source)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_operator_and_its_gradient_have_the_bits_of_the_cpu(case, dtype):
    results = []
    for device in ("cpu", "cuda"):
        inputs = {name: tensor.to(device) for name, tensor in case.inputs(40, dtype).items()}
        for name in case.differentiable:
            inputs[name].requires_grad_(True)
        out = case.run(reprocuda, inputs)
        gradients = torch.autograd.grad(out, [inputs[name] for name in case.differentiable], torch.ones_like(out))
        results.append([tensor.cpu() for tensor in (out, *gradients)])
    for on_cpu, on_gpu in zip(*results, strict=True):
        assert_same_bits(on_gpu, on_cpu, case.name)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.int64, torch.complex128])
def test_of_plain_writes_the_last_stands(dtype):
    torch.manual_seed(0)
    rows, targets, features = 30_000, 50, 6
    index, elements = torch.randint(targets, (rows,)), torch.randint(targets, (rows, features))
    x, source = torch.zeros(targets, features).to(dtype), torch.randint(100, (rows, features)).to(dtype)
    calls = [
        lambda x, i, e, s: reprocuda.scatter(x, 0, e, s),
        lambda x, i, e, s: reprocuda.index_copy(x, 0, i, s),
        lambda x, i, e, s: reprocuda.index_put(x, (i - targets, e[:, 0] % features), s[:, 0]),
        lambda x, i, e, s: reprocuda.put(x, e, s),
        lambda x, i, e, s: reprocuda.scatter_(x.t().contiguous().t(), 0, e, s),
    ]
    for call in calls:
        want = call(x, index, elements, source)
        for _ in range(3):
            assert torch.equal(call(x.cuda(), index.cuda(), elements.cuda(), source.cuda()).cpu(), want)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bfloat16, torch.float32, torch.complex128])
@pytest.mark.parametrize("shape, dim", [((1_000_003,), 0), ((3, 70_001), 1), ((40_000, 11), 1), ((5_000, 130), 0)])
def test_prefix_sums_have_the_bits_of_the_cpu(shape, dim, dtype):
    torch.manual_seed(0)
    x = torch.randn(shape) * torch.exp2(torch.randint(-60, 60, shape).double())
    x = (x if dtype.is_floating_point or dtype.is_complex else x.clamp(-100, 100).abs()).to(dtype)
    want = reprocuda.cumsum(x, dim, dtype=dtype)
    on_device = x.cuda()
    with no_synchronisation():
        results = [reprocuda.cumsum(on_device, dim, dtype=dtype) for _ in range(3)]
    for result in results:
        assert_same_bits(result.cpu(), want)


def test_torch_itself_is_replaced_on_the_device():
    results = []
    for device in ("cpu", "cuda"):
        target, index, source = problem(device)
        table = torch.nn.Parameter(target + 1)
        with reprocuda.enabled():
            out = target.index_add(0, index, source)
            (torch.nn.functional.embedding(index, table) * source).sum(1).backward(torch.ones(ROWS, device=device))
            by_embedding, table.grad = table.grad, None
            (table[index] * source).sum(1).backward(torch.ones(ROWS, device=device))
        results.append([tensor.cpu() for tensor in (out, by_embedding, table.grad)])
    for on_cpu, on_gpu in zip(*results, strict=True):
        assert_same_bits(on_gpu, on_cpu)


def test_nothing_waits_for_the_device():
    target, index, source = problem("cuda")
    plan = reprocuda.SegmentPlan.from_index(index, SEGMENTS)
    with no_synchronisation():
        reprocuda.index_add(target, 0, index, source)
        reprocuda.index_add(target, 0, plan, source)
        reprocuda.scatter_add(target, 0, index[:, None].expand(-1, FEATURES), source)
        reprocuda.segment_sum(source, plan)
        reprocuda.cumsum(source, 0)
        reprocuda.SegmentPlan.from_index(index, SEGMENTS)


def test_the_current_stream_is_used():
    target, index, source = problem("cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # what does not queue behind this reads zeros
        late = source * 1
        got = reprocuda.index_add(target, 0, index, late)
    stream.synchronize()
    assert_same_bits(got.cpu(), summed())


def test_a_captured_graph_sums_what_its_inputs_hold_later():
    target, index, source = problem("cuda")
    held = torch.zeros_like(source)
    reprocuda.index_add(target, 0, index, held)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = reprocuda.index_add(target, 0, index, held)
    held.copy_(source)
    for _ in range(3):
        graph.replay()
        assert_same_bits(got.cpu(), summed())


def test_temporary_memory_stays_within_its_bound():
    target, index, source = problem("cuda")
    reprocuda.index_add(target, 0, index, source)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = reprocuda.index_add(target, 0, index, source)
    peak = torch.cuda.max_memory_allocated() - before - result.nbytes
    assert peak <= max(32 * 2**20, 24 * ROWS + 16 * SEGMENTS) + 16 * 2**20


def test_more_than_2_to_the_31_elements():
    rows, features, segments = 34_000_000, 64, 1000
    source = torch.ones(rows, features, dtype=torch.bfloat16, device="cuda")
    index = torch.arange(rows, device="cuda") % segments
    got = reprocuda.index_add(torch.zeros(segments, features, dtype=torch.bfloat16, device="cuda"), 0, index, source)
    assert (got == torch.tensor(rows / segments, dtype=torch.bfloat16).item()).all()


def test_checked_indices_raise_and_leave_the_device_alive():
    target, index, source = problem("cuda")
    index[17] = SEGMENTS
    with reprocuda.check_indices(True), pytest.raises((IndexError, RuntimeError), match=str(SEGMENTS)):
        reprocuda.index_add(target, 0, index, source)
    assert_same_bits(summed("cuda").cpu(), summed())


def test_an_unchecked_bad_index_ends_the_context_as_in_torch():
    program = (
        "import torch, reprocuda\n"
        "target, source = torch.zeros(4, 3, device='cuda'), torch.ones(2, 3, device='cuda')\n"
        "reprocuda.index_add(target, 0, torch.tensor([0, 4], device='cuda'), source)\n"
        "torch.cuda.synchronize()\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "CUDA error" in run.stderr or "AcceleratorError" in run.stderr
