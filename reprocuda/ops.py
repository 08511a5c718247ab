"""The operators registered with torch: the compiled sums, and the readers whose gradients they are.

Readers are torch's own in all but their derivative (tracing/). Each operator is named here as the one overload it
has: a packet of torch.ops would choose it anew at every call.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import Library

from . import _library  # noqa: F401 - registers the operators


def by_dim(indices: list[Tensor], dims: list[int]) -> list[Tensor | None]:
    """Index tensors as torch takes them: one entry a dimension (a mask: all of its dimensions), None where there is
    none.
    """
    placed: list[Tensor | None] = [None] * (max(dims) + 1)
    for dim, index in zip(dims, indices, strict=True):
        placed[dim] = index
    return placed


_READERS = {
    "index_select(Tensor self, int dim, Tensor index) -> Tensor": torch.Tensor.index_select,
    "gather(Tensor self, int dim, Tensor index) -> Tensor": lambda self, dim, index: torch.gather(
        self, dim, index.long()
    ),
    "index(Tensor self, Tensor[] indices, int[] dims) -> Tensor": lambda self, indices, dims: torch.ops.aten.index(
        self, by_dim(indices, dims)
    ),
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False) -> Tensor": (
        lambda weight, indices, padding_idx=-1, scale_grad_by_freq=False: torch.embedding(weight, indices)
    ),
}


fragment = Library("reprocuda", "FRAGMENT")
for _schema, _reader in _READERS.items():
    _name = fragment.define(_schema)
    fragment.impl(_name, _reader, "CompositeExplicitAutograd")

# index_put with masks left as they are, for code whose shapes must not depend on data, and the gradient of its values.
# `places` are the positions of `indices` in torch's list. families/points.py has the kernels.
fragment.define("index_put_masked(Tensor self, Tensor[] indices, int[] places, Tensor values) -> Tensor")
fragment.define("index_put_masked_backward(Tensor grad, Tensor[] indices, int[] places, SymInt[] shape) -> Tensor")
# Embedding bags in compiled code, whose derivative is one operator. tracing/bags.py has the kernels.
fragment.define(
    "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, "
    "Tensor? per_sample_weights, bool include_last_offset, SymInt padding_idx) -> (Tensor, Tensor)"
)
fragment.define(
    "embedding_bag_backward(Tensor grad, Tensor argmax, Tensor weight, Tensor indices, Tensor offsets, "
    "bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, bool include_last_offset, SymInt padding_idx) -> "
    "(Tensor, Tensor)"
)
# A mean with an initial value. families/mean_with_initial.py has the kernel.
fragment.define("mean_with_initial(Tensor self, Tensor? permutation, Tensor offsets, Tensor source) -> Tensor")
# The derivative of log-sum-exps in compiled code, with derivatives of its own. families/scans.py has the kernel.
fragment.define(
    "logcumsumexp_jacobian(Tensor weights, Tensor input, Tensor output, int dim, bool transposed) -> Tensor"
)
# Counting by value in compiled code. families/histograms.py has the kernels.
fragment.define("bincount(Tensor input, Tensor weights, SymInt minlength) -> Tensor")
fragment.define("histc(Tensor input, int bins, float min, float max) -> Tensor")
fragment.define(
    "histogramdd_by_counts(Tensor input, int[] bins, float[]? bounds, Tensor? weight, bool density, "
    "str op) -> (Tensor, Tensor[])"
)
fragment.define("histogramdd_by_edges(Tensor input, Tensor[] edges, Tensor? weight, bool density) -> Tensor")

index_add = torch.ops.reprocuda.index_add.default
index_add_ = torch.ops.reprocuda.index_add_.default
index_add_out = torch.ops.reprocuda.index_add_out.default
index_add_planned = torch.ops.reprocuda.index_add_planned.default
index_add_planned_ = torch.ops.reprocuda.index_add_planned_.default
scatter = torch.ops.reprocuda.scatter.default
scatter_ = torch.ops.reprocuda.scatter_.default
scatter_out = torch.ops.reprocuda.scatter_out.default
scatter_add = torch.ops.reprocuda.scatter_add.default
scatter_add_ = torch.ops.reprocuda.scatter_add_.default
scatter_add_out = torch.ops.reprocuda.scatter_add_out.default
scatter_reduce = torch.ops.reprocuda.scatter_reduce.default
scatter_reduce_ = torch.ops.reprocuda.scatter_reduce_.default
scatter_extremum = torch.ops.reprocuda.scatter_extremum.default
scatter_reduce_out = torch.ops.reprocuda.scatter_reduce_out.default
index_reduce = torch.ops.reprocuda.index_reduce.default
index_reduce_ = torch.ops.reprocuda.index_reduce_.default
index_reduce_out = torch.ops.reprocuda.index_reduce_out.default
index_reduce_planned = torch.ops.reprocuda.index_reduce_planned.default
mean_with_initial = torch.ops.reprocuda.mean_with_initial.default
index_put = torch.ops.reprocuda.index_put.default
index_put_ = torch.ops.reprocuda.index_put_.default
index_copy = torch.ops.reprocuda.index_copy.default
index_copy_ = torch.ops.reprocuda.index_copy_.default
index_copy_out = torch.ops.reprocuda.index_copy_out.default
index_put_overwrite = torch.ops.reprocuda.index_put_overwrite.default
index_put_overwrite_ = torch.ops.reprocuda.index_put_overwrite_.default
index_put_masked = torch.ops.reprocuda.index_put_masked.default
index_put_masked_backward = torch.ops.reprocuda.index_put_masked_backward.default
index_put_rows_ = torch.ops.reprocuda.index_put_rows_.default
embedding_dense_backward = torch.ops.reprocuda.embedding_dense_backward.default
embedding_bag = torch.ops.reprocuda.embedding_bag.default
embedding_bag_backward = torch.ops.reprocuda.embedding_bag_backward.default
bincount = torch.ops.reprocuda.bincount.default
histc = torch.ops.reprocuda.histc.default
histogramdd_by_counts = torch.ops.reprocuda.histogramdd_by_counts.default
histogramdd_by_edges = torch.ops.reprocuda.histogramdd_by_edges.default
histogram_keys = torch.ops.reprocuda.histogram_keys.default
histogram_counts = torch.ops.reprocuda.histogram_counts.default
segment_plan = torch.ops.reprocuda.segment_plan.default
segment_sum = torch.ops.reprocuda.segment_sum.default
gather_segment_sum = torch.ops.reprocuda.gather_segment_sum.default
gather_segment_max = torch.ops.reprocuda.gather_segment_max.default
gather_segment_max_backward = torch.ops.reprocuda.gather_segment_max_backward.default
gather_row_products = torch.ops.reprocuda.gather_row_products.default
cumsum = torch.ops.reprocuda.cumsum.default
cumsum_ = torch.ops.reprocuda.cumsum_.default
cumsum_out = torch.ops.reprocuda.cumsum_out.default
cumprod = torch.ops.reprocuda.cumprod.default
cumprod_ = torch.ops.reprocuda.cumprod_.default
cumprod_out = torch.ops.reprocuda.cumprod_out.default
logcumsumexp = torch.ops.reprocuda.logcumsumexp.default
logcumsumexp_jacobian = torch.ops.reprocuda.logcumsumexp_jacobian.default
logcumsumexp_out = torch.ops.reprocuda.logcumsumexp_out.default
exp = torch.ops.reprocuda.exp.default
sqrt = torch.ops.reprocuda.sqrt.default
log = torch.ops.reprocuda.log.default
fingerprint_ = torch.ops.reprocuda.fingerprint_.default
index_select = torch.ops.reprocuda.index_select.default
gather = torch.ops.reprocuda.gather.default
index = torch.ops.reprocuda.index.default
embedding = torch.ops.reprocuda.embedding.default
