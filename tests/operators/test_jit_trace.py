"""torch.jit.trace records our operators, with gradients that are ours, and what it has recorded serves other sizes."""

import pytest
import torch

import reprocuda
from tests.operators.bits import assert_same_bits
from tests.operators.table import CASES

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*beta:UserWarning")
r, s = reprocuda, reprocuda.scatter
BAGS = torch.tensor([0, 2])
EDGES = torch.tensor([0, 1, 3])

MORE = {
    "scatter": lambda x, v, i: r.scatter(x, 0, i[:, None].expand(-1, 3), v),
    "scatter_": lambda x, v, i: r.scatter_(x.clone(), 0, i[:, None].expand(-1, 3), v),
    "index_copy": lambda x, v, i: r.index_copy(x, 0, i, v),
    "index_copy_": lambda x, v, i: r.index_copy_(x.clone(), 0, i, v),
    "index_put without accumulation": lambda x, v, i: r.index_put(x, (i,), v),
    "index_put with a mask": lambda x, v, i: r.index_put(x, (x > 0.5,), v[0, 0], accumulate=True),
    "index_fill": lambda x, v, i: r.index_fill(x, 0, i, v.sum()),
    "put": lambda x, v, i: r.put(x, i, v[:, 0]),
    "put_": lambda x, v, i: r.put_(x.clone(), i, v[:, 0]),
    "cumsum": lambda x, v, i: r.cumsum(v, 0),
    "cumsum_": lambda x, v, i: r.cumsum_(v.clone(), 0),
    "cumprod": lambda x, v, i: r.cumprod(v, 0),
    "cumprod_": lambda x, v, i: r.cumprod_(v.clone(), 0),
    "logcumsumexp": lambda x, v, i: r.logcumsumexp(v, 0),
    "embedding_bag": lambda x, v, i: r.embedding_bag(i, x, BAGS, mode="sum", per_sample_weights=v[:, 0]),
    "embedding_bag max": lambda x, v, i: r.embedding_bag(i, x, BAGS, mode="max"),
    "embedding_bag with padding": lambda x, v, i: r.embedding_bag(i, x, BAGS, padding_idx=1),
    "repeat_interleave by a number": lambda x, v, i: r.repeat_interleave(v, 2, 0),
    "scatter_sum": lambda x, v, i: s.scatter_sum(v, i, 0),
    "scatter_mean": lambda x, v, i: s.scatter_mean(v, i, 0, dim_size=5),
    "scatter_mul": lambda x, v, i: s.scatter_mul(v, i, 0, dim_size=5),
    "scatter_max": lambda x, v, i: s.scatter_max(v, i, 0, dim_size=5)[0],
    "scatter_softmax": lambda x, v, i: s.scatter_softmax(v, i, 0),
    "scatter_logsumexp": lambda x, v, i: s.scatter_logsumexp(v, i, 0),
    "segment_mean_csr": lambda x, v, i: s.segment_mean_csr(v, EDGES),
    "histc": lambda x, v, i: r.histc(v.detach(), 4, 0.0, 1.0) * x.sum(),
    "histc of the data's range": lambda x, v, i: r.histc(v.detach(), 4) * x.sum(),
    "histc around a number": lambda x, v, i: r.histc(v.detach(), 4, 0.5, 0.5) * x.sum(),
    "histc of integers": lambda x, v, i: r.histc(i, 4) * x.sum(),
    "histogram": lambda x, v, i: r.histogram(v.detach(), 4, density=True).hist * x.sum(),
    "histogram by edges": lambda x, v, i: r.histogram(v.detach(), torch.tensor([0.0, 0.5, 0.75])).hist * x.sum(),
    "histogramdd": lambda x, v, i: r.histogramdd(v.detach(), [2, 1, 3], weight=v.detach()[:, 0]).hist * x.sum(),
    "gather_csr": lambda x, v, i: s.gather_csr(x[:2], EDGES),
}


def compare(run, traced, tensors):
    """Results and gradients."""
    results = []
    for function in (run, traced):
        copies = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors]
        result = function(*copies)
        weights = torch.arange(1.0, result.numel() + 1).reshape(result.shape)
        wanted = [copy for copy in copies if copy.requires_grad]
        grads = torch.autograd.grad((result * weights).sum(), wanted, allow_unused=True)
        results.append([result, *(torch.zeros(()) if grad is None else grad for grad in grads)])
    for got, want in zip(results[1], results[0], strict=True):
        assert_same_bits(got.detach(), want.detach())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_traces_with_gradients(case):
    inputs = case.inputs()
    tensors = [value.clone().requires_grad_(name in case.differentiable) for name, value in inputs.items()]

    def run(*values):
        return case.run(reprocuda, dict(zip(inputs, values, strict=True)))

    compare(run, torch.jit.trace(run, tuple(tensors)), tensors)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments_with_an_initial_value(reduce):
    def run(data):
        return r.segment_reduce(data, reduce, lengths=torch.tensor([4, 0, 5]), initial=0.5)

    data = torch.rand(9, generator=torch.Generator().manual_seed(0)).requires_grad_()
    compare(run, torch.jit.trace(run, data), [data])


@pytest.mark.parametrize("name", MORE)
def test_serves_other_sizes(name):
    def inputs(rows):
        generator = torch.Generator().manual_seed(rows)
        x, v = (torch.rand(n, 3, generator=generator).requires_grad_() for n in (5, rows))
        return x, v, torch.randint(5, (rows,), generator=generator)

    traced = torch.jit.trace(MORE[name], inputs(7))
    assert "^" not in str(traced.graph)  # no function of Python is left in it
    compare(MORE[name], traced, inputs(9))
