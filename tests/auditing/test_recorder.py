"""What a trace holds, and what comparing two of them finds."""

import inspect
import random

import pytest
import torch
from torch import nn

import reprocuda
from reprocuda.auditing import hooks
from reprocuda.auditing.trace import BACKWARD, IN_LOADER, STATISTICS, Reader


def record(path, function, **options):
    with reprocuda.Recorder(path, **options) as recorder:
        function()
    with Reader(path) as reader:
        return recorder, list(reader.records())


def test_forward_and_backward_share_line_and_module(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            y = self.layer(x)  # FORWARD
            return y.sigmoid()  # SIGMOID

    model = Model()
    _, records = record(tmp_path / "a", lambda: model(torch.ones(3, 4)).sum().backward())
    lines, first = inspect.getsourcelines(Model)
    at = {word: first + n for n, text in enumerate(lines) for word in ("FORWARD", "SIGMOID") if f"# {word}" in text}
    places = {(r.operator, bool(r.flags & BACKWARD)): (r.site[0], r.site[1], r.module) for r in records}
    assert places["aten::addmm", False] == (__file__, at["FORWARD"], "Model.layer")
    assert places["aten::mm", True] == (__file__, at["FORWARD"], "Model.layer")
    assert places["aten::sigmoid", False] == (__file__, at["SIGMOID"], "Model")
    assert places["aten::sigmoid_backward", True] == (__file__, at["SIGMOID"], "Model")


def test_content_follows_from_what_was_written(tmp_path):
    def run():
        x = torch.full((4,), 2.0)
        y = x * 3
        x[1] = 5.0
        z = x * 3
        return y, z

    _, records = record(tmp_path / "a", run)
    full, first, select, fill, second = records[0], records[1], *records[-3:]
    assert first.inputs[0].content == full.outputs[0][:8]
    assert second.inputs[0].content not in (full.outputs[0][:8], fill.outputs[0][:8])
    assert select.outputs == ()


def test_a_view_is_not_hashed_again(tmp_path):
    _, records = record(tmp_path / "a", lambda: torch.ones(4, 4).t().reshape(2, 8).view(-1)[3:])
    assert [bool(r.outputs) for r in records if r.operator in ("aten::t", "aten::view", "aten::slice.Tensor")] == [
        False
    ] * 3


def test_what_a_loader_does_is_marked(tmp_path):
    loader = torch.utils.data.DataLoader(torch.arange(8.0), 4, shuffle=True)
    _, records = record(tmp_path / "a", lambda: [batch + 1 for batch in loader])
    inside = {record.operator for record in records if record.flags & IN_LOADER}
    assert {"aten::randperm.generator", "aten::stack", "loader::iter"} <= inside
    assert {"loader::next", "aten::add.Tensor"}.isdisjoint(inside)


def test_a_long_run_takes_many_blocks_and_compares_by_bytes(tmp_path):
    def run():
        x = torch.zeros(8)
        for number in range(9000):
            x.add_(number)

    for name in "ab":
        recorder, _ = record(tmp_path / name, run)
    assert recorder.records == 9001
    with Reader(tmp_path / "a") as reader:
        assert len(list(reader.blocks())) == 3
        assert reader.complete and reader.footer["records"] == 9001
    result = reprocuda.compare(tmp_path / "a", tmp_path / "b")
    assert result.identical and result.records == 9001


def test_the_first_difference_is_found_deep_in_a_long_run(tmp_path):
    def run(value):
        x = torch.zeros(8)
        for number in range(9000):
            x.add_(value if number == 6000 else 1.0)

    record(tmp_path / "a", lambda: run(2.0))
    record(tmp_path / "b", lambda: run(3.0))
    result = reprocuda.compare(tmp_path / "a", tmp_path / "b")
    assert (result.identical, result.records, result.operator) == (False, 6001, "aten::add_.Tensor")


def test_traces_of_another_structure_are_aligned(tmp_path):
    noise = torch.library.custom_op("audit_test::noise", mutates_args=())(_noise)

    def run(extra):
        x = torch.ones(4)
        for _ in range(20):
            x = x * 2
        for _ in range(extra):
            x.abs()
        for _ in range(20):
            x = x / 2
        return noise(x)

    record(tmp_path / "a", lambda: run(0))
    record(tmp_path / "b", lambda: run(7))
    result = reprocuda.compare(tmp_path / "a", tmp_path / "b")
    assert (result.kind, result.first_difference.operator) == ("control_flow", "aten::div.Tensor")
    assert [place.operator for place in result.also] == ["audit_test::noise"]


def _noise(x: torch.Tensor) -> torch.Tensor:
    return x + random.random()


def test_one_run_that_ends_early_is_control_flow(tmp_path):
    for name, count in (("a", 3), ("b", 2)):
        record(tmp_path / name, lambda count=count: [torch.ones(2) for _ in range(count)])
    result = reprocuda.compare(tmp_path / "a", tmp_path / "b")
    assert result.kind == "control_flow" and "second run ended" in result.reason


def test_a_trace_that_was_cut_off_is_compared_as_far_as_it_goes(tmp_path):
    for name in "ab":
        record(tmp_path / name, lambda: [torch.ones(2) for _ in range(5000)])
    data = (tmp_path / "b").read_bytes()
    (tmp_path / "b").write_bytes(data[: len(data) * 9 // 10])
    result = reprocuda.compare(tmp_path / "a", tmp_path / "b")
    assert not result.identical and result.records == 4096
    assert any("killed" in note for note in result.notes)


@pytest.mark.parametrize("content", [b"", b"hello", b"reprocuda trace 2\n", b"reprocuda trace 2\n\xff\xff"])
def test_what_is_no_trace_is_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match=r"reprocuda.compare: first must be a trace that reprocuda wrote, got .*a$"):
        reprocuda.compare(tmp_path / "a", tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        reprocuda.compare(tmp_path / "none", tmp_path / "a")


def test_recorders_nest(tmp_path):
    with reprocuda.Recorder(tmp_path / "a") as outer:
        torch.ones(2)
        with reprocuda.Recorder(tmp_path / "b") as inner:
            torch.ones(2) + 1
    assert (outer.records, inner.records) == (3, 2)


def test_unseen_writes_of_an_array_are_seen_at_the_next_use(tmp_path):
    def run(value):
        import numpy as np

        array = np.zeros(4)
        x = torch.from_numpy(array)
        x + 1
        array[:] = value
        return x + 2

    record(tmp_path / "a", lambda: run(1))
    record(tmp_path / "b", lambda: run(2))
    result = reprocuda.compare(tmp_path / "a", tmp_path / "b")
    assert result.reason == "an input that no recorded operator made differs"


def test_workers_that_answer_in_another_order_do_not_blame_the_sampler(tmp_path):
    """Inside a loader, the draws for the next epoch and the arrival of batches mix by chance."""

    def run(late, noise):
        draw = torch.Generator().manual_seed(0)
        order = [torch.utils.data.RandomSampler(range(8), generator=draw) for _ in range(2)]
        with hooks._loading():
            list(order[0])
            for part in ("arrival", "draw") if late else ("draw", "arrival"):
                list(order[1]) if part == "draw" else torch.zeros(3)
        for recorder in hooks._listening():
            recorder._batch((noise,), [])

    record(tmp_path / "a", lambda: run(False, 1.0))
    record(tmp_path / "b", lambda: run(True, 2.0))
    result = reprocuda.compare(tmp_path / "a", tmp_path / "b")
    assert (result.kind, result.reason) == ("data", "a batch came out of the loader different")


def test_variables_that_doctor_knows_are_compared(tmp_path, monkeypatch):
    for name, isa, seed in (("a", "AVX2", "7"), ("b", "AVX512", "8")):  # each run of a script has another hash seed
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", isa)
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        record(tmp_path / name, lambda: torch.ones(3))
    result = reprocuda.compare(tmp_path / "a", tmp_path / "b")
    assert result.identical
    assert result.notes == ("the environments differ: ONEDNN_MAX_CPU_ISA (AVX2 and AVX512)",)


def test_a_batch_norm_that_gathers_statistics_without_gradients_is_flagged(tmp_path):
    norm = nn.BatchNorm1d(3)

    def run():
        norm.train()(torch.ones(4, 3))
        with torch.no_grad():
            norm.train()(torch.ones(4, 3))
            norm.eval()(torch.ones(4, 3))

    _, records = record(tmp_path / "a", run)
    flagged = [bool(r.flags & STATISTICS) for r in records if "batch_norm" in r.operator]
    assert flagged == [False, True, False]


@pytest.mark.parametrize(("steps", "error"), [(0, ValueError), (True, TypeError), (2.0, TypeError)])
def test_steps_that_are_no_number_of_steps_are_refused(tmp_path, steps, error):
    with pytest.raises(error, match=r"reprocuda.Recorder: steps must be .*, got"):
        reprocuda.Recorder(tmp_path / "a", steps=steps)
    assert not (tmp_path / "a").exists()
