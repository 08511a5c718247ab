"""Sums over bags where a filter could be fooled: thousands of outputs by fractions, every width, bags of every size."""


import pytest
import torch

import reprocuda
from tests.operators.adversarial import KINDS, make
from tests.operators.bags_of_rows import FEATURES, adversarial, fractions
from tests.operators.bits import DTYPES, assert_same_bits, threads
from tests.operators.forcing import STAGES, forced
from tests.processes import by_instruction_set

NAMES = ("float32", "bfloat16", "float64")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["sum", "mean", "weights"])
def test_five_thousand_adversarial_outputs(how, name):
    dtype, bags = DTYPES[name], 250
    generator = torch.Generator().manual_seed(5)
    table = adversarial(300, dtype, generator)
    assert bags * FEATURES == 5000
    # Whole threes, parts of them, any rows; none at all.
    first = 3 * torch.randint(100, (bags,), generator=generator)
    sizes = torch.randint(0, 8, (bags,), generator=generator)
    parts = [
        (torch.arange(size) + start) % 300 if bag % 4 else torch.randint(300, (int(size),), generator=generator)
        for bag, (start, size) in enumerate(zip(first.tolist(), sizes.tolist(), strict=True))
    ]
    indices = torch.cat(parts)
    offsets = sizes.cumsum(0) - sizes
    weights = None
    if how == "weights":
        powers = 2.0 ** torch.randint(-3, 4, indices.shape, generator=generator)
        odd = 1 + torch.finfo(dtype).eps * torch.randint(-2, 3, indices.shape, generator=generator)
        weights = torch.where(torch.arange(len(indices)) % 3 == 0, powers * odd, powers).to(dtype)
    mode = "mean" if how == "mean" else "sum"
    got = reprocuda.embedding_bag(indices, table, offsets, mode=mode, per_sample_weights=weights)
    want = fractions(table, indices, sizes, name, mean=how == "mean", weights=weights)
    assert_same_bits(got, want, f"{how} {name}")
    for width in range(1, 8):  # narrower than a vector
        narrow = table[:, :width].contiguous()
        got = reprocuda.embedding_bag(indices, narrow, offsets, mode=mode, per_sample_weights=weights)
        assert_same_bits(got, want[:, :width].contiguous(), f"{how} {name} {width}")


@pytest.mark.parametrize("features", [1, 2, 3, 6, 8, 40])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_a_low_half_of_a_product_decides_a_tie(mode, sign, features):
    """1 + 2^-23 + 2^-30 + 2^-53, a tie, and 2^-110: what one product leaves where others take its high half back."""
    first, second = 1 + 2.0**-30, 1 + 2.0**-23
    pairs = [(first, second), (2.0**-57 * first, second), (-(2.0**-57), first * second), (0.0, 1.0)]
    weights, column = torch.tensor(pairs, dtype=torch.float64).T
    table = (sign * column)[:, None].expand(4, features).contiguous()
    got = reprocuda.embedding_bag(torch.arange(4)[None], table, mode="sum", per_sample_weights=weights[None])
    if mode == "mean":
        matrix = torch.sparse_csr_tensor([0, 4], [0, 1, 2, 3], weights, (1, 4), check_invariants=True)
        got = reprocuda.sparse_mm(matrix, table, "mean")
    want = fractions(table, torch.arange(4), torch.tensor([4]), "float64", mean=mode == "mean", weights=weights)
    assert_same_bits(got, want)
    assert want[0, 0] != sign * (first * second) / (4 if mode == "mean" else 1)


@pytest.mark.parametrize("features", [1, 2, 5, 8, 24])
def test_products_at_both_ends_of_float64(features):
    """Bits below the smallest number, overflows that are taken back, zeros of either sign."""
    generator = torch.Generator().manual_seed(9)

    def drawn(count, *exponents):
        powers = torch.tensor(exponents)[torch.randint(len(exponents), count, generator=generator)]
        odd = 1 + 2.0**-30 * torch.randint(4, count, generator=generator)
        signs = torch.randint(-1, 2, count, generator=generator)
        return torch.ldexp(odd.double() * signs, powers)

    for exponents in ((-540, -500, -30), (-1040, -36, 0), (500, 523, 524, -500)):
        table = drawn((30, features), *exponents)
        table[::7] = -0.0
        sizes = torch.randint(0, 5, (400,), generator=generator)
        indices = torch.randint(30, (int(sizes.sum()),), generator=generator)
        weights = drawn(indices.shape, *exponents)
        offsets = sizes.cumsum(0) - sizes
        got = reprocuda.embedding_bag(indices, table, offsets, mode="sum", per_sample_weights=weights)
        assert_same_bits(got, fractions(table, indices, sizes, "float64", weights=weights), f"{exponents}")


