"""torch_scatter's functions, by its names and arguments, with exact sums and defined ties.

`reprocuda.scatter` has two meanings. Called, as reprocuda.scatter(input, dim, index, src), it is torch.scatter; its
attributes are the functions of this package, as reprocuda.scatter.scatter_max. `from reprocuda.scatter import ...` and
`import reprocuda.scatter` work as for any package.
"""

from .composites import scatter_log_softmax, scatter_logsumexp, scatter_softmax, scatter_std
from .coo import (
    gather_coo,
    segment_add_coo,
    segment_coo,
    segment_max_coo,
    segment_mean_coo,
    segment_min_coo,
    segment_sum_coo,
)
from .csr import (
    gather_csr,
    segment_add_csr,
    segment_csr,
    segment_max_csr,
    segment_mean_csr,
    segment_min_csr,
    segment_sum_csr,
)
from .reductions import scatter, scatter_add, scatter_max, scatter_mean, scatter_min, scatter_mul, scatter_sum
from .shim import install_shim

FUNCTIONS = (
    scatter_sum,
    scatter_add,
    scatter_mul,
    scatter_mean,
    scatter_min,
    scatter_max,
    scatter,
    segment_sum_csr,
    segment_add_csr,
    segment_mean_csr,
    segment_min_csr,
    segment_max_csr,
    segment_csr,
    gather_csr,
    segment_sum_coo,
    segment_add_coo,
    segment_mean_coo,
    segment_min_coo,
    segment_max_coo,
    segment_coo,
    gather_coo,
    scatter_std,
    scatter_logsumexp,
    scatter_softmax,
    scatter_log_softmax,
)

__all__ = [
    "gather_coo",
    "gather_csr",
    "install_shim",
    "scatter",
    "scatter_add",
    "scatter_log_softmax",
    "scatter_logsumexp",
    "scatter_max",
    "scatter_mean",
    "scatter_min",
    "scatter_mul",
    "scatter_softmax",
    "scatter_std",
    "scatter_sum",
    "segment_add_coo",
    "segment_add_csr",
    "segment_coo",
    "segment_csr",
    "segment_max_coo",
    "segment_max_csr",
    "segment_mean_coo",
    "segment_mean_csr",
    "segment_min_coo",
    "segment_min_csr",
    "segment_sum_coo",
    "segment_sum_csr",
]
