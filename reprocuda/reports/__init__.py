"""Reports for people: terminal tables, one self-contained HTML page, and the measures of variability they show.

`History` records a run; `divergence.compare` compares two; `html.write` shows what is known on one page.
"""

from .history import History

__all__ = ["History"]
