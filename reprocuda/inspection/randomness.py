"""Numbers that nothing fixes: generators without a seed, the clock, loaders and samplers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .finding import Finding
from .order import is_reporting
from .source import Source, constant, has_unpacked, keyword

FAMILIES = ("random", "numpy", "torch")
_CURE = "reprocuda.reproducible(seed) at the script's start, or `python -m reprocuda run`"

_PYTHON_DRAWS = {
    "random", "randint", "randrange", "choice", "choices", "sample", "shuffle", "uniform", "gauss", "normalvariate",
    "betavariate", "expovariate", "triangular", "getrandbits", "randbytes", "lognormvariate", "vonmisesvariate",
}  # fmt: skip
_NUMPY_DRAWS = {
    "rand", "randn", "randint", "random", "random_sample", "ranf", "sample", "choice", "shuffle", "permutation",
    "uniform", "normal", "standard_normal", "beta", "binomial", "poisson", "exponential", "gamma", "multinomial",
    "multivariate_normal", "bytes", "laplace", "dirichlet", "geometric", "random_integers",
}  # fmt: skip
_TORCH_DRAWS = {
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli",
    "multinomial", "poisson",
}  # fmt: skip
_TORCH_METHOD_DRAWS = {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_"}
# Modules that draw when they are made, or when they run.
_TORCH_MODULES = re.compile(
    r"^torch\.nn\.(modules\.\w+\.)?(Linear|Bilinear|Conv\w*|Embedding\w*|LSTM\w*|GRU\w*|RNN\w*|Transformer\w*"
    r"|MultiheadAttention|\w*Dropout\w*|RReLU)$|^torch\.nn\.functional\.\w*dropout\w*$"
)
_SEEDS = {
    "random.seed": ("random",),
    "random.setstate": ("random",),
    "numpy.random.seed": ("numpy",),
    "numpy.random.set_state": ("numpy",),
    "torch.manual_seed": ("torch",),
    "torch.random.manual_seed": ("torch",),
    "torch.set_rng_state": ("torch",),
    "torch.cuda.manual_seed": (),
    "torch.cuda.manual_seed_all": (),
}
_SEED_WORD = re.compile(r"(^|_)(seed|seeds|deterministic|determinism|reproducible)(_|$)|seed_everything", re.IGNORECASE)
_GENERATORS = {
    "numpy.random.default_rng": "numpy", "numpy.random.RandomState": "numpy", "numpy.random.PCG64": "numpy",
    "numpy.random.SeedSequence": "numpy", "numpy.random.Philox": "numpy", "numpy.random.MT19937": "numpy",
    "random.Random": "random",
}  # fmt: skip
_CLOCKS = {
    "time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "time.monotonic_ns",
    "time.process_time", "time.process_time_ns", "time.thread_time", "time.thread_time_ns", "datetime.datetime.now",
    "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
}  # fmt: skip
_ENTROPY = {
    "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getpid", "secrets.randbits", "secrets.randbelow",
    "secrets.token_bytes", "secrets.choice", "secrets.token_hex", "random.SystemRandom",
}  # fmt: skip
_NEW_IN_EACH_RUN = _CLOCKS | _ENTROPY


@dataclass
class Reach:
    """What any of the files looked at together does: a seed set in one of them holds for all."""

    seeded: set[str] = field(default_factory=set)
    sets_epoch: bool = False

    def add(self, source: Source) -> None:
        for call in source.calls:
            name = source.called(call)
            last = name.rpartition(".")[2] or (call.func.attr if isinstance(call.func, ast.Attribute) else "")
            if name in _SEEDS:
                self.seeded.update(() if _is_none(call) else _SEEDS[name])
            elif last == "set_epoch":
                self.sets_epoch = True
            elif _seeds_everything(name, last):
                self.seeded.update(FAMILIES)


def _seeds_everything(name: str, last: str) -> bool:
    """Whether a call is, by its name, a helper that seeds all generators."""
    if name.startswith("transformers.") and last == "Trainer":
        return True
    return not name.startswith(("torch.", "numpy.", "random.")) and bool(_SEED_WORD.search(last))


def draws_from(source: Source, call: ast.Call) -> str | None:
    """The family of global generator that a call draws from; None where it draws from none, or its own is given."""
    name = source.called(call)
    owner, _, last = name.rpartition(".")
    if owner == "random" and last in _PYTHON_DRAWS:
        return "random"
    if owner == "numpy.random" and last in _NUMPY_DRAWS:
        return "numpy"
    if (owner == "torch" and last in _TORCH_DRAWS) or source.method(call) in _TORCH_METHOD_DRAWS:
        given = keyword(call, "generator")
        own = given is not None and not (isinstance(given, ast.Constant) and given.value is None)
        return None if own or has_unpacked(call) else "torch"
    return "torch" if _TORCH_MODULES.match(name) else None


def draws_outside_torch(source: Source, call: ast.Call) -> bool:
    """Whether a call draws from NumPy's or Python's global generator, or makes a generator of theirs."""
    return draws_from(source, call) in ("random", "numpy") or source.called(call) in _GENERATORS


def draws_unseeded(source: Source, call: ast.Call, reach: Reach) -> bool:
    """Whether a call draws from NumPy's or Python's global generator without a seed in reach, or makes one without."""
    if source.called(call) in _GENERATORS:
        return _is_unseeded_generator(source, call)
    return draws_outside_torch(source, call) and draws_from(source, call) not in reach.seeded


def reads_clock(source: Source, call: ast.Call) -> bool:
    """Whether a call asks for the time."""
    return source.called(call) in _CLOCKS


def check_unseeded(source: Source, reach: Reach) -> Iterator[tuple[ast.AST, Finding]]:
    """code unseeded: draws from a global generator that no seed call in reach has fixed.

    A file that only defines things is not inspected for seeds: it draws what its caller has seeded.
    """
    entry = source.is_entry_point()
    for call in source.calls:
        family = draws_from(source, call)
        called = source.called(call)
        if called in ("random.seed", "numpy.random.seed", "torch.seed", "torch.random.seed"):
            if called.startswith("torch") or _is_none(call):
                text = f"{ast.unparse(call)} seeds from the operating system's entropy, anew in each run"
                yield call, Finding("problem", "unseeded", called, text, "give it a number")
        elif family and family not in reach.seeded and (entry or source.function(call) is None):
            module = bool(_TORCH_MODULES.match(called))
            if module and not entry:
                continue
            what = "is initialised or drops by" if module else "draws from"
            text = f"{what} {family}'s global generator, which starts elsewhere in each run: no seed call is in reach"
            yield call, Finding("warning", "unseeded", ast.unparse(call.func), text, _CURE)


def _is_none(call: ast.Call) -> bool:
    """Whether a call's first argument, the seed, is missing or None."""
    given = call.args[0] if call.args else (call.keywords[0].value if call.keywords else ast.Constant(None))
    return isinstance(given, ast.Constant) and given.value is None


