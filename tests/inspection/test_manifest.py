"""Manifests: what must differ does, and nothing else does."""

import hashlib
import json
import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import reprocuda
from reprocuda.inspection.difference import compare_documents
from reprocuda.inspection.digests import digest, path_digest, state_digest, tensor_digest
from reprocuda.inspection.manifest import Manifest, manifest

pytestmark = [
    pytest.mark.filterwarnings("ignore::reprocuda.ReproducibilityWarning"),
    pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning"),
]


def differing(a, b):
    return {difference.name for difference in a.diff(b)}


# Digests


def test_a_tensors_digest_is_sha256_of_dtype_shape_and_bits():
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    expected = hashlib.sha256(b"torch.float32 (2, 3) torch.strided" + tensor.numpy().tobytes()).hexdigest()
    assert tensor_digest(tensor) == expected
    assert tensor_digest(tensor.t().contiguous().t()) == expected
    assert tensor_digest(torch.zeros(4, 6)[::2, ::2].copy_(tensor)) == expected
    assert tensor_digest(torch.nn.Parameter(tensor)) == expected


@pytest.mark.parametrize(
    "other",
    [
        torch.zeros(3, 2),
        torch.zeros(6),
        torch.zeros(2, 3, dtype=torch.int32),
        torch.zeros(2, 3).index_fill(0, torch.tensor([1]), -0.0),
        torch.zeros(2, 3).to_sparse(),
    ],
    ids=["transposed", "flat", "dtype", "negative zero", "sparse"],
)
def test_a_tensors_digest_tells_apart(other):
    assert tensor_digest(torch.zeros(2, 3)) != tensor_digest(other)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.float8_e4m3fn,
        torch.complex64,
        torch.bool,
        torch.int8,
        torch.uint16,
    ],
    ids=str,
)
def test_every_dtype_and_size_has_a_digest(dtype):
    values = [0.0, 1.0, 1.0]
    several = torch.tensor(values).to(dtype)
    turned = torch.tensor(values[::-1]).to(dtype)
    digests = {tensor_digest(tensor) for tensor in (several, turned, several[:0], several[0])}
    assert len(digests) == 4


def test_lazily_conjugated_and_negated_tensors_are_what_they_say():
    value = torch.tensor([1 + 2j])
    assert tensor_digest(value.conj()) == tensor_digest(torch.tensor([1 - 2j]))
    assert tensor_digest(value.conj().imag) == tensor_digest(torch.tensor([-2.0]))


def test_sparse_layouts():
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    scattered = torch.sparse_coo_tensor([[1, 0, 1], [0, 1, 0]], [1.0, 2.0, 2.0], (2, 2))
    assert tensor_digest(scattered) == tensor_digest(dense.to_sparse())
    compressed = [
        tensor_digest(dense.to_sparse_csr()),
        tensor_digest(dense.to_sparse_csc()),
        tensor_digest(dense.to_sparse()),
    ]
    assert len(set(compressed)) == 3
    assert tensor_digest((2 * dense).to_sparse_csr()) != compressed[0]


def test_a_tensor_without_bits_is_refused():
    with pytest.raises(TypeError, match="meta"):
        tensor_digest(torch.empty(2, device="meta"))


def test_nests_are_told_apart_and_dicts_have_no_order():
    values = [None, False, 0, 0.0, -0.0, "", "0", b"", [], {}, (1, 2), [[1], 2], [1, [2]], {"a": 1}, {"a": "1"}, {1: 1}]
    assert len({digest(value) for value in values}) == len(values)
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"x", "y", "z"}) == digest({"z", "y", "x"})
    assert digest(np.array([1.0], "<f4")) == digest(np.array([1.0], ">f4"))
    assert digest(np.array([1.0])) != digest(np.array([1]))
    with pytest.raises(TypeError, match="object"):
        digest([object()])


def test_a_state_dicts_digest_does_not_depend_on_its_order():
    state = torch.nn.Linear(2, 3).state_dict()
    turned = dict(reversed(state.items()))
    assert state_digest(state) == state_digest(turned)
    assert state_digest(state)["elements"] == 9
    assert state_digest({"weight": state["bias"]})["sha256"] != state_digest({"bias": state["bias"]})["sha256"]


