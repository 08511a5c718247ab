"""reprocuda.audit(fn): what differs is named, operator and line."""

import inspect
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset

import reprocuda


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def line_of(function, text):
    """The number of the line of a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    (line,) = [first + number for number, source in enumerate(lines) if text in source]
    return line


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


def a_generator_that_is_lost():
    torch.manual_seed(0)
    torch.seed()
    return torch.rand(2)  # HERE


def a_branch_by_the_clock():
    scale = 2.0
    if time.time_ns() < next(_instants):  # HERE
        scale = 0.5
    return torch.ones(3) * scale


_instants = iter((0, 1 << 80))


def order_of_weights():
    weights = {name: torch.full((2,), float(number)) for number, name in enumerate("abcdefghijklmnop")}
    total = torch.zeros(2)
    for name in np.random.default_rng().permutation(list(weights)):  # HERE
        total = total + weights[name]
    return total


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.from_numpy(np.random.default_rng().random(3)) * 2  # HERE


def noisy_dataset():
    return sum(batch.sum() for batch in DataLoader(Noisy(), 4))


class Jitter:
    def __call__(self, x):
        return x + np.random.default_rng().random()  # HERE


class Transformed(Dataset):
    def __init__(self):
        self.transforms = [Jitter()]

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.transforms[0](index)


class ShuffledByNumPy(Sampler):
    def __init__(self, dataset):
        self.length = len(dataset)

    def __iter__(self):
        return iter(np.random.default_rng().permutation(self.length).tolist())  # HERE


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
    (a_generator_that_is_lost, "randomness", "aten::rand"),
    (a_branch_by_the_clock, "control_flow", "aten::mul"),
    (order_of_weights, "randomness", "aten::add"),
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


def test_noise_in_a_transform_of_the_dataset_is_found():
    result = reprocuda.audit(lambda: [batch.sum() for batch in DataLoader(Transformed(), 4)])
    assert (result.kind, result.line) == ("data", line_of(Jitter.__call__, "# HERE")), str(result)


def test_an_order_that_numpy_draws_is_the_samplers():
    dataset = TensorDataset(torch.arange(16.0))
    result = reprocuda.audit(lambda: list(DataLoader(dataset, 4, sampler=ShuffledByNumPy(dataset))))
    assert (result.kind, result.line) == ("data", line_of(ShuffledByNumPy.__iter__, "# HERE")), str(result)
    assert "sampler" in result.cure


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
        (TypeError, (3,), {}, "reprocuda.audit: fn must be callable, got int"),
        (ValueError, (dropout,), {"runs": 1}, "reprocuda.audit: runs must be at least 2, got 1"),
        (TypeError, (dropout,), {"runs": True}, "reprocuda.audit: runs must be an int of at least 2, got True"),
        (ValueError, (dropout,), {"steps": 0}, "reprocuda.audit: steps must be at least 1, got 0"),
        (TypeError, (dropout,), {"steps": 1.5}, "reprocuda.audit: steps must be an int of at least 1 or None, got 1.5"),
    ],
)
def test_bad_arguments_are_refused(error, arguments, options, said):
    with pytest.raises(error, match=said):
        reprocuda.audit(*arguments, **options)
