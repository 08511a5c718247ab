"""reprocuda.audit(fn): what is the same is called the same, and what differs is named, operator and line."""

import copy
import inspect
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

import reprocuda


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def line_of(function, text):
    """The number of the line of a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    (line,) = [first + number for number, source in enumerate(lines) if text in source]
    return line


# Nothing of this may be called different.


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
    return torch.func.vmap(torch.func.grad(lambda x: (x**2).sum()))(torch.ones(4, 3))


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


def a_loader_whose_unseeded_seed_nobody_uses():
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
    inference,
    tensors_without_memory,
    compiled,
    replaced_operators,
    many_tensors_at_once,
    another_thread,
    batches(0),
    batches(2),
    a_loader_whose_unseeded_seed_nobody_uses,
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", CLEAN, ids=lambda function: function.__qualname__.split(".")[0])
def test_what_is_the_same_is_called_identical(function):
    result = reprocuda.audit(function)
    assert result.identical and result.kind is None, str(result)
    assert result.records > 0


# Each of these differs, at the line marked HERE.


def dropout():
    x = torch.ones(100)
    return nn.functional.dropout(x)  # HERE


def random_gradient():
    class Noise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * torch.rand(3)  # HERE

    Noise.apply(torch.ones(3, requires_grad=True)).sum().backward()


def gradient_of_a_random_operator():
    x = torch.ones(50, requires_grad=True)
    torch.ops.audit_test.shuffled_sum(x).backward()


def unwritten():
    x = torch.empty(10)  # HERE
    x[:5] = 1
    return x.sum()


def grown():
    x = torch.zeros(2)
    x.resize_(40)  # HERE
    return x + 1


def numpy_behind_our_back():
    x = torch.zeros(4)
    x.numpy()[:] = np.random.default_rng().random(4)
    return x + 1  # HERE


def numpy_input():
    return torch.from_numpy(np.random.default_rng().random(4)) * 2  # HERE


def a_number():
    return torch.ones(3) * np.random.default_rng().random()  # HERE


def a_clock():
    return torch.ones(3) * time.time()  # HERE


def a_seed():
    torch.manual_seed(int(np.random.default_rng().integers(1 << 40)))  # HERE
    return torch.rand(2)


def order_of_weights():
    weights = {name: torch.full((2,), float(number)) for number, name in enumerate("abcdefghijklmnop")}
    total = torch.zeros(2)
    for name in np.random.default_rng().permutation(list(weights)):
        total = total + weights[name]  # HERE
    return total


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.from_numpy(np.random.default_rng().random(3)) * 2  # HERE


def noisy_dataset():
    return sum(batch.sum() for batch in DataLoader(Noisy(), 4))


@torch.library.custom_op("audit_test::shuffled_sum", mutates_args=())
def shuffled_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


def _shuffled_backward(ctx, gradient):
    return torch.ops.audit_test.shuffled_gradient(gradient, 50)  # HERE


@torch.library.custom_op("audit_test::shuffled_gradient", mutates_args=())
def shuffled_gradient(gradient: torch.Tensor, size: int) -> torch.Tensor:
    return gradient + torch.from_numpy(np.random.default_rng().random(size)).float()


shuffled_sum.register_autograd(_shuffled_backward)

DIFFERENT = [
    (dropout, "randomness", "bernoulli"),
    (random_gradient, "randomness", "aten::rand"),
    (unwritten, "uninitialised", "aten::empty"),
    (grown, "uninitialised", "aten::resize_"),
    (numpy_behind_our_back, "randomness", "aten::add"),
    (numpy_input, "randomness", "lift_fresh"),
    (a_number, "randomness", "aten::mul"),
    (a_clock, "control_flow", "aten::mul"),
    (a_seed, "randomness", "manual_seed"),
    (order_of_weights, "control_flow", "aten::add"),
]


@pytest.mark.parametrize(("function", "kind", "operator"), DIFFERENT, ids=[case[0].__name__ for case in DIFFERENT])
def test_what_differs_is_named(function, kind, operator):
    result = reprocuda.audit(function)
    assert not result.identical
    assert (result.kind, result.line) == (kind, line_of(function, "# HERE")), str(result)
    assert result.file == __file__
    assert operator in result.operator and operator in str(result)


def test_an_operator_in_a_gradient_is_named_with_the_line_of_the_gradient():
    result = reprocuda.audit(gradient_of_a_random_operator)
    assert (result.kind, result.operator) == ("operator", "audit_test::shuffled_gradient"), str(result)
    assert result.line == line_of(_shuffled_backward, "# HERE")


def test_noise_in_a_dataset_is_data_and_the_line_is_its_own():
    result = reprocuda.audit(noisy_dataset)
    assert (result.kind, result.line) == ("data", line_of(Noisy.__getitem__, "# HERE")), str(result)


def test_a_second_cause_is_named_too():
    def two():
        x = torch.rand(3) + 1
        return x, torch.ops.audit_test.shuffled_gradient(torch.ones(3), 3)

    result = reprocuda.audit(two)
    assert result.kind == "randomness"
    assert [place.operator for place in result.also] == ["audit_test::shuffled_gradient"]


def test_state_that_the_function_changes_is_said_to_be_its_own():
    weight = torch.zeros(3)
    result = reprocuda.audit(lambda: weight.add_(1) * 2)
    assert result.kind == "environment" and "another state" in result.cure


def test_module_and_step_are_named():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()
            self.weight = nn.Parameter(torch.ones(50))

        def forward(self):
            return self.inner(torch.ops.audit_test.shuffled_gradient(self.weight, 50)).sum()

    def train():
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        optimizer.step()
        with torch.no_grad():
            model()

    result = reprocuda.audit(train)
    assert (result.operator, result.module, result.step) == ("audit_test::shuffled_gradient", "Model", 1)


def test_steps_end_a_call_early():
    counted = []

    def train():
        weight = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for step in range(10):
            counted.append(step)
            weight.sum().backward()
            optimizer.step()

    assert reprocuda.audit(train, steps=3).identical
    assert counted == [0, 1, 2] * 2


def test_errors_pass_through_and_leave_nothing_behind():
    call, loading = nn.Module._call_impl, DataLoader.__iter__
    with pytest.raises(ZeroDivisionError):
        reprocuda.audit(lambda: 1 / 0)
    assert (nn.Module._call_impl, DataLoader.__iter__) == (call, loading)
    assert torch._C._len_torch_dispatch_stack() == 0


@pytest.mark.parametrize(
    ("error", "arguments", "options", "said"),
    [
        (TypeError, (3,), {}, "fn has to be a function, not int"),
        (ValueError, (dropout,), {"runs": 1}, "runs has to be at least 2, not 1"),
    ],
)
def test_bad_arguments_are_refused(error, arguments, options, said):
    with pytest.raises(error, match=said):
        reprocuda.audit(*arguments, **options)
