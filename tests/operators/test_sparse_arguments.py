"""Under enable() sparse arguments are refused where torch refuses them, and so is an output that overlaps itself."""

import pytest
import torch

import reprocuda

pytestmark = pytest.mark.filterwarnings("ignore:.*Sparse (CSR|CSC) tensor support is in beta.*")

COO = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 1]], torch.ones(3), (3, 3), check_invariants=True)
LAYOUTS = {
    "coo": COO,
    "coalesced": COO.coalesce(),
    "csr": COO.to_dense().to_sparse_csr(),
    "csc": COO.to_dense().to_sparse_csc(),
}
DENSE, BASE = torch.ones(2, 3), torch.ones(2, 3)


def outcome(call):
    try:
        result = call()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return type(error), str(error)
    return result.layout, result.stride() if result.layout == torch.strided else None


SPELLINGS = {
    "matmul": lambda m: DENSE @ m,
    "mm.out": lambda m: torch.mm(DENSE, m, out=torch.empty(2, 3)),
    "addmm": lambda m: torch.addmm(BASE, DENSE, m),
    "addmm, beta 0": lambda m: torch.addmm(BASE, DENSE, m, beta=0),
    "addmm.out": lambda m: torch.addmm(BASE, DENSE, m, out=torch.empty(2, 3)),
    "addmm_": lambda m: BASE.clone().addmm_(DENSE, m),
    "sparse.addmm": lambda m: torch.sparse.addmm(BASE, DENSE, m),
    "sparse.mm": lambda m: torch.sparse.mm(DENSE, m),
    "sparse.mm, sum": lambda m: torch.sparse.mm(m, BASE.T, "sum"),
    "sparse.mm, mean": lambda m: torch.sparse.mm(m, BASE.T, "mean"),
    "sparse.mm, amax": lambda m: torch.sparse.mm(m, BASE.T, "amax"),
} | {
    f"{way} {name}": lambda m, other=other, call=call: call(m, other)
    for name, other in LAYOUTS.items()
    for way, call in {"by": torch.matmul, "sparse.mm by": torch.sparse.mm}.items()
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_strides_are_torchs_and_so_is_what_is_refused(layout, spelling):
    want = outcome(lambda: SPELLINGS[spelling](LAYOUTS[layout]))
    with reprocuda.enabled():
        assert outcome(lambda: SPELLINGS[spelling](LAYOUTS[layout])) == want


def overlapping():
    return torch.zeros(10).as_strided((3, 3), (2, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.mm(COO, torch.ones(3, 3), out=out),
        lambda out: torch.mm(LAYOUTS["csr"], torch.ones(3, 3), out=out),
        lambda out: torch.addmm(torch.ones(3, 3), COO, torch.ones(3, 3), out=out),
        lambda out: out.addmm_(COO, torch.ones(3, 3)),
        lambda out: torch.bmm(torch.stack([COO, COO]), torch.ones(2, 3, 3), out=out.expand(2, 3, 3)),
        lambda out: out.add_(COO),
        lambda out: out.sub_(COO),
        lambda out: torch.add(torch.ones(3, 3), COO, out=out),
        lambda out: torch.addmv(torch.ones(3), LAYOUTS["csr"], torch.ones(3), out=out.as_strided((3,), (0,))),
    ],
)
def test_a_written_tensor_that_overlaps_itself_is_refused(call):
    out = overlapping()
    with reprocuda.enabled(), pytest.raises(RuntimeError, match=r"overlaps itself|more than one element|single memory"):
        call(out)
    assert not out.any()


@pytest.mark.parametrize("method, want", [("add_", [4, 5, 3]), ("sub_", [-2, -1, 3])])
def test_entries_may_be_held_by_the_tensor_that_they_are_added_to(method, want):
    values = torch.tensor([1.0, 2, 3])
    with reprocuda.enabled():
        getattr(values, method)(torch.sparse_coo_tensor([[0, 0, 1]], values, (3,), check_invariants=True))
    # The first two entries are aimed at 0, the third at 1.
    assert values.tolist() == want


def test_strict_judges_a_result_that_is_an_argument_too():
    """torch.smm gives one tensor for both."""
    with reprocuda.enabled(strict=True):
        with pytest.raises(RuntimeError, match="not among those that it sums exactly"):
            torch.smm(COO.int(), torch.ones(3, 3).int())
        with pytest.raises(NotImplementedError):
            torch.smm(COO.bool(), torch.ones(3, 3).bool())
