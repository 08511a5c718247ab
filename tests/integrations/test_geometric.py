"""torch_geometric on reprocuda's operators: the same bits for shuffled edges and any number of threads."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import reprocuda
from tests.integrations.replaced import Replaced
from tests.operators.bits import assert_same_bits, threads

replaced = Replaced(torch)
with replaced:
    from torch_geometric import utils
    from torch_geometric.nn import (
        GATConv,
        GCNConv,
        GINConv,
        PointNetConv,
        SAGEConv,
        aggr,
        global_max_pool,
        global_mean_pool,
    )

pytestmark = [
    pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
NODES, EDGES, FEATURES, GRAPHS, STEPS = 200, 4000, 8, 5, 10


@pytest.fixture(autouse=True)
def as_torch_geometric_has_it(monkeypatch):
    for name, value in replaced.values.items():
        monkeypatch.setattr(torch, name, value)


def test_a_number_can_still_be_read():
    """torch_geometric's torch.index_select takes no tensor without dimensions."""
    x = torch.tensor(3.0, requires_grad=True)
    reprocuda.index_select(x, 0, torch.tensor([0])).backward()
    assert "index_select" in replaced.values and x.grad.item() == 1


class Convolutions(torch.nn.Module):
    """Two layers of one kind, then a pool over the nodes of each graph."""

    def __init__(self, make, pool):
        super().__init__()
        self.layers = torch.nn.ModuleList([make(FEATURES), make(FEATURES)])
        self.pool, self.head = pool, torch.nn.Linear(FEATURES, 1)

    def forward(self, x, pos, edges, batch):
        for layer in self.layers:
            x = layer(x, edges).relu()
        return self.head(self.pool(x, batch))


class PointNet(torch.nn.Module):
    """The largest feature and relative position of all neighbours, then of all points."""

    def __init__(self):
        super().__init__()
        after = torch.nn.Sequential(torch.nn.Linear(FEATURES + 3, FEATURES), torch.nn.ReLU())
        self.layer = PointNetConv(local_nn=None, global_nn=after, aggr="max", add_self_loops=False)
        self.before, self.head = torch.nn.Linear(FEATURES, FEATURES), torch.nn.Linear(FEATURES, 1)

    def forward(self, x, pos, edges, batch):
        x = self.layer(self.before(x), pos, edges)
        return self.head(global_max_pool(x, batch))


MODELS = {
    "GCN": lambda: Convolutions(lambda n: GCNConv(n, n), global_mean_pool),
    "GAT": lambda: Convolutions(lambda n: GATConv(n, n // 2, heads=2), global_mean_pool),
    "SAGE, mean": lambda: Convolutions(lambda n: SAGEConv(n, n), global_mean_pool),
    "SAGE, max": lambda: Convolutions(lambda n: SAGEConv(n, n, aggr="max"), global_max_pool),
    "GIN": lambda: Convolutions(lambda n: GINConv(torch.nn.Linear(n, n), train_eps=True), global_mean_pool),
    "PointNet": PointNet,
}


def train(make, shuffle: int, num_threads: int) -> list[torch.Tensor]:
    """The parameters, the last output and the last gradients after some steps; shuffle: which order of the edges."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NODES, FEATURES, generator=generator)
    pos = torch.randn(NODES, 3, generator=generator)
    edges = torch.randint(NODES, (2, EDGES), generator=generator)
    batch = torch.arange(NODES) * GRAPHS // NODES
    wanted = torch.randn(GRAPHS, 1, generator=generator)
    if shuffle:
        edges = edges[:, torch.randperm(EDGES, generator=torch.Generator().manual_seed(shuffle))]
    torch.manual_seed(0)
    model = make()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    with threads(num_threads):
        for _ in range(STEPS):
            optimiser.zero_grad()
            out = model(x, pos, edges, batch)
            torch.nn.functional.mse_loss(out, wanted).backward()
            optimiser.step()
    return [out.detach(), *(p.detach() for p in model.parameters()), *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("name", MODELS)
def test_training(name):
    with reprocuda.enabled():
        first = train(MODELS[name], shuffle=0, num_threads=1)
        assert all(part.isfinite().all() for part in first) and any(part.abs().sum() > 0 for part in first)
        for shuffle, num_threads in ((0, 2), (1, 1), (2, 2)):
            again = train(MODELS[name], shuffle, num_threads)
            for n, (mine, other) in enumerate(zip(again, first, strict=True)):
                assert_same_bits(mine, other, f"order {shuffle}, {num_threads} threads, tensor {n}")


@pytest.mark.parametrize("name", ["GCN", "SAGE, mean", "GIN"])
def test_without_reprocuda_the_order_of_the_edges_matters(name):
    first, shuffled = (train(MODELS[name], shuffle, 1) for shuffle in (0, 1))
    assert any(not torch.equal(*pair) for pair in zip(first, shuffled, strict=True))


def scene(rows=20_000, targets=300):
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(targets, (rows,), generator=generator)
    return torch.randn(rows, 4, generator=generator) * 100, index, torch.randperm(rows, generator=generator), targets


@pytest.mark.parametrize("reduce", ["sum", "mean", "mul", "min", "max"])
def test_scatter(reduce):
    x, index, order, targets = scene()
    x = x / 100 + 1.5 if reduce == "mul" else x
    results = []
    with reprocuda.enabled():
        for rows in (slice(None), order):
            leaf = x[rows].clone().requires_grad_()
            out = utils.scatter(leaf, index[rows], 0, targets, reduce)
            out.sigmoid().sum().backward()
            grad = torch.empty_like(x)
            grad[rows] = leaf.grad
            results.append((out, grad))
    assert_same_bits(results[0][0], results[1][0])
    assert_same_bits(results[0][1], results[1][1])
    by_ours = {"sum": "scatter_sum", "mul": "scatter_mul", "min": "scatter_min", "max": "scatter_max"}.get(reduce)
    if by_ours is not None:
        want = getattr(reprocuda.scatter, by_ours)(x, index, 0, dim_size=targets)
        assert_same_bits(results[0][0].detach(), want[0] if isinstance(want, tuple) else want)


def test_softmax():
    x, index, order, targets = scene()
    with reprocuda.enabled():
        plain = utils.softmax(x, index, num_nodes=targets)
        shuffled = utils.softmax(x[order], index[order], num_nodes=targets)
    assert_same_bits(shuffled, plain[order])


AGGREGATIONS = {
    "sum": aggr.SumAggregation,
    "mean": aggr.MeanAggregation,
    "max": aggr.MaxAggregation,
    "min": aggr.MinAggregation,
    "mul": aggr.MulAggregation,
    "var": aggr.VarAggregation,
    "std": aggr.StdAggregation,
    "softmax": aggr.SoftmaxAggregation,
    "powermean": aggr.PowerMeanAggregation,
}


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_aggregations(name):
    x, index, order, targets = scene()
    x = x.abs() / 300 + 0.5
    module = AGGREGATIONS[name]()
    with reprocuda.enabled():
        assert_same_bits(module(x, index, dim_size=targets), module(x[order], index[order], dim_size=targets))


def test_the_shim_serves_it():
    code = (
        "import reprocuda\n"
        "reprocuda.scatter.install_shim()\n"
        "import torch, torch_geometric.typing\n"
        "from torch_geometric.utils import segment\n"
        "assert torch_geometric.typing.WITH_TORCH_SCATTER\n"
        "print(segment(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]), 'max'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tensor([2., 0., 4.])\n"
