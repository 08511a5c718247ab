"""From a line that uses a value to the branch, or the value, that a clock decides."""

import pytest

from reprocuda.auditing.origins import clock_behind

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


@pytest.mark.parametrize("name", SOURCES)
def test_the_line_that_a_clock_decides(name, tmp_path):
    file = tmp_path / "train.py"
    text = IMPORTS + SOURCES[name]
    file.write_text(text)
    lines = text.splitlines()
    (use,) = [number for number, text in enumerate(lines, 1) if "USE" in text]
    here = next((number for number, text in enumerate(lines, 1) if "HERE" in text), None)
    assert clock_behind(str(file), use) == here
