"""A module of generators and of functions that draw from them, as users keep them apart from their datasets."""

import numpy as np

generator = np.random.default_rng(0)


def draw():
    return generator.random()
