"""The page: right figures, readable without the plot, self-contained, and nothing in it is obeyed."""

import html.parser
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch

import reprocuda
from reprocuda.auditing.trace import Geometry
from reprocuda.reports import Calls, History, divergence, measure, variability
from reprocuda.reports.costs import Cost
from reprocuda.reports.divergence import Divergence, Point
from reprocuda.reports.html import render, write
from reprocuda.reports.plots import divergence_plot
from reprocuda.reports.traced import calls_of_trace
from reprocuda.reports.verdict import verdict

EVIL = "<script>alert('x')</script>\"&.py"
VOID = {"meta", "br", "link", "img", "input"}


class Page(html.parser.HTMLParser):
    """Its elements and texts; an error where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def two_runs(name="layer.weight"):
    histories = []
    for run in range(2):
        history = History()
        for step in range(4):
            weights = {name: torch.ones(4) + (run and step >= 2) * 1e-3, "steady": torch.ones(2)}
            history.record(1.0 + (run and step >= 3) * 0.5, weights=weights)
        history.finish(weights)
        histories.append(history)
    return divergence(*histories)


def everything(evil=EVIL):
    audit = {"identical": False, "kind": "operator", "operator": evil, "file": evil, "line": 12, "module": evil}
    manifests = [{"torch": {"version": "2.13"}, evil: 1}, {"torch": {"version": "2.14"}, evil: evil}]
    costs = [Cost(evil, "index_add", "cpu", evil, 4, 2.0, 1.0, 9)]
    return {
        "audit": {**audit, "step": 3, "cure": evil, "also": [audit], "first_difference": audit, "notes": [evil]},
        "divergence": two_runs(evil),
        "costs": costs,
        "manifests": manifests,
        "names": (evil, "second"),
        "title": evil,
    }


def test_nothing_in_it_is_obeyed_and_nothing_is_loaded():
    text = render(**everything())
    page = Page(text)
    assert "script" not in page.tags and not {"link", "img", "iframe", "object"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href", "xlink:href")]
    assert not re.search(r"https?:|url\(|@import|//\w", text)
    assert "default-src 'none'" in dict(page.attributes)["content"]
    assert "".join(page.text).count(EVIL) >= 8  # and yet it is shown as it is, in every section


def test_it_can_be_read_without_the_plot():
    page = Page(render(**everything("plain.py")))
    texts = " ".join(page.text)
    assert page.tags.count("h1") == 1 and "title" in page.tags and ("lang", "en") in page.attributes
    assert page.tags.count("caption") == page.tags.count("table") >= 4
    facts = ["The runs differ", "plain.py:12", "an operator that gave other bits", "0: identical bits"]
    for fact in [*facts, "plain.py at plain.py:12 in plain.py, step None"]:
        assert fact in texts, fact
    svg = ElementTree.fromstring(re.search(r"<svg.*?</svg>", divergence_plot(two_runs()), re.S)[0])
    assert svg.get("role") == "img" and svg[0].tag == "title"
    assert svg[1].text.startswith("The first difference is at step 2: layer.weight. 1 of 2 weights differ")


def test_the_figures_are_those_of_the_comparison():
    found = two_runs()
    text = render(divergence=found)
    vermv = variability(torch.ones(4), torch.ones(4) + 1e-3).vermv
    assert f'<td class="number">{vermv:.3g}</td><td class="number">1</td>' in text
    rows = re.findall(r'<th scope="row">([^<]*)</th><td class="number">([^<]*)</td>', text)
    assert rows[:3] == [("layer.weight", "2"), ("loss", "3"), ("steady", "never")]
    assert found.loss[3].difference == 0.5 and "0.5" in text


def test_points_lie_where_the_axis_says():
    points = [Point(0, 0.0), Point(1, 1e-6), Point(2, 1e-2), Point(3, None)]
    svg = divergence_plot(Divergence(points, {}, 1, ("loss",), None))
    ticks = {label: float(y) - 4 for y, label in re.findall(r'y="([\d.]+)" text-anchor="end"[^>]*>([^<]+)<', svg)}
    line = re.search(r'<polyline class="loss" points="([^"]+)"', svg)[1]
    heights = [float(place.split(",")[1]) for place in line.split()]
    assert heights == pytest.approx(
        [ticks["0: identical bits"], ticks["1e-6"], ticks["1e-2"], ticks["other bits*"]], abs=0.2
    )
    assert heights[0] > heights[3] > heights[1] > heights[2]


def test_long_runs_and_many_weights_make_a_page_of_bounded_size():
    points = [Point(step, 1e-7 if step == 777 else 0.0) for step in range(100_000)]
    weights = {f"w{i}": [Point(0, 10.0 ** -(1 + i % 9))] for i in range(1000)}
    text = render(divergence=Divergence(points, weights, 0, ("w0",), None))
    assert len(text) < 300_000 and "960 more weights" in text and "601 more rows are left out" in text
    assert Page(text).text
    heights = {place.split(",")[1] for place in re.search(r'"loss" points="([^"]+)"', text)[1].split()}
    assert len(heights) == 2  # the one step that differs is not thinned away


@pytest.mark.parametrize(
    "audit, found, same, heading",
    [
        ({"identical": True}, None, True, "Identical"),
        (None, divergence(History(), History()), True, "Identical"),
        ({"identical": True}, two_runs(), False, "The runs differ"),
        ({"identical": False, "kind": "data"}, None, False, "The runs differ"),
        (None, None, None, "Nothing was compared"),
    ],
)
def test_the_verdict(audit, found, same, heading):
    assert verdict(audit, found).identical is same
    assert f"<h2>{heading}</h2>" in render(audit=audit, divergence=found)


def test_environments_count_only_where_nothing_else_was_compared():
    others = [{"seed": 1}, {"seed": 2}]
    assert verdict({"identical": True}, None, others).compared == ("audit",)
    assert verdict(None, None, others).identical is False and verdict(None, None, others[:1]).identical is None


def test_a_difference_that_no_kept_element_shows_is_said_in_words():
    weights = {"w": [Point(0, 0.0), Point(1, None)]}
    text = render(divergence=Divergence([], weights, 1, ("w",), None))
    assert '<th scope="row">w</th><td class="number">1</td><td class="number">other bits</td>' in text
    assert "5e-324" not in text and "4.94e-324" not in text


def test_a_finding_of_an_audit_that_is_identical_is_not_lost():
    text = render(audit={"identical": True, "kind": "environment", "cure": "set PYTHONHASHSEED"})
    assert "<h2>Identical</h2>" in text and "set PYTHONHASHSEED" in text and "First difference" not in text


def test_environments_that_differ_are_shown_side_by_side():
    text = render(manifests=[{"environment": {"gpus": ["A"]}, "seed": 1}, {"environment": {"gpus": ["B"]}, "seed": 1}])
    assert '<th scope="row">environment.gpus.0</th><td>A</td><td>B</td><td>likely</td>' in text
    same = [{"seed": 1, "created": "monday"}, {"seed": 1, "created": "tuesday"}]
    assert "are the same" in render(manifests=same) and verdict(None, None, same).identical


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="manifests must be at most two, got 3"):
        render(manifests=[{}, {}, {}])
    with pytest.raises(ValueError, match=r"names must be two, got \['one'\]"):
        render(names=["one"])


def test_names_that_are_no_text_can_be_written(tmp_path):
    write(tmp_path / "report.html", audit={"identical": False, "file": "b\udcffad.py", "line": 1})
    assert "b\\udcffad.py:1" in (tmp_path / "report.html").read_text("utf-8")


def test_calls_of_replaced_operators_are_noted_forward_and_backward(tmp_path):
    table = torch.zeros(5, 2, requires_grad=True)
    with Calls() as calls:
        for _ in range(2):
            rows = torch.nn.functional.embedding(torch.tensor([1, 1, 4]), table)
            torch.zeros(3, 2).index_add_(0, torch.tensor([0, 0, 2]), rows).sum().backward()
        target = torch.zeros(3)
        target[torch.tensor([0, 1])] = 1.0
        target.index_put_((torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
    found = [(call.overload, call.operator, call.count) for call in calls.found]
    assert sorted(found) == [
        ("embedding_dense_backward", "embedding", 2),
        ("index_add_", "index_add", 2),
        ("index_put_", "index_put", 1),
        ("index_put_", "index_put", 1),
    ]
    history = History()
    history.calls = calls.state()
    history.save(tmp_path / "run.history")
    costs = measure(History.load(tmp_path / "run.history").calls, rounds=3)
    assert sorted((c.overload, c.arguments, c.count) for c in costs) == sorted(
        (c.overload, c.arguments, c.count) for c in calls.found
    )
    assert len(costs) == len(found) and all(c.native > 0 and c.ours > 0 for c in costs)


def test_calls_of_a_trace_can_be_timed_too(tmp_path):
    table = torch.zeros(5, 2, requires_grad=True)
    with reprocuda.Recorder(tmp_path / "run.trace"):
        for _ in range(2):
            rows = torch.nn.functional.embedding(torch.tensor([1, 1, 4]), table)
            torch.zeros(3, 2).index_add_(0, torch.tensor([0, 0, 2]), rows, alpha=2).sum().backward()
        target = torch.zeros(3, 4)
        target.scatter_add_(1, torch.tensor([[3], [1]]), torch.ones(2, 1))
        target[:, torch.tensor([0, 1])] = 1.0
        target.index_put_((torch.tensor([2, 2]), torch.tensor([3, 3])), torch.ones(2), accumulate=True)
    calls = calls_of_trace(tmp_path / "run.trace")
    assert sorted((call.overload, call.count) for call in calls) == [
        ("embedding_dense_backward", 2),
        ("index_add_", 2),
        ("index_put_", 1),
        ("index_put_", 1),
        ("scatter_add_", 1),
    ]
    costs = measure(calls, rounds=1)
    assert len(costs) == 5 and all(cost.drawn for cost in costs)
    assert "of the run, with uniform indices" in render(costs=costs)


def test_another_form_of_geometries_in_a_trace_is_an_error_and_not_a_page_without_costs():
    assert Geometry.parse("()") is None and Geometry.parse("('torch.sparse_coo',)") is None
    assert Geometry.parse("(1, (), (), 'bool')") == (1, (), (), "bool")
    for text in ("(0, torch.Size([3]), (1,), torch.float32)", "(0, (3,), (1,))", "(", "7"):
        with pytest.raises(ValueError, match="is not a geometry of a trace"):
            Geometry.parse(text)


def test_costs_are_not_measured_against_ourselves():
    with Calls() as calls:
        torch.zeros(3).index_add(0, torch.tensor([0]), torch.ones(1))
    with (
        reprocuda.enabled("index_add", strict=True),
        pytest.raises(RuntimeError, match="index_add is enabled; call it outside"),
    ):
        measure(calls.found)
    with pytest.raises(ValueError, match=r"reprocuda\.reports\.measure: rounds must be a positive number, got 0"):
        measure(calls.found, rounds=0)
