"""Other people's overrides of the same operators, registered below or above ours, in processes of their own."""

import pytest

from tests.processes import run_python

PREAMBLE = """
import torch, warnings
warnings.simplefilter("ignore")
import reprocuda
from torch.library import Library, get_kernel
same, terms = torch.zeros(3, dtype=torch.long), torch.tensor([1e8, 1.0, -1e8])
get = lambda: torch.zeros(1).index_add_(0, same, terms).item()
torchs = get()
def foreign(value):
    library = Library("aten", "IMPL")
    fill = lambda self, dim, index, source, *, alpha=1: self.fill_(value)
    library.impl("index_add_", fill, "CPU", allow_override=True)
    return library
state = lambda: next(o for o in reprocuda.status().operators if o.name == "index_add" and o.device == "cpu").state
"""


def run(code: str) -> str:
    import textwrap

    return run_python(PREAMBLE + textwrap.dedent(code))


def test_an_override_below_ours_is_used_while_we_are_off():
    code = """
        below = foreign(41.0)
        reprocuda.enable(); on = get(); reprocuda.disable()
        print(on, get())
    """
    assert run(code) == "1.0 41.0"


@pytest.mark.parametrize("enabled", [False, True])
def test_an_override_below_ours_may_be_destroyed(enabled):
    """The kernel that we kept is gone; what is below is looked up again, and ours stays."""
    code = f"""
        below = foreign(41.0)
        reprocuda.enable(); reprocuda.disable()
        assert get() == 41.0
        below._destroy()
        if {enabled}:
            reprocuda.enable()
            assert get() == 1.0
            reprocuda.disable()
        assert get() == torchs
        reprocuda.enable()
        print(get(), state())
    """
    assert run(code) == "1.0 ours"


def test_a_lost_kernel_is_found_again_when_torch_decides():
    """An irregular call while enabled needs torch's kernel too."""
    code = """
        below = foreign(41.0)
        reprocuda.enable()
        below._destroy()
        try:
            torch.zeros(3).index_add_(0, same, torch.ones(2))
        except RuntimeError as error:
            print("Number of indices" in str(error), get())
    """
    assert run(code) == "True 1.0"


def test_an_override_above_ours_is_reported():
    code = """
        reprocuda.enable()
        above = foreign(42.0)
        assert get() == 42.0 and state() == "shadowed", state()
        above._destroy()
        print(get(), state())
    """
    assert run(code) == "1.0 ours"


def test_an_override_above_ours_may_call_it():
    code = """
        reprocuda.enable()
        kept = get_kernel("aten::index_add_", "CPU")
        library = Library("aten", "IMPL")
        def doubled(keyset, self, dim, index, source, *, alpha=1):
            return kept.call_boxed(keyset, self, dim, index, source, alpha=alpha).mul_(2)
        library.impl("index_add_", doubled, "CPU", with_keyset=True, allow_override=True)
        on = get()
        reprocuda.disable()
        print(on, get() == 2 * torchs)
    """
    assert run(code) == "2.0 True"


def test_two_foreign_overrides_destroyed_in_any_order():
    code = """
        first = foreign(41.0)
        second = foreign(42.0)
        reprocuda.enable(); reprocuda.disable()
        seen = [get()]
        first._destroy(); seen.append(get())
        second._destroy(); seen.append(get() == torchs)
        print(seen)
    """
    assert run(code) == "[42.0, 42.0, True]"
