"""What to do about a cause."""

from __future__ import annotations

from ..dispatch.registry import replacing

_SEED = "seed it before use, by torch.manual_seed(seed) or reprocuda.seed_everything(seed), or use a seeded generator"


def operator(name: str) -> str:
    """For an operator whose result differed though its inputs did not; `name` as "aten::index_add_"."""
    plain = name.removeprefix("aten::")
    ours = replacing(plain, sparse=True)
    if ours is not None:
        where = "" if "cuda" in ours.replaces_on(plain) else " on the CPU"
        return f"reprocuda.enable() covers it{where}: {ours.name} then gives the exact sum, rounded once, in every run"
    if not name.startswith("aten::"):
        return (
            "an operator of your own or of a library, and no deterministic form of it is known: make its sums "
            "independent of their order (reprocuda.index_add, scatter_add and segment_sum are), or fix the order"
        )
    from ..dispatch.status import status  # reads torch's documentation: only where it is needed

    known = status()
    base = plain.split(".")[0].rstrip("_")
    if any(base in item for item in known.deterministic_in_torch):
        return "torch has a deterministic form: torch.use_deterministic_algorithms(True)"
    if any(base in item for item in known.would_raise):
        return "no deterministic form is known; torch.use_deterministic_algorithms(True) refuses it"
    return (
        "no deterministic form is known; try torch.use_deterministic_algorithms(True), "
        "torch.backends.cudnn.benchmark = False and one thread"
    )


def randomness(operator_name: str, generator: bool) -> str:
    whose = "its generator" if generator else "torch's global generator"
    return f"{operator_name} draws from {whose}, which was not seeded alike: {_SEED}"


def foreign_randomness(what: str) -> str:
    return (
        f"{what} differs between the runs and comes from outside torch (NumPy, random, a file, the system): seed "
        "NumPy and random with reprocuda.seed_everything(seed), and give np.random.default_rng a seed"
    )


LOADED = "what was loaded from a file differs: the file changed between the runs, for one because a run wrote it"

CLOCK = "the value comes from a clock: take it out of the computation, or pass it in as an argument"

OWN_STATE = "the function started from another state: it changed what it works on; build it inside, or restore it"

SEED_CALL = "the seed itself differs between the runs: use a constant, and log it"

SETTING = "the setting itself differs between the runs: use a constant"

SELECTION = "the same operator was given another tensor: the order of iteration differs; sort what is iterated over"

STRUCTURE = "the runs took different paths: make the condition, or the order of iteration, the same in every run"

STRUCTURE_CLOCK = "the path depends on a clock: count steps, not seconds"

UNSEEDED = (
    "NumPy or random decides the path, or the order, without a seed: reprocuda.seed_everything(seed) seeds both; give "
    "np.random.default_rng or random.Random a seed"
)

HASH = (
    "the order of a set, or hash(), depends on PYTHONHASHSEED, which is random in every process: use sorted(...) or a "
    "dict, or start the script with `python -m reprocuda run`"
)

UNINITIALISED = "memory that nobody has written is read: allocate it with torch.zeros, or write all of it first"

SET_EPOCH = "two epochs came in the same order: call sampler.set_epoch(epoch) before each epoch of a DistributedSampler"

LOADER_ORDER = (
    "the order is drawn from torch's global generator, which was not seeded: use reprocuda.data.loader(...), or pass "
    "generator=torch.Generator().manual_seed(seed) to the DataLoader"
)

SAMPLER = (
    "the sampler draws the order from NumPy or random, or takes it from a set, without a seed: "
    "reprocuda.seed_everything(seed) seeds both; give np.random.default_rng a seed"
)

LOADER_GENERATOR = "the loader's generator was not in the same state: seed it, and restore its state when resuming"

LOADER_WORKERS = (
    "the workers' seeds come from torch's global generator, which was not seeded: use reprocuda.data.loader(...), or "
    "a seeded generator= with worker_init_fn=reprocuda.seed_worker"
)


def loader_values(workers: int) -> str:
    if workers:
        return (
            "a worker's NumPy or random was not seeded: use worker_init_fn=reprocuda.seed_worker, and draw from the "
            "global state that it seeds, or seed np.random.default_rng from torch.initial_seed()"
        )
    return "the dataset draws from NumPy or random without a seed: reprocuda.seed_everything(seed) seeds both"


def batch_norm(module: str) -> str:
    where = f" ({module})" if module else ""
    return f"; a BatchNorm in train mode{where} was fed it without gradients: call model.eval() before evaluating"


def varied(what: str) -> str:
    text = f"the result depends on {what}: fix it for all runs"
    if "workers" in what:
        text += "; reprocuda.data.loader(...) gives the same batches for every number of workers"
    return text