def check_generators(source: Source) -> Iterator[tuple[ast.AST, Finding]]:
    """code unseeded-generator: a generator object made without a seed."""
    for call in source.calls:
        name = source.called(call)
        if name in _GENERATORS and _is_unseeded_generator(source, call):
            text = "a generator without a seed takes the operating system's entropy: other numbers in each run"
            yield call, Finding("warning", "unseeded-generator", name, text, f"{name}(seed)")
        if name == "torch.Generator" and not _is_seeded_later(source, call, ("manual_seed", "set_state")):
            text = (
                "a torch.Generator without a seed always starts at one fixed number: runs repeat, but no seed of yours "
            )
            text += "reaches it, and all such generators draw the same"
            yield call, Finding("note", "unseeded-generator", name, text, "torch.Generator().manual_seed(seed)")


def _is_unseeded_generator(source: Source, call: ast.Call) -> bool:
    return _is_none(call) and not _is_seeded_later(source, call, ("seed", "setstate", "set_state"))


def _is_seeded_later(source: Source, call: ast.Call, methods: tuple[str, ...]) -> bool:
    parent = source.parents[call]
    if isinstance(parent, ast.Attribute):
        return parent.attr in methods
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
        text = ast.unparse(target)
        return any(
            isinstance(other.func, ast.Attribute)
            and other.func.attr in methods
            and ast.unparse(other.func.value) == text
            for other in source.calls
        )
    return False


def check_clock(source: Source) -> Iterator[tuple[ast.AST, Finding]]:
    """code clock: the time, a process number or entropy where it decides a result."""
    texts = {
        "seed": ("problem", "seeds a generator: another seed in each run"),
        "branch": ("warning", "decides what is done: another path in each run"),
        "computation": ("warning", "enters a computation"),
        "index": ("warning", "enters an index"),
    }
    for call in source.calls:
        name = source.called(call)
        if name in _NEW_IN_EACH_RUN:
            use = _where_it_goes(source, call)
            if use:
                severity, text = texts[use]
                cure = "take a number that you pass in and record: the step, an argument, the seed"
                yield call, Finding(severity, "clock", name, f"{name} {text}", cure)