def test_a_folders_digest_is_of_names_and_contents(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "inner" / "a.txt").write_text("a")
    before = path_digest(tmp_path)
    assert before["files"]["b.txt"] == hashlib.sha256(b"b").hexdigest()
    assert (before["count"], before["bytes"], list(before["files"])) == (2, 2, ["b.txt", "inner/a.txt"])
    (tmp_path / "b.txt").rename(tmp_path / "c.txt")
    assert path_digest(tmp_path)["sha256"] != before["sha256"]
    (tmp_path / "c.txt").rename(tmp_path / "b.txt")
    assert path_digest(tmp_path) == before
    (tmp_path / "b.txt").write_text("c")
    assert path_digest(tmp_path)["sha256"] != before["sha256"]


# Manifests


def test_the_same_twice_is_no_difference():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    taken = [manifest(model, optimizer, torch.ones(3), seed=1, rate=0.1, size=(1, 2)) for _ in range(2)]
    assert taken[0].diff(taken[1]) == ()


def test_it_moves_no_generator_and_does_not_initialise_cuda(tmp_path):
    class Random(torch.utils.data.Dataset):
        def __len__(self):
            return 9

        def __getitem__(self, number):
            return number, random.random(), np.random.rand(), torch.rand(2)

    before = reprocuda.rng_state()
    found = [manifest(data=Random(), items=3) for _ in range(2)]
    assert digest(reprocuda.rng_state()) == digest(before)
    assert found[0].diff(found[1]) == ()
    assert found[0].document["data"]["data"] | {"sha256": ""} == {
        "class": "Random",
        "length": 9,
        "items": 3,
        "sha256": "",
    }
    assert not torch.cuda.is_initialized()


def changes():
    def draw(draw_one):
        return lambda model, optimizer: draw_one()

    def weights(model, optimizer):
        with torch.no_grad():
            model.weight[0, 0] += 1

    def rate(model, optimizer):
        optimizer.param_groups[0]["lr"] = 0.5

    def step(model, optimizer):
        model(torch.ones(2)).sum().backward()
        optimizer.step()

    return {
        "python": (draw(random.random), {"seeds.states.python"}),
        "numpy": (draw(np.random.rand), {"seeds.states.numpy"}),
        "torch": (draw(lambda: torch.rand(1)), {"seeds.states.torch"}),
        "weights": (weights, {"weights.sha256", "weights.entries.weight"}),
        "rate": (rate, {"optimizer.groups.0.lr", "optimizer.sha256"}),
        "step": (step, {"optimizer.sha256", "weights.sha256", "weights.entries.weight", "weights.entries.bias"}),
        "threads": (
            lambda model, optimizer: torch.set_num_threads(1 + torch.get_num_threads() % 2),
            {"environment.threads.intra_op", "flags.environment.torch.get_num_threads()"},
        ),
    }


@pytest.mark.parametrize("name", changes())
def test_what_changes_is_what_differs(name):
    change, expected = changes()[name]
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    before = manifest(model, optimizer)
    change(model, optimizer)
    assert differing(before, manifest(model, optimizer)) == expected


def test_flags_and_operators():
    before = manifest()
    with reprocuda.enabled("index_add", devices="cpu"):
        assert "operators.replaced.0" in differing(before, manifest())
        assert "index_add (cpu)" in manifest().document["operators"]["replaced"]
    torch._C._set_deterministic_algorithms(True, warn_only=False)
    try:
        during = manifest()
    finally:
        torch._C._set_deterministic_algorithms(False, warn_only=False)
    assert during.document["operators"]["refused"] == list(reprocuda.status().would_raise)
    assert "flags.switches.torch.use_deterministic_algorithms.0" in differing(before, during)


def test_the_seed_is_the_one_given_or_the_latest():
    with reprocuda.fork_rng():
        reprocuda.seed_everything(7)
        assert manifest().document["seeds"]["seed"] == 7
        assert manifest(seed=8).document["seeds"]["seed"] == 8


def test_data_of_every_kind(tmp_path):
    file = tmp_path / "data.bin"
    file.write_bytes(b"123")
    data = {"file": file, "folder": str(tmp_path), "tensor": torch.ones(2), "array": np.ones(3), "list": [1, 2]}
    found = manifest(data=data, items=1).document["data"]
    assert found["file"] == {"sha256": hashlib.sha256(b"123").hexdigest(), "bytes": 3}
    assert found["folder"]["count"] == 1 and found["array"]["shape"] == [3]
    assert found["list"]["items"] == 1 and found["list"]["sha256"] == digest([1])
    before = manifest(data=data)
    file.write_bytes(b"124")
    assert differing(before, manifest(data=data)) == {
        "data.file.sha256",
        "data.folder.sha256",
        "data.folder.files.data.bin",
    }


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"model": 3}, TypeError, "model is of type int"),
        ({"optimizer": 3}, TypeError, "optimizer is of type int"),
        ({"data": "no/such/file"}, FileNotFoundError, "data is 'no/such/file'"),
        ({"data": 3}, TypeError, "data is of type int"),
        ({"items": -1}, ValueError, "items is -1"),
        ({"rate": object()}, TypeError, "rate is of type object"),
    ],
)
def test_bad_arguments(arguments, error, said):
    with pytest.raises(error, match=said):
        manifest(**arguments)