def problem(features, dtype, kind, generator, bags=40, rows=60):
    table = make(kind, (rows, features), dtype, generator)
    sizes = torch.randint(0, 9, (bags,), generator=generator)
    indices = torch.randint(0, rows, (int(sizes.sum()),), generator=generator)
    return table, indices, sizes, make(kind, indices.shape, dtype, generator)


@pytest.mark.parametrize("name", DTYPES)
def test_every_way_gives_the_bits_of_every_other(name):
    """Vectors that overlap, several tiles; plain sums, intervals and exact ones: all as the exact stage has them."""
    generator = torch.Generator().manual_seed(6)
    for features in (*range(1, 10), 31, 64, 100, 129, 300):
        for kind in KINDS:
            table, indices, sizes, weights = problem(features, DTYPES[name], kind, generator)
            offsets = sizes.cumsum(0) - sizes
            for mode, factors in (("sum", None), ("mean", None), ("sum", weights)):
                got = reprocuda.embedding_bag(indices, table, offsets, mode=mode, per_sample_weights=factors)
                with forced(stage=STAGES[-1]):
                    want = reprocuda.embedding_bag(indices, table, offsets, mode=mode, per_sample_weights=factors)
                assert_same_bits(got, want, f"{features} {kind} {mode}")


def test_one_bag_that_has_nearly_everything():
    generator = torch.Generator().manual_seed(7)
    table = make("wide", (500, 24), torch.float32, generator)
    indices = torch.randint(0, 500, (20000,), generator=generator)
    offsets = torch.tensor([0, 3, 3, 19990])
    sizes = torch.tensor([3, 0, 19987, 10])
    want = fractions(table, indices, sizes, "float32")
    for count in (1, 2):
        with threads(count):
            assert_same_bits(reprocuda.embedding_bag(indices, table, offsets, mode="sum"), want, f"{count} threads")


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_the_callers_flags_and_rounding_are_not_ours(mode):
    """Subnormals that the caller flushes are added up; the caller flushes on."""
    table = torch.full((4, 16), 2.0**-140)
    indices, offsets = torch.tensor([0, 1, 2, 3]), torch.tensor([0])
    want = torch.full((1, 16), 2.0**-138 if mode == "sum" else 2.0**-140)
    torch.set_flush_denormal(True)
    try:
        got = reprocuda.embedding_bag(indices, table, offsets, mode=mode)
        flushed = (torch.tensor([2.0**-126]) * 0.5).double()
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(got, want)
    assert flushed.item() == 0


@pytest.mark.parametrize("features", [1, 4, 16])
def test_weights_that_the_caller_would_flush_are_multiplied(features):
    table = torch.full((3, features), 2.0**100)
    weights = torch.tensor([1e-40, 1e-40, 2e-40])
    want = (weights.double().sum() * 2.0**100).float().expand(1, features).contiguous()
    matrix = torch.sparse_coo_tensor([[0, 0, 0], [0, 1, 2]], weights, (1, 3), check_invariants=True)
    torch.set_flush_denormal(True)
    try:
        bag = torch.arange(3)[None]
        bags = reprocuda.embedding_bag(bag, table, mode="sum", per_sample_weights=weights[None])
        product = reprocuda.sparse_mm(matrix, table)
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(bags, want)
    assert_same_bits(product, want)


PROGRAM = """
import hashlib
import torch
import reprocuda
from tests.operators.bits import DTYPES, to_numpy_bits
from tests.operators.bags.test_bag_sums import problem
from tests.operators.adversarial import KINDS
digest, generator = hashlib.sha256(), torch.Generator().manual_seed(8)
for dtype in DTYPES.values():
    for kind in KINDS:
        for features in (1, 2, 3, 5, 6, 8, 13, 70):
            table, indices, sizes, weights = problem(features, dtype, kind, generator)
            offsets = sizes.cumsum(0) - sizes
            for mode, factors in (("sum", None), ("mean", None), ("sum", weights), ("max", None)):
                out = reprocuda.embedding_bag(indices, table, offsets, mode=mode, per_sample_weights=factors)
                digest.update(to_numpy_bits(out).tobytes())
print(digest.hexdigest())
"""


def test_the_same_bits_by_every_instruction_set():
    assert len({*by_instruction_set(PROGRAM).values()}) == 1
