"""Calls that torch refuses, by the shape or dtype of an argument or by an index."""

import torch

from tests.operators.table import TORCH

INDEX = torch.tensor([0, 2])


def x(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


WRONG = {
    "source of another shape": lambda ns: ns.index_add(x(5, 4), 0, INDEX, ones(2, 3)),
    "more indices than rows": lambda ns: ns.index_add(x(5), 0, INDEX, ones(3)),
    "source of another dtype": lambda ns: ns.index_add(x(3), 0, INDEX, ones(2, dtype=torch.float64)),
    "index_add float index": lambda ns: ns.index_add(x(3), 0, ones(2), ones(2)),
    "index_add short index": lambda ns: ns.index_add(x(3), 0, INDEX.short(), ones(2)),
    "index_add matrix index": lambda ns: ns.index_add(x(3), 0, INDEX[None], ones(2)),
    "index_add dim": lambda ns: ns.index_add(x(3), 1, INDEX, ones(2)),
    "index_add negative dim": lambda ns: ns.index_add(x(3), -2, INDEX, ones(2)),
    "scalar with a cube": lambda ns: ns.index_add(x(), 0, torch.tensor([0]), ones(1, 1, 1)),
    "complex alpha": lambda ns: ns.index_add(x(3), 0, INDEX, ones(2), alpha=1j),
    "alpha that overflows": lambda ns: ns.index_add(x(3), 0, INDEX, ones(2), alpha=1e300),
    "alpha that is text": lambda ns: ns.index_add(x(3), 0, INDEX, ones(2), alpha="1"),
    "out of another dtype": lambda ns: ns.index_add(x(3), 0, INDEX, ones(2), out=x(3, dtype=torch.float64)),
    "out that overlaps itself": lambda ns: ns.index_add(x(3), 0, INDEX, ones(2), out=x(1).expand(3)),
    "index_add_ on an expanded tensor": lambda ns: ns.index_add_(x(1).expand(3), 0, INDEX, ones(2)),
    "scatter_add dims": lambda ns: ns.scatter_add(x(3, 3), 0, INDEX, ones(2)),
    "scatter_add index larger than src": lambda ns: ns.scatter_add(x(3), 0, torch.zeros(4).long(), ones(2)),
    "scatter_add index wider than self": lambda ns: ns.scatter_add(x(3, 1), 0, torch.zeros(2, 2).long(), ones(2, 2)),
    "scatter_add dtype": lambda ns: ns.scatter_add(x(3), 0, INDEX, ones(2, dtype=torch.float16)),
    "scatter_add index dtype": lambda ns: ns.scatter_add(x(3), 0, INDEX.float(), ones(2)),
    "scatter_add_ on an expanded tensor": lambda ns: ns.scatter_add_(x(1).expand(3), 0, INDEX, ones(2)),
    "index_put dtype": lambda ns: ns.index_put(x(3), (INDEX,), ones(2, dtype=torch.float64), True),
    "index_put shape": lambda ns: ns.index_put(x(3), (INDEX,), ones(3), True),
    "index_put float index": lambda ns: ns.index_put(x(3), (ones(2),), ones(2), True),
    "index_put indices that do not broadcast": lambda ns: ns.index_put(
        x(3, 3), (INDEX, torch.zeros(3).long()), ones(2), True
    ),
    "index_put too many indices": lambda ns: ns.index_put(x(3), (INDEX, INDEX), ones(2), True),
    "index_put mask": lambda ns: ns.index_put(x(3), (torch.tensor([True, False]),), ones(2), True),
    "gather dims": lambda ns: ns.gather(x(3, 3), 0, INDEX),
    "index_select matrix": lambda ns: ns.index_select(x(3), 0, INDEX[None]),
    "index_select dim": lambda ns: ns.index_select(x(3), 4, INDEX),
    "index mask": lambda ns: ns.index(x(3), (torch.tensor([True, False]),)),
    "take_along_dim dims": lambda ns: ns.take_along_dim(x(3, 3), INDEX, 0),
    "take_along_dim dim": lambda ns: ns.take_along_dim(x(3), INDEX, 3),
    "embedding float": lambda ns: ns.embedding(ones(2), x(3, 2)),
    "embedding padding": lambda ns: (
        torch.nn.functional.embedding(INDEX, x(3, 2), padding_idx=7)
        if ns is TORCH
        else ns.embedding(INDEX, x(3, 2), padding_idx=7)
    ),
}
OUT_OF_RANGE = {
    "index_add": (IndexError, lambda ns, i: ns.index_add(x(3), 0, i, ones(1))),
    "index_add rows": (RuntimeError, lambda ns, i: ns.index_add(x(3, 2), 0, i, ones(1, 2))),
    "index_add_": (IndexError, lambda ns, i: ns.index_add_(x(3), 0, i, ones(1))),
    "index_add rows times alpha": (IndexError, lambda ns, i: ns.index_add(x(3, 2), 0, i, ones(1, 2), alpha=0.5)),
    "index_add_ rows times alpha": (IndexError, lambda ns, i: ns.index_add_(x(3, 2), 0, i, ones(1, 2), alpha=2)),
    "index_add last dim": (RuntimeError, lambda ns, i: ns.index_add(x(2, 3), 1, i, ones(2, 1))),
    "scatter_add": (RuntimeError, lambda ns, i: ns.scatter_add(x(3), 0, i, ones(1))),
    "scatter_add_": (RuntimeError, lambda ns, i: ns.scatter_add_(x(3), 0, i, ones(1))),
    "scatter_add rows": (RuntimeError, lambda ns, i: ns.scatter_add(x(3, 2), 0, i[:, None].expand(1, 2), ones(1, 2))),
    "index_put": (IndexError, lambda ns, i: ns.index_put(x(3), (i,), ones(1), True)),
    "index_put_": (IndexError, lambda ns, i: ns.index_put_(x(3), (i,), ones(1), True)),
    "gather": (RuntimeError, lambda ns, i: ns.gather(x(3), 0, i)),
    "index_select": (IndexError, lambda ns, i: ns.index_select(x(3), 0, i)),
    "index": (IndexError, lambda ns, i: ns.index(x(3), (i,))),
    "embedding": (IndexError, lambda ns, i: ns.embedding(i, x(3, 2))),
}
