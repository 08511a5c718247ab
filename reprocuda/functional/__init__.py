"""What a user calls, by torch's names and arguments: a module a family."""

from .bags import embedding_bag
from .histograms import bincount, histc, histogram, histogramdd
from .masks import masked_scatter, masked_scatter_
from .overwrites import index_copy, index_copy_, index_fill, index_fill_, put, put_, scatter, scatter_
from .reading import embedding, gather, index, index_select, repeat_interleave, take, take_along_dim
from .reductions import index_reduce, index_reduce_, scatter_reduce, scatter_reduce_
from .scans import cumprod, cumprod_, cumsum, cumsum_, logcumsumexp
from .segments import segment_reduce
from .sparse import coalesce, sparse_addmm, sparse_mm
from .sums import index_add, index_add_, index_put, index_put_, scatter_add, scatter_add_, segment_sum

__all__ = [
    "bincount",
    "coalesce",
    "cumprod",
    "cumprod_",
    "cumsum",
    "cumsum_",
    "embedding",
    "embedding_bag",
    "gather",
    "histc",
    "histogram",
    "histogramdd",
    "index",
    "index_add",
    "index_add_",
    "index_copy",
    "index_copy_",
    "index_fill",
    "index_fill_",
    "index_put",
    "index_put_",
    "index_reduce",
    "index_reduce_",
    "index_select",
    "logcumsumexp",
    "masked_scatter",
    "masked_scatter_",
    "put",
    "put_",
    "repeat_interleave",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "segment_reduce",
    "segment_sum",
    "sparse_addmm",
    "sparse_mm",
    "take",
    "take_along_dim",
]
