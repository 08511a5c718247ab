"""The kernels that take the place of aten's: the arguments of an aten overload in, a compiled operator called.

They run below autograd and autocast, thousands of times a second, so each does one thing: read the switch, call ours
or what was there before. What is out of the ordinary goes to `Slot.failed`. Arguments are spelled out, one function for
each list of them, and those with their default values left out: each that torch has to convert costs a tenth of a
microsecond, and one passed by its name half a microsecond.
"""

from .bags import EMBEDDING_BAG, SPARSE_EMBEDDING
from .duplicates import COALESCE
from .histograms import BINCOUNT, HISTC, HISTOGRAM, HISTOGRAMDD
from .overwrites import INDEX_COPY, PUT, SCATTER
from .reductions import INDEX_REDUCE, SCATTER_REDUCE
from .scans import CUMPROD, CUMSUM, LOGCUMSUMEXP
from .segments import SEGMENT_REDUCE
from .sparse import SPARSE_ADDMM, SPARSE_MM
from .sums import EMBEDDING, INDEX_ADD, INDEX_PUT, SCATTER_ADD

__all__ = [
    "BINCOUNT",
    "COALESCE",
    "CUMPROD",
    "CUMSUM",
    "EMBEDDING",
    "EMBEDDING_BAG",
    "HISTC",
    "HISTOGRAM",
    "HISTOGRAMDD",
    "INDEX_ADD",
    "INDEX_COPY",
    "INDEX_PUT",
    "INDEX_REDUCE",
    "LOGCUMSUMEXP",
    "PUT",
    "SCATTER",
    "SCATTER_ADD",
    "SCATTER_REDUCE",
    "SEGMENT_REDUCE",
    "SPARSE_ADDMM",
    "SPARSE_EMBEDDING",
    "SPARSE_MM",
]
