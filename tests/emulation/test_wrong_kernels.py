"""Kernels that are wrong on purpose are found out; their repaired twins pass the same tests."""

import re

import numpy as np
import pytest
import reprocuda_emulation as emulation

SEEDS = range(64)
X = np.random.default_rng(1).standard_normal(512).astype(np.float32)


def patterns(name: str, num_outputs: int, **options) -> set[bytes]:
    """The bit patterns that a kernel gives over the schedules."""
    found = set()
    for seed in SEEDS:
        emulation.set_options(seed=seed, detect_races=False)
        found.add(emulation.run_kernel(name, X, num_outputs, **options).tobytes())
    emulation.set_options()
    return found


def failures(name: str, num_outputs: int, **options) -> list[str]:
    found = []
    for seed in SEEDS:
        emulation.set_options(seed=seed, max_steps=100_000)
        try:
            emulation.run_kernel(name, X, num_outputs, **options)
        except emulation.KernelError as error:
            found.append(str(error))
    emulation.set_options()
    return found


def test_float_atomics_give_many_bit_patterns():
    assert len(patterns("scatter_by_float_atomics", 1)) > 10
    assert failures("scatter_by_float_atomics", 1) == []  # not a race, only an order


@pytest.mark.parametrize("name, outputs", [("block_sums", 4), ("rotate_in_warp", 512)])
def test_a_missing_barrier_shows_in_the_bits(name, outputs):
    assert len(patterns(name, outputs)) == 1
    assert len(patterns(f"{name}_without_barrier", outputs)) > 5


@pytest.mark.parametrize("name, outputs", [("block_sums", 4), ("rotate_in_warp", 512)])
def test_a_missing_barrier_is_a_race_under_every_schedule(name, outputs):
    assert failures(name, outputs) == []
    found = failures(f"{name}_without_barrier", outputs)
    assert len(found) == len(SEEDS)
    assert all("a race on shared memory" in message for message in found)


@pytest.mark.parametrize("what", ["fence_before", "fence_after", "barrier"])
def test_a_missing_fence_or_barrier_is_a_race_on_global_memory(what):
    assert failures("last_block_sums", 6) == []
    found = failures(f"last_block_sums_without_{what}", 6)
    assert len(found) == len(SEEDS)
    assert all("a race on global memory" in message for message in found)


def test_unwritten_shared_memory_shows_in_the_bits():
    assert len(patterns("unwritten_shared_memory", 2, blocks=1, dynamic_bytes=64)) > 4


@pytest.mark.parametrize(
    "name, message",
    [
        ("barrier_in_a_branch", r"deadlock.*\n.*waits at a barrier"),
        ("two_barriers_in_two_branches", "different barriers"),
        ("shuffle_after_return", r"deadlock.*\n.*waits at a warp collective"),
        ("mask_without_oneself", "a mask that does not name it"),
        ("shuffle_from_outside_the_mask", "which takes no part"),
        ("past_dynamic_shared_memory", "past the dynamic shared memory"),
        ("waits_for_ever", "no progress"),
        ("reads_nowhere", "invalid access to memory at 0x200"),
        ("loads_a_misaligned_vector", "a misaligned access at .*emulation_checks.cpp"),
        ("leaves_an_array", "an index outside an array"),
        ("shifts_too_far", "a shift by too many bits"),
        ("converts_out_of_range", "a conversion out of range"),
        ("traps", r"trapped(.|\n)*index 42 is out of range"),
        ("asserts", "assertion failed: n < 0"),
    ],
)
def test_misuse_is_an_error_under_every_schedule(name, message):
    found = failures(name, 1, dynamic_bytes=64, blocks=1)
    assert len(found) == len(SEEDS)
    assert [text for text in found if not re.search(message, text)] == []


@pytest.mark.parametrize("detect_races", [False, True])
def test_a_loop_without_end_is_an_error(detect_races):
    emulation.set_options(detect_races=detect_races)
    with pytest.raises(emulation.KernelError, match="a loop without end"):
        emulation.run_kernel("loops_for_ever", X, 1)
    emulation.set_options()


def test_division_by_zero_is_an_error():
    with pytest.raises(emulation.KernelError, match="division by zero"):
        emulation.run_kernel("divides_by_zero", np.zeros(0, np.float32), 1)


def test_a_failed_launch_leaves_a_working_device():
    with pytest.raises(emulation.KernelError):
        emulation.run_kernel("barrier_in_a_branch", X, 1)
    assert emulation.run_kernel("block_sums", X, 4).shape == (4,)
