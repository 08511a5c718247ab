"""out= tensors that are refused, and stay as they were."""

import warnings

import pytest
import torch

import reprocuda
from reprocuda.arguments.irregular import overlaps_itself


def test_which_views_overlap_themselves():
    whole = torch.arange(85)
    generator = torch.Generator().manual_seed(0)
    found = {True: 0, False: 0}
    for _ in range(2000):
        sizes, strides = torch.randint(1, 4, (2, 3), generator=generator).tolist()
        strides = [stride * factor for stride, factor in zip(strides, (9, 4, 1), strict=True)]
        view = whole.as_strided(sizes, strides)
        assert overlaps_itself(view) == (view.unique().numel() < view.numel()), (sizes, strides)
        found[overlaps_itself(view)] += 1
    assert min(found.values()) > 100


def test_slices_of_what_no_memory_holds_are_told_apart_by_their_strides():
    columns = torch.empty(1 << 30, 1 << 30, device="meta")[:, ::2]
    with torch.device("meta"):
        assert not overlaps_itself(columns) and not overlaps_itself(columns.t()[::3])
        assert not overlaps_itself(torch.zeros(12, device="cpu").as_strided((3, 3), (2, 3)))


def test_an_out_that_overlaps_itself_is_refused():
    x = torch.ones(3, 3)
    for call in (
        lambda out: reprocuda.cumsum(x, 0, out=out),
        lambda out: reprocuda.scatter.scatter_max(x, torch.arange(3), 0, out=out),
        lambda out: reprocuda.scatter.segment_sum_csr(x, torch.arange(4), out=out),
    ):
        whole = torch.zeros(10)
        with pytest.raises(RuntimeError, match="out overlaps itself"):
            call(whole.as_strided((3, 3), (2, 1)))
        assert not whole.any()
        call(whole.as_strided((3, 3), (3, 1)))  # apart
        assert whole.any()


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "scatter_add", "index_copy", "histc"])
def test_an_out_that_is_no_tensor_is_a_type_error(name):
    index = torch.tensor([0])
    arguments = {"scatter_add": (0, index, torch.ones(1)), "index_copy": (0, index, torch.ones(1)), "histc": (3,)}
    for namespace in (torch, reprocuda):
        with pytest.raises(TypeError):
            getattr(namespace, name)(torch.ones(2), *arguments.get(name, (0,)), out=[1])


OUT_OF_RANGE = torch.tensor([0, 7])
WRITES = {
    "scatter": lambda ns, x, out: ns.scatter(x, 0, OUT_OF_RANGE[:, None].expand(2, 2), torch.ones(2, 2), out=out),
    "index_copy": lambda ns, x, out: ns.index_copy(x, 0, OUT_OF_RANGE, torch.ones(2, 2), out=out),
    "index_add": lambda ns, x, out: ns.index_add(x, 0, OUT_OF_RANGE, torch.ones(2, 2), out=out),
    "index_reduce": lambda ns, x, out: ns.index_reduce(x, 0, OUT_OF_RANGE, torch.ones(2, 2), "amax", out=out),
}


@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_written_where_an_index_is_out_of_range(name):
    for namespace, ops in ((reprocuda, []), (torch, None)):
        out = torch.zeros(3, 2)
        with reprocuda.enabled(ops=ops), pytest.raises((IndexError, RuntimeError), match="7"):
            WRITES[name](namespace, torch.ones(3, 2), out)
        assert not out.any()


