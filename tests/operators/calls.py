"""One call an operator that is right for every dtype."""

import torch

INDEX = torch.tensor([0, 1, 0])
SPELLED_OUT = INDEX[:, None].expand(3, 2)
PLACES = torch.arange(6).view(3, 2) // 2


def in_eighths(x):
    """What is rounded otherwise here and there."""
    return x if x.is_complex() else (x * 8).round()


# A call that is right for every dtype: x and src are [3, 2], of 0 and 1.
FORWARD = {
    "index_add": lambda ns, x, src: ns.index_add(x, 0, INDEX, src),
    "scatter_add": lambda ns, x, src: ns.scatter_add(x, 0, SPELLED_OUT, src),
    "index_put": lambda ns, x, src: ns.index_put(x, (INDEX,), src, True),
    "scatter": lambda ns, x, src: ns.scatter(x, 0, SPELLED_OUT, src),
    "index_copy": lambda ns, x, src: ns.index_copy(x, 0, INDEX, src),
    "put": lambda ns, x, src: ns.put(x, PLACES, src),
    "index_fill": lambda ns, x, src: ns.index_fill(x, 0, INDEX, 1),
    "masked_scatter": lambda ns, x, src: ns.masked_scatter(x[0], PLACES == 1, src),
    "scatter_reduce": lambda ns, x, src: ns.scatter_reduce(
        x, 0, SPELLED_OUT, src, "mean" if x.is_complex() else "amax"
    ),
    "index_reduce": lambda ns, x, src: ns.index_reduce(x, 0, INDEX, src, "amax"),
    "bincount": lambda ns, x, src: ns.bincount(x[:, 0], torch.ones(3)),
    "histc": lambda ns, x, src: ns.histc(x, 2),
    "histogram": lambda ns, x, src: ns.histogram(x, 2).hist,
    "histogramdd": lambda ns, x, src: ns.histogramdd(x, 2).hist,
    "embedding_bag": lambda ns, x, src: ns.embedding_bag(PLACES, x, mode="sum"),
    "cumsum": lambda ns, x, src: ns.cumsum(x, 0),
    "cumprod": lambda ns, x, src: ns.cumprod(x, 0),
    "logcumsumexp": lambda ns, x, src: in_eighths(ns.logcumsumexp(x, 0)),
    "segment_reduce": lambda ns, x, src: ns.segment_reduce(src, "sum", lengths=torch.tensor([2, 1])),
    "coalesce": lambda ns, x, src: ns.coalesce(torch.sparse_coo_tensor(INDEX[None], src, (2, 2))).to_dense(),
    "sparse_mm": lambda ns, x, src: ns.sparse_mm(src.T.to_sparse(), x),
    "sparse_addmm": lambda ns, x, src: ns.sparse_addmm(src[:2], src.T.to_sparse(), x),
    "segment_sum": lambda ns, x, src: ns.segment_sum(src, torch.tensor([0, 2, 3])),
}
# What it reads of x; the sum is the gradient.
READ = {
    "take": lambda ns, x: ns.take(x, PLACES),
    "repeat_interleave": lambda ns, x: ns.repeat_interleave(x, torch.tensor([2, 0, 1]), 0),
    "embedding": lambda ns, x: ns.embedding(INDEX, x),
    "index_select": lambda ns, x: ns.index_select(x, 0, INDEX),
    "gather": lambda ns, x: ns.gather(x, 0, SPELLED_OUT),
    "take_along_dim": lambda ns, x: ns.take_along_dim(x, SPELLED_OUT, 0),
    "index": lambda ns, x: ns.index(x, (INDEX,)),
}


def outcome(call, namespace, dtype):
    """The result, or the class of the error."""
    x = torch.tensor([[1, 0], [1, 1], [0, 1]]).to(dtype)
    src = torch.tensor([[1, 0], [0, 1], [1, 1]]).to(dtype)
    if call in READ.values():
        x.requires_grad_(dtype.is_floating_point or dtype.is_complex)
        try:
            read = call(namespace, x)
            return torch.autograd.grad(read, x, torch.ones_like(read))[0]
        except (RuntimeError, NotImplementedError) as error:
            return type(error)
    try:
        return call(namespace, x, src)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return type(error)
