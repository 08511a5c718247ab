"""The benchmark measures right results only, and says so about the others."""

import dataclasses
import functools
import itertools
import json
import math
import random
import struct
from fractions import Fraction

import pytest
import torch

import reprocuda
from benchmarks.__main__ import run_case
from benchmarks.cases import bags
from benchmarks.cases.base import ALL_NAN, FORCED_EXACT, OURS
from benchmarks.cases.histograms import Counting
from benchmarks.cases.overwrites import Overwriting
from benchmarks.cases.reductions import Reducing
from benchmarks.cases.running import Running
from benchmarks.cases.scans import Cumsum
from benchmarks.cases.segments import ScatterExtremum, SegmentReducing
from benchmarks.cases.sums import EmbeddingBackward, IndexAdd, ScatterAdd
from benchmarks.exactness import exact_sum, round_once
from benchmarks.gpu_bits import DTYPES as DEVICE_DTYPES
from benchmarks.gpu_bits import compare, tensors_of
from benchmarks.gpu_problems import problems
from benchmarks.readme import measured, rewritten
from benchmarks.report import draw, markdown


def nearest_float32(value: Fraction) -> float:
    """By search among the neighbours of a first guess: slow, and nothing like the code under test."""
    guess = struct.unpack("f", struct.pack("f", float(value)))[0]
    neighbours = [guess]
    for direction in (math.inf, -math.inf):
        step = torch.nextafter(torch.tensor(guess), torch.tensor(direction))
        neighbours.append(step.item())
    return min(neighbours, key=lambda x: (abs(Fraction(x) - value), struct.unpack("I", struct.pack("f", x))[0] & 1))


def test_the_judge_rounds_once():
    rng = random.Random(5)
    for _ in range(2000):
        exponents = [rng.choice([-150, -140, -20, 0, 20]) + rng.randint(-20, 20) for _ in range(rng.randint(1, 4))]
        numbers = torch.tensor([rng.gauss(0, 1) * 2.0**exponent for exponent in exponents])
        right = nearest_float32(sum(map(Fraction, numbers.tolist())))
        assert round_once(exact_sum(numbers.tolist()), torch.float32) == right


@pytest.mark.parametrize("family", [IndexAdd, ScatterAdd, EmbeddingBackward])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_every_family_is_right_and_timed(family, dtype):
    rows = run_case(family(3000, 3, 40, dtype=dtype), "cpu", [1, 2], repeats=2)
    assert [row["wrong"] for row in rows] == [""] * len(rows)
    assert all(row["milliseconds"]["median"] > 0 for row in rows)
    assert all(row["share_right"] == 1.0 for row in rows if row["contestant"] in (OURS, FORCED_EXACT))
    if family is IndexAdd:
        assert ALL_NAN in [row["contestant"] for row in rows]


