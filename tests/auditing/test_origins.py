"""From a line that uses a value to the branch, or the value, that a clock decides."""

import pytest

from reprocuda.auditing.origins import clock_behind, draw_behind

IMPORTS = "import time\nfrom datetime import datetime\n"
# A source; "# USE" marks the line asked about and "# HERE" the answer. Without "# HERE" there is no clock behind it.
SOURCES = {
    "in the line itself": "y = x * time.time()  # USE HERE",
    "a value": "start = time.monotonic()\nscale = 1 + start\ny = x * scale  # USE HERE",
    "a branch": "if time.time_ns() % 2:  # HERE\n    s = 1\nelse:\n    s = 2\ny = x * s  # USE",
    "a branch by a flag": "odd = time.time() % 2\nif odd:  # HERE\n    s = 1\nelse:\n    s = 2\ny = x * s  # USE",
    "a choice": "s = 1 if datetime.now().second % 2 else 2  # HERE\ny = x * s  # USE",
    "a function": "def odd():\n    return time.time() % 2\nif odd():  # HERE\n    s = 1\ny = x * s  # USE",
    "an argument": "def f(x, s):\n    return x * s  # USE\nif time.time() > 3:  # HERE\n    t = 2\nf(x, t)",
    "a keyword": "def f(x, s):\n    return x * s  # USE HERE\nf(x, s=time.perf_counter())",
    "an attribute": "class A:\n    def __init__(self):\n        self.s = time.time()\n"
    "    def f(self, x):\n        return x * self.s  # USE HERE",
    "a group": "for group in opt.param_groups:\n    group['lr'] = time.time()\nopt.step()  # USE HERE",
    "the condition used": "late = time.time() > 5\nwhile late:  # USE HERE\n    y = x",
    "a clock by another name": "from time import perf_counter as now\ny = x * now()  # USE HERE",
    "a clock's alias": "clock = time.monotonic\nstart = clock()\ny = x * start  # USE HERE",
    "a method of that name": "y = x * model.time()  # USE",
    "logging": "start = time.time()\ny = x * 2  # USE\nprint(time.time() - start)",
    "another name": "import random\ns = random.random()\ny = x * s  # USE",
    "no source": "x = (  # USE",
}


# So for draws; "# HERE" marks the draw.
DRAWS = {
    "a shuffled list": "random.shuffle(data)  # HERE\nfor x in data:\n    y = x * w  # USE",
    "a method's": "class A:\n    def f(self):\n        random.shuffle(self.order)  # HERE\n"
    "    def g(self):\n        for x in self.order:\n            y = x * w  # USE",
    "numpy's": "order = np.random.permutation(8)  # HERE\nfor i in order:\n    y = data[i] * w  # USE",
    "a sample": "for x in random.sample(data, 4):  # HERE\n    y = x * w  # USE",
    "a branch": "if random.random() < 0.5:  # USE HERE\n    y = x",
    "a helper": "def pick():\n    return random.choice(data)  # HERE\nx = pick()\ny = x * w  # USE",
    "a generator": "rng = np.random.default_rng()  # HERE\nrng.shuffle(data)\nfor x in data:\n    y = x * w  # USE",
    "another generator's seed": "np.random.seed(0)\nrandom.shuffle(data)  # HERE\nfor x in data:\n    y = x  # USE",
    "seeded": "random.seed(0)\nrandom.shuffle(data)\nfor x in data:\n    y = x * w  # USE",
    "seeded by a helper": "seed_all(0)\nrandom.shuffle(data)\nfor x in data:\n    y = x * w  # USE",
    "a seeded generator": "rng = random.Random(0)\nrng.shuffle(data)\nfor x in data:\n    y = x * w  # USE",
    "of something else": "random.shuffle(names)\nfor x in data:\n    y = x * w  # USE",
    "of torch": "order = torch.randperm(8)\nfor i in order:\n    y = data[i] * w  # USE",
}


def places(text, tmp_path):
    """The file, the line asked about, and the one expected."""
    file = tmp_path / "train.py"
    file.write_text(text)
    lines = text.splitlines()
    (use,) = [number for number, text in enumerate(lines, 1) if "USE" in text]
    return str(file), use, next((number for number, text in enumerate(lines, 1) if "HERE" in text), None)


@pytest.mark.parametrize("name", SOURCES)
def test_the_line_that_a_clock_decides(name, tmp_path):
    file, use, here = places(IMPORTS + SOURCES[name], tmp_path)
    found = clock_behind(file, use)
    assert here == (found and found.decides)


@pytest.mark.parametrize("name", DRAWS)
def test_the_draw_without_a_seed_that_decides(name, tmp_path):
    file, use, here = places(
        "import random, torch\nimport numpy as np\nfrom helpers import seed_all\n" + DRAWS[name], tmp_path
    )
    found = draw_behind(file, use)
    assert here == (found and found.call)
