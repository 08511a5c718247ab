"""What is measured: a module a family of operators, each with its baselines beside it, and the goals on the CPU."""

from benchmarks.cases import bags, histograms, overwrites, reductions, running, scans, segments, sparse, sums
from benchmarks.cases.base import Case

FAMILIES = (sums, reductions, overwrites, scans, running, segments, sparse, histograms, bags)


def all_cases() -> list[Case]:
    return [case for family in FAMILIES for case in family.cases()]
