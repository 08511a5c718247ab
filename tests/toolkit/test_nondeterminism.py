"""What is advised about an operator that torch refuses."""

from reprocuda import registry
from reprocuda.auditing import cures
from reprocuda.toolkit.nondeterminism import cure_of


def test_enable_is_advised_where_it_has_a_kernel():
    assert "enable('index_add')" in cure_of("index_add_cuda_")
    assert "enable('index_reduce')" in cure_of("index_reduce_cpu")


def test_enable_is_not_advised_on_a_device_where_it_replaces_nothing():
    assert registry["histogram"].replaces_on("histogram.bin_ct_out") == ("cpu",)
    assert "covers it" in cure_of("histogram_cpu")
    assert "covers it" not in cure_of("histogram_cuda")


def test_the_audits_advice_says_where_it_holds():
    assert "covers it:" in cures.operator("aten::index_add_")
    assert "covers it on the CPU:" in cures.operator("aten::histogram.bin_ct")
    assert "covers it: coalesce" in cures.operator("aten::_coalesce")
    assert "covers it on the CPU: sparse_mm" in cures.operator("aten::_sparse_mm_reduce_impl")
    assert "covers it" not in cures.operator("aten::mm")  # dense ones are not replaced
