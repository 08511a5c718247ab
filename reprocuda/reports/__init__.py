"""Reports for people: terminal tables, one self-contained HTML page, and the measures of variability they show.

`History` records a run and `divergence` compares two; `variability` compares two states; `Calls` notes what the
replaced operators were called with and `measure` times them; `html.write` shows what is known on one page.
"""

from .costs import Calls, measure
from .divergence import divergence
from .history import History
from .variability import variability

__all__ = ["Calls", "History", "divergence", "measure", "variability"]
