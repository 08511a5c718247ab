"""What is advised about an operator that torch refuses."""

import pytest

from reprocuda.auditing import cures
from reprocuda.nondeterminism import cure_of


def test_enable_is_advised_where_it_has_a_kernel():
    assert "enable('index_add')" in cure_of("index_add_cuda_")
    assert "enable('index_reduce')" in cure_of("index_reduce_cpu")


@pytest.mark.parametrize("operator", ["index_reduce_cuda", "scatter_reduce_cuda"])
def test_enable_is_not_advised_on_a_device_where_it_replaces_nothing(operator):
    assert "covers it" not in cure_of(operator)


def test_the_audits_advice_says_where_it_holds():
    assert "covers it:" in cures.operator("aten::index_add_")
    assert "covers it on the CPU:" in cures.operator("aten::index_reduce_")
