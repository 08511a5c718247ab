"""What is measured: a module a family of operators, each with its baselines beside it, and the goals on the CPU."""

from benchmarks.cases import bags, histograms, overwrites, reductions, running, scans, segments, sparse, sums
from benchmarks.cases.base import Case

FAMILIES = {
    "sums": sums,
    "other reductions": reductions,
    "plain writes": overwrites,
    "prefix sums": scans,
    "prefix products, log-sum-exps": running,
    "segments, extrema with positions": segments,
    "sparse tensors": sparse,
    "histograms": histograms,
    "embedding bags": bags,
}


def all_cases() -> list[Case]:
    return [case for family in FAMILIES.values() for case in family.cases()]
