"""Sparse matrices, in every spelling, and their exact products."""

import numpy as np
import torch

from tests import oracle
from tests.operators.adversarial import make
from tests.operators.bits import to_numpy_bits

REDUCTIONS = ("sum", "mean", "amax", "amin")


def random_matrix(kind, dtype, shape, entries, generator):
    """In coordinates, with duplicates, in any order."""
    indices = torch.stack([torch.randint(size, (entries,), generator=generator) for size in shape])
    return torch.sparse_coo_tensor(indices, make(kind, (entries,), dtype, generator), shape, check_invariants=True)


def spellings(matrix):
    """The same matrix as it comes, coalesced, and by rows or columns."""
    once = matrix.coalesce()
    return {"as it comes": matrix, "coalesced": once, "csr": once.to_sparse_csr(), "csc": once.to_sparse_csc()}


def entries_of(matrix):
    once = matrix if matrix.layout == torch.sparse_coo else matrix.to_sparse_coo()
    rows, columns = once._indices()
    return rows.numpy(), columns.numpy(), once._values()


def exact_product(matrix, dense, dtype, mean=False):
    """Its bits, [num_rows, features]."""
    rows, columns, values = entries_of(matrix)
    num_rows, features = matrix.shape[0], dense.shape[1]
    targets = (rows[:, None] * features + np.arange(features)).reshape(-1)
    weights = values.double()[:, None].expand(-1, features).reshape(-1).numpy()
    gathered = to_numpy_bits(dense[torch.from_numpy(columns)]).reshape(-1)
    divisor = np.repeat(np.maximum(np.bincount(rows, minlength=num_rows), 1), features) if mean else None
    want = oracle.exact_segment_sums(gathered, targets, num_rows * features, dtype, weights=weights, divisor=divisor)
    return want.reshape(num_rows, features)
