"""What writes through an index, called directly by torch's names and arguments: a module a family."""

from .reductions import index_reduce, index_reduce_, scatter_reduce, scatter_reduce_
from .sums import index_add, index_add_, index_put, index_put_, scatter_add, scatter_add_, segment_sum

__all__ = [
    "index_add",
    "index_add_",
    "index_put",
    "index_put_",
    "index_reduce",
    "index_reduce_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "segment_sum",
]