def test_the_commit_and_what_changed_since(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert manifest().document["git"] is None

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "train.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    clean = manifest()
    assert clean.document["git"] == {"commit": git("rev-parse", "HEAD"), "changes_sha256": None}
    (tmp_path / "train.py").write_text("x = 2\n")
    assert differing(clean, manifest()) == {"git.changes_sha256"}


def test_two_processes_have_the_same_manifest(tmp_path):
    code = """
        import sys, torch, reprocuda
        reprocuda.reproducible(3, mode="train")
        model = torch.nn.Linear(3, 3)
        reprocuda.manifest(model, data={"x": torch.rand(4)}).save(sys.argv[1])
    """
    script = tmp_path / "pin.py"
    script.write_text(textwrap.dedent(code))
    for number in range(2):
        command = [sys.executable, "-m", "reprocuda", "run", str(script), str(tmp_path / "manifest.json")]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        (tmp_path / "manifest.json").rename(tmp_path / f"{number}.json")
    first, second = (Manifest.load(tmp_path / f"{number}.json") for number in range(2))
    assert first.document["script"] == {"name": "pin.py", "sha256": hashlib.sha256(script.read_bytes()).hexdigest()}
    assert first.document["seeds"]["seed"] == 3
    assert first.diff(second) == ()


def test_what_is_written_is_what_is_read(tmp_path):
    found = manifest(torch.nn.Linear(2, 2), shape=(1, 2), path=tmp_path, scale=np.float32(0.5))
    found.save(tmp_path / "manifest.json")
    assert Manifest.load(tmp_path / "manifest.json") == found
    assert json.loads(str(found)) == found.document


@pytest.mark.parametrize(
    "text",
    ["", "[1]", '{"format": "other"}', '{"format": "reprocuda-manifest", "version": 99}', "\xff", "[" * 100_000],
    ids=lambda text: text[:9],
)
def test_what_is_no_manifest_is_refused(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"bad\.json"):
        Manifest.load(path)


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_numbers_that_json_lacks_are_written_as_strings(tmp_path):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=float("inf"))
    made = manifest(optimizer=optimizer, rates=[float("nan"), -float("inf"), np.float32("nan"), 0.5])
    assert made.document["extra"] == {"rates": ["nan", "-inf", "nan", 0.5]}
    made.save(tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text(), parse_constant=refuse)
    assert read == made.document and read["optimizer"]["groups"][0]["lr"] == "inf"
    assert not made.diff(Manifest.load(tmp_path / "a.json"))
    other = manifest(optimizer=optimizer, rates=[1.0, -float("inf"), np.float32("nan"), 0.5])
    (difference,) = (found for found in made.diff(other) if found.name.startswith("extra"))
    assert (difference.name, difference.a, difference.b) == ("extra.rates.0", "nan", "1.0")


def test_differences_come_by_their_likelihood():
    a = {
        "created": "1",
        "packages": {"zlib": "1", "numpy": "1", "torch": "1"},
        "environment": {"platform": "1", "cpu": {"isa": "1", "model": "1"}, "gpus": [{"name": "A"}]},
        "flags": {"switches": {"x": True}},
        "weights": {"sha256": "1"},
        "arguments": ["--lr", "1"],
    }
    b = json.loads(json.dumps(a).replace('"1"', '"2"').replace("true", "false").replace('"A"', '"B"'))
    found = [(difference.likelihood, difference.name) for difference in compare_documents(a, b)]
    assert found == [
        ("certain", "weights.sha256"),
        ("likely", "packages.torch"),
        ("likely", "environment.cpu.isa"),
        ("likely", "environment.gpus.0.name"),
        ("likely", "flags.switches.x"),
        ("likely", "arguments.1"),
        ("possible", "packages.numpy"),
        ("possible", "environment.cpu.model"),
        ("unlikely", "packages.zlib"),
        ("unlikely", "environment.platform"),
    ]