@pytest.mark.parametrize("reduce", ["mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("elements", [False, True])
def test_other_reductions_are_right_and_timed(elements, reduce):
    for dtype in ("float32", "bfloat16", "float64"):
        for features in (1, 3):
            case = Reducing(2000, features, 60, dtype=dtype, reduce=reduce, elements=elements)
            rows = run_case(case, "cpu", [2], repeats=2)
            assert [row["wrong"] for row in rows] == [""] * len(rows)
            assert [row["share_right"] for row in rows if row["contestant"] == OURS] == [1.0]


@pytest.mark.parametrize("features", [1, 3])
def test_reductions_of_segments_are_right_and_timed(features):
    for dtype in ("float32", "bfloat16", "float64"):
        cases = [
            SegmentReducing(2000, features, 60, dtype=dtype, reduce=reduce, slices=slices)
            for reduce in ("sum", "mean", "max", "min", "prod")
            for slices in (1, 5)
        ]
        cases += [ScatterExtremum(2000, features, 60, dtype=dtype, reduce=reduce) for reduce in ("max", "min")]
        for case in cases:
            rows = run_case(case, "cpu", [2], repeats=2)
            assert [row["wrong"] for row in rows] == [""] * len(rows), case
            assert [row["share_right"] for row in rows if row["contestant"] == OURS] == [1.0]


@pytest.mark.parametrize("mode", bags.MODES)
@pytest.mark.parametrize("backward", [False, True])
def test_bags_are_right_and_timed(mode, backward):
    for dtype in ("float32", "bfloat16", "float64"):
        for features in (3, 20):
            case = bags.EmbeddingBag(50, features, 7, 300, mode, backward and mode != "max", dtype)
            rows = run_case(case, "cpu", [2], repeats=2)
            assert [row["wrong"] for row in rows] == [""] * len(rows)
            assert [row["share_right"] for row in rows if row["contestant"] == OURS] == [1.0]


def test_nobody_meets_what_another_left_in_the_buffers():
    class Watched(IndexAdd):
        """Notes what every contestant finds in its output."""

        def contestants(self, problem):
            def watch(contestant):
                def call(copy):
                    found.append(problem.copies[copy][0].abs().sum().item())
                    return contestant.call(copy)

                return dataclasses.replace(contestant, call=call)

            return [watch(contestant) for contestant in super().contestants(problem)]

    found = []
    run_case(Watched(300, 3, 40), "cpu", [1], repeats=2)
    assert found == [0.0] * len(found) != []


@pytest.mark.parametrize("elements", [False, True])
@pytest.mark.parametrize("features", [1, 3])
def test_plain_writes_are_right_and_timed(elements, features):
    rows = run_case(Overwriting(3000, features, 40, elements=elements), "cpu", [1, 2], repeats=2)
    assert [row["wrong"] for row in rows] == [""] * len(rows)
    assert {row["share_right"] for row in rows if row["contestant"] == OURS} == {1.0}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_prefix_sums_are_right_and_timed(dtype):
    layouts = [Cumsum((3000,), 0, dtype), Cumsum((40, 30), 0, dtype), Cumsum((40, 30), 1, dtype)]
    if dtype in ("float32", "float64"):
        layouts.append(Cumsum((3000,), 0, dtype, hard=True))
    for case in layouts:
        rows = run_case(case, "cpu", [1, 2], repeats=2)
        assert [row["wrong"] for row in rows] == [""] * len(rows)
        assert {row["share_right"] for row in rows if row["contestant"] == OURS} == {1.0}
    if len(layouts) == 4:
        assert {row["share_right"] for row in rows if row["contestant"] == "cumsum"} != {1.0}


@pytest.mark.parametrize("function, weighted", [("bincount", True), ("histc", False), ("histogram", False),
                                                ("histogram", True)])  # fmt: skip
def test_histograms_are_right_and_timed(function, weighted):
    for dtype in ("float32", "float64"):
        rows = run_case(Counting(function, 20_000, 30, dtype, weighted), "cpu", [1, 2], repeats=2)
        assert [row["wrong"] for row in rows] == [""] * len(rows)
        assert {row["share_right"] for row in rows if row["contestant"] == OURS} == {1.0}
        if weighted:
            assert {row["share_right"] for row in rows if row["contestant"] == function} != {1.0}


@pytest.mark.parametrize(
    "name, dtype",
    [
        *itertools.product(["cumprod", "logcumsumexp"], ["float32", "float64", "bfloat16"]),
        ("cumprod", "complex64"),  # a logcumsumexp of complex numbers is torch's
    ],
)
def test_running_products_are_right_and_timed(name, dtype):
    for sizes, dim in (((3000,), 0), ((40, 30), 0), ((40, 30), 1)):
        rows = run_case(Running(name, sizes, dim, dtype), "cpu", [1, 2], repeats=2)
        assert [row["wrong"] for row in rows] == [""] * len(rows)


class OneBitOff(IndexAdd):
    """Our operator, but for the last bit of one output in four."""

    def contestants(self, problem):
        def wrong(out, src):
            torch.ops.reprocuda.index_add_(out, 0, problem.index, src)
            out[::4] = torch.nextafter(out[::4], torch.tensor(math.inf))
            return out

        right = super().contestants(problem)[0]
        return [right, self.contestant(problem, OURS, wrong, promise="exact")]


def test_a_wrong_result_is_not_timed():
    right, wrong = run_case(OneBitOff(3000, 3, 40), "cpu", [1], repeats=2)
    assert right["milliseconds"] is not None
    assert wrong["milliseconds"] is None
    assert wrong["ratios"] == {}
    assert "sampled outputs are right" in wrong["wrong"]


def test_reports_say_what_was_measured(tmp_path):
    goals = {1: {(OURS, "index_add_"): 1e9, (ALL_NAN, OURS): 0.0}}
    make_rows = functools.partial(run_case, device="cpu", thread_counts=[1], repeats=2)
    rows = make_rows(IndexAdd(3000, 3, 40, goals=goals)) + make_rows(EmbeddingBackward(3000, 3, 40))
    document = {"device": "cpu", "machine": "a machine", "torch": torch.__version__, "date": "today", "repeats": 2}
    document["overhead_microseconds"] = {
        "scatter_add_": {"never enabled": 1.0, "on": 2.25, "off": 1.75},
        "index_add_ of rows": {"never enabled": 1.0, "on": 3.5, "off": 4.5},
    }
    document = json.loads(json.dumps({**document, "rows": rows}))
    table = markdown(document)
    assert "(goal 1e+09: met)" in table
    assert "(goal 0: MISSED)" in table
    draw(tmp_path / "cpu.png", document)
    assert (tmp_path / "cpu.png").stat().st_size > 5_000
    readme = "before\n<!-- measured: begin (python -m benchmarks.readme) -->\nold\n<!-- measured: end -->\nafter\n"
    assert measured(document) in rewritten(readme, document)
    assert rewritten(readme, document).startswith("before\n")
    assert rewritten(readme, document).endswith("after\n")


def test_the_device_is_asked_about_every_operator_that_is_on_it():
    asked = {problem.operator for dtype in DEVICE_DTYPES for problem in problems((4, 1, 3), dtype)}
    assert asked == {operator.name for operator in reprocuda.registry.values() if "cuda" in operator.devices}


@pytest.mark.parametrize("dtype", DEVICE_DTYPES, ids=str)
def test_what_the_device_is_asked_runs(dtype):
    """Here on the CPU, beside itself; a result that differs by one bit is told."""
    for shape in ((1, 1, 1), (300, 5, 7)):
        for problem in problems(shape, dtype):
            right = tensors_of(problem.run(*problem.inputs))
            assert compare(problem, right, "auto", True, short=True, device="cpu") == "same", problem.name
            if right[0].numel():
                wrong = [tensor.clone() for tensor in right]
                wrong[0].view(-1).view(torch.uint8)[:1].bitwise_xor_(1)
                assert compare(problem, wrong, "auto", True, short=True, device="cpu") == "other bits", problem.name