def _where_it_goes(source: Source, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> str | None:
    if node in seen or len(seen) > 25:
        return None
    seen = seen | {node}
    parent = source.parents[node]
    if isinstance(parent, ast.keyword):
        if parent.arg and "seed" in parent.arg:
            return "seed"
        parent = source.parents[parent]
    if isinstance(parent, ast.Call) and node is not parent.func:
        return _argument_goes(source, parent, seen)
    if isinstance(parent, ast.Attribute):  # a method's result, or a field
        return _where_it_goes(source, parent, seen)
    if isinstance(parent, ast.Call):
        return _where_it_goes(source, parent, seen)
    if isinstance(parent, ast.BinOp):
        is_index = isinstance(parent.op, ast.Mod) and node is parent.left and not isinstance(node, ast.JoinedStr)
        return _where_it_goes(source, parent, seen) or ("index" if is_index else None)
    if isinstance(parent, (ast.UnaryOp, ast.Compare, ast.BoolOp)):
        return _where_it_goes(source, parent, seen)
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)) and node is parent.test:
        return None if "getpid" in ast.unparse(node) or _only_times(source, parent) else "branch"
    if isinstance(parent, ast.Subscript) and node is parent.slice:
        return "index"
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
        if isinstance(target, ast.Name):
            if "seed" in target.id.lower():
                return "seed"
            found = [_where_it_goes(source, use, seen) for use in source.uses(target)]
            return next((use for use in found if use), None)
    return None


def _argument_goes(source: Source, call: ast.Call, seen: frozenset[ast.AST]) -> str | None:
    name = source.called(call)
    last = name.rpartition(".")[2] or (call.func.attr if isinstance(call.func, ast.Attribute) else "")
    if "seed" in last.lower() or name in _GENERATORS:
        return "seed"
    if is_reporting(source, call) or last in ("add_scalar", "record_function"):
        return None
    if name in ("int", "float", "abs", "round", "str", "hash", "min", "max", "int.from_bytes", "divmod"):
        return _where_it_goes(source, call, seen)
    if name.startswith(("torch.", "numpy.")):
        timing = isinstance(source.parents[call], ast.Attribute) or "cuda" in name
        return None if timing and last not in ("tensor", "full") else "computation"
    return None


def _only_times(source: Source, branch: ast.If | ast.While | ast.IfExp) -> bool:
    """Whether a branch on the time only waits, gives up or tells: nothing that a result is made of."""
    if isinstance(branch, ast.IfExp):
        return False
    calls = [n for s in branch.body for n in ast.walk(s) if isinstance(n, ast.Call)]
    if any(source.called(call) == "time.sleep" for call in calls):
        return True
    return all(_only_tells(source, statement) for statement in branch.body)


def _only_tells(source: Source, statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Raise, ast.Pass)):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return is_reporting(source, statement.value)
    if isinstance(statement, ast.Assign):
        value = statement.value
        return isinstance(value, (ast.Constant, ast.Name)) or (
            isinstance(value, ast.Call) and source.called(value) in _NEW_IN_EACH_RUN
        )
    return False


def check_loaders(source: Source, reach: Reach) -> Iterator[tuple[ast.AST, Finding]]:
    """code loader: a DataLoader that draws, with neither generator nor worker_init_fn; code sampler-epoch."""
    for call in source.calls:
        name = source.called(call)
        last = name.rpartition(".")[2]
        if last == "DataLoader" and name.startswith(("torch.", "torch_geometric.")) and not has_unpacked(call):
            shuffles = constant(keyword(call, "shuffle", 2), default=None) is True
            workers = keyword(call, "num_workers", 5)
            has_workers = workers is not None and constant(workers, default=1) != 0
            own = keyword(call, "generator") is not None or keyword(call, "worker_init_fn") is not None
            if (shuffles or has_workers) and not own:
                yield call, _loader_finding(shuffles, "torch" in reach.seeded)
        shuffled = constant(keyword(call, "shuffle", 3), default=True) is not False
        if last == "DistributedSampler" and shuffled and not reach.sets_epoch and not has_unpacked(call):
            text = "set_epoch is called nowhere: every epoch has the order of the first"
            cure = "sampler.set_epoch(epoch) before each epoch's loop, or reprocuda.data.loader"
            yield call, Finding("warning", "sampler-epoch", name, text, cure)


def _loader_finding(shuffles: bool, seeded: bool) -> Finding:
    draws = "the order of the data comes" if shuffles else "the workers' seeds come"
    text = f"{draws} from torch's global generator" + (
        ": every draw before it changes them" if seeded else ", which no seed call in reach has fixed"
    )
    cure = (
        "generator=torch.Generator().manual_seed(seed), worker_init_fn=reprocuda.seed_worker; or reprocuda.data.loader"
    )
    return Finding("note" if seeded else "warning", "loader", "DataLoader", text, cure)
