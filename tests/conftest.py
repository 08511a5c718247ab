"""What every test starts from and leaves behind."""

import pytest
import torch

import reprocuda
from reprocuda.dispatch import scopes
from tests.operators.forcing import force


@pytest.fixture(autouse=True)
def leave_torch_as_it_was():
    """Seeded, and an error here if a test leaves a scope, a thread count or a flag behind."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    yield
    force("auto", "filter")
    switched = [operator.name for operator in reprocuda.status().operators if operator.state in ("ours", "shadowed")]
    while switched and scopes._enabled:
        reprocuda.disable()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)
    if torch.are_deterministic_algorithms_enabled():  # setting it imports the compiler: seconds
        torch.use_deterministic_algorithms(False)
    assert not switched, f"left enabled: {switched}"
