"""reprocuda.audit(fn) on functions that do the same each time: none of them may be called different."""

import copy
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import reprocuda


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def every_way_to_make_memory():
    a = torch.empty(100).uniform_(generator=seeded())
    b = torch.empty_like(a).copy_(a)
    out = torch.add(a, b, out=torch.empty(0))
    integers = torch.empty(4, 5, dtype=torch.long).random_(generator=seeded())
    others = (
        a.new_empty(3).fill_(2),
        torch.empty_strided((3, 4), (1, 3)).zero_(),
        torch.empty(10).resize_(20).zero_(),
        torch.empty(5, dtype=torch.bool).fill_(True),
        torch.empty(3, dtype=torch.complex64).zero_(),
        torch.Tensor(3).zero_(),
    )
    return out.sum() + integers.sum() + sum(other.sum() for other in others)


def memory_that_is_copied_but_never_used():
    unwritten = torch.empty(100)
    return unwritten.clone(), copy.deepcopy(unwritten), unwritten.to(torch.float64), torch.ones(3) * 2


def the_written_part_of_a_buffer():
    buffer = torch.empty(8, 4)
    for row in range(5):
        buffer[row] = torch.full((4,), float(row))
    return buffer[:5].sum()


def weights_that_are_replaced():
    model = nn.Linear(3, 3)
    model.load_state_dict({"weight": torch.ones(3, 3), "bias": torch.zeros(3)})
    return model(torch.ones(1, 3))


def views_and_writes_to_parts():
    x = torch.zeros(4, 4)
    x.t()[0].add_(1)
    x[1:3, 1:3].mul_(2)
    x.permute(1, 0).add_(1)
    return x.sum()


def memory_that_is_used_again():
    for number in range(50):
        x = torch.full((1000,), float(number))
        y = x + 1
        del x
    return y


def sparse_gradients():
    table = nn.Embedding(5, 3, sparse=True)
    nn.init.ones_(table.weight)
    table(torch.tensor([1, 2])).sum().backward()
    torch.optim.SparseAdam(table.parameters()).step()
    return torch.eye(3).to_sparse_csr() @ table.weight[:3].detach()


def recomputed_activations():
    layer = nn.Linear(3, 3)
    nn.init.ones_(layer.weight), nn.init.zeros_(layer.bias)
    x = torch.ones(2, 3, requires_grad=True)
    for reentrant in (True, False):
        checkpoint(lambda z: nn.functional.relu(layer(z)), x, use_reentrant=reentrant).sum().backward()


def transformed_functions():
    hessian = torch.func.hessian(lambda x: nn.functional.linear(x, torch.ones(3, 3)).sin().sum())(torch.ones(3))
    return hessian, torch.func.vmap(torch.func.grad(lambda x: (x**2).sum()))(torch.ones(4, 3))


def quantised_memory():
    return torch.quantize_per_tensor(torch.arange(4.0), 0.5, 0, torch.quint8).dequantize()


def a_generator_that_is_restored():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    torch.seed()
    torch.set_rng_state(state)
    return torch.rand(3)


def a_seed_that_is_not_drawn_from():
    torch.manual_seed(int(np.random.default_rng().integers(1 << 40)))
    torch.manual_seed(0)
    return torch.rand(3)


def inference():
    with torch.inference_mode():
        return torch.empty(3).copy_(torch.ones(3).add_(1)) + 1


def tensors_without_memory():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        torch.randn(3) + 1
    return torch.empty(3, device="meta") + 1


def compiled():
    return torch.compile(lambda x: x.sin() + x.cos(), backend="eager")(torch.ones(3))


def replaced_operators():
    with reprocuda.enabled():
        return torch.zeros(4).index_add(0, torch.tensor([0, 0, 1]), torch.ones(3))


def many_tensors_at_once():
    tensors = [torch.ones(3) for _ in range(6000)]
    torch._foreach_add_(tensors, 1.0)
    return torch.stack(tensors).sum()


def another_thread():
    thread = threading.Thread(target=lambda: torch.rand(5) + 1)
    thread.start()
    thread.join()
    return torch.ones(3) * 2


def batches(workers):
    def run():
        loader = DataLoader(TensorDataset(torch.arange(16.0)), 4, shuffle=True, generator=seeded(), num_workers=workers)
        return sum((batch + 1).sum() for (batch,) in loader)

    return run


def a_loader_whose_unseeded_seed_is_not_used():
    return sum(batch.sum() for (batch,) in DataLoader(TensorDataset(torch.arange(16.0)), 4))


CLEAN = [
    every_way_to_make_memory,
    memory_that_is_copied_but_never_used,
    the_written_part_of_a_buffer,
    weights_that_are_replaced,
    views_and_writes_to_parts,
    memory_that_is_used_again,
    sparse_gradients,
    recomputed_activations,
    transformed_functions,
    quantised_memory,
    a_generator_that_is_restored,
    a_seed_that_is_not_drawn_from,
    inference,
    tensors_without_memory,
    compiled,
    replaced_operators,
    many_tensors_at_once,
    another_thread,
    batches(0),
    batches(2),
    a_loader_whose_unseeded_seed_is_not_used,
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", CLEAN, ids=lambda function: function.__qualname__.split(".")[0])
def test_what_is_the_same_is_called_identical(function):
    result = reprocuda.audit(function)
    assert result.identical and result.kind is None, str(result)
    assert result.records > 0