ROWS, PLACES = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 1])[:, None].expand(3, 3).contiguous()
OVER = {
    "index_add": lambda x, out: torch.index_add(x, 0, ROWS, x, out=out),
    "scatter_add": lambda x, out: torch.scatter_add(x, 0, PLACES, x, out=out),
    "scatter_reduce": lambda x, out: torch.scatter_reduce(x, 0, PLACES, x, "amax", out=out),
    "index_reduce": lambda x, out: torch.index_reduce(x, 0, ROWS, x, "prod", out=out),
    "scatter": lambda x, out: torch.scatter(x, 0, PLACES, x, out=out),
    "index_copy": lambda x, out: torch.index_copy(x, 0, ROWS, x, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
    "cumprod": lambda x, out: torch.cumprod(x, 0, out=out),
    "logcumsumexp": lambda x, out: torch.logcumsumexp(x, 0, out=out),
}


@pytest.mark.parametrize("name", OVER)
def test_under_enable_too_an_out_that_overlaps_itself_is_refused(name):
    whole, x = torch.zeros(10), torch.rand(3, 3)
    with reprocuda.enabled():
        with pytest.raises(RuntimeError, match="overlaps itself"):
            OVER[name](x, whole.as_strided((3, 3), (2, 1)))
        assert not whole.any()
        OVER[name](x, whole.as_strided((3, 3), (3, 1)))
        assert whole.any()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("out", [torch.int64, torch.float32, None], ids=str)
def test_log_sum_exps_of_integers_are_torchs_to_refuse(dtype, out):
    x = torch.ones(2, dtype=dtype)
    given = {} if out is None else {"out": torch.zeros(2, dtype=out)}
    with pytest.raises((RuntimeError, NotImplementedError)) as torchs:
        torch.logcumsumexp(x, 0, **given)
    with pytest.raises(torchs.type):
        reprocuda.logcumsumexp(x, 0, **given)


READS = {
    "gather": lambda ns, x, out: ns.gather(x.view(3, 4), 1, torch.tensor([[2, 0]]), out=out),
    "gather out of range": lambda ns, x, out: ns.gather(x, 0, torch.tensor([2, 70]), out=out),
    "index_select": lambda ns, x, out: ns.index_select(x.view(3, 4), -1, torch.tensor([2, 0]), out=out),
    "index_select of a number": lambda ns, x, out: ns.index_select(x[0], 0, torch.tensor([0]), out=out),
    "index_select along none": lambda ns, x, out: ns.index_select(x, 5, torch.tensor([0]), out=out),
    "take": lambda ns, x, out: ns.take(x.view(3, 4), torch.tensor([2, -1]), out=out),
    "take out of range": lambda ns, x, out: ns.take(x, torch.tensor([2, 70]), out=out),
    "take_along_dim": lambda ns, x, out: ns.take_along_dim(x.view(3, 4), torch.tensor([[2, 0]]), 1, out=out),
    "take_along_dim of all": lambda ns, x, out: ns.take_along_dim(x.view(3, 4), torch.tensor([[2], [0]]), out=out),
    "take_along_dim of a vector": lambda ns, x, out: ns.take_along_dim(x.view(3, 4), torch.tensor([2]), 1, out=out),
    "with a gradient": lambda ns, x, out: ns.take(x.clone().requires_grad_(), torch.tensor([2]), out=out),
}
OUTS = {
    "empty": lambda x: torch.empty(0),
    "larger": lambda x: torch.zeros(7),
    "of another dtype": lambda x: torch.zeros(7).long(),
    "with a gradient": lambda x: torch.zeros(7).requires_grad_(),
    "without memory": lambda x: torch.zeros(7, device="meta"),
    "expanded": lambda x: torch.zeros(1).expand(7),
    "strided": lambda x: torch.zeros(14)[::2],
    "permuted": lambda x: torch.zeros(3, 4, 2).permute(2, 0, 1),
    "part of what is read": lambda x: x[1:8],
    "the end of what is read": lambda x: x[9:],
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", OUTS)
def test_an_out_that_a_read_resizes_is_torchs(read, kind):
    def attempt(ns):
        x = torch.arange(12.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                out = OUTS[kind](x)
                result = READS[read](ns, x, out)
                assert result is out
            except (RuntimeError, IndexError) as error:
                return type(error), x.tolist()
        warned = sum("was resized" in str(warning.message) for warning in caught)
        return result.tolist(), result.dtype, result.stride(), x.tolist(), warned

    assert attempt(reprocuda) == attempt(torch)
