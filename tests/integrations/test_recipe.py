"""The usual recipe, unchanged, under reprocuda.enable(): no operator of ours raises, and the bits repeat."""


def test_the_bits_repeat(start):
    first, second = start("recipe_run.py").results()
    assert first == second and len(first["sha"]) == 64
