"""Tensors of any bits, in any layout."""

import numpy as np
import torch

SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (2, 3), (255,), (256,), (257,), (1, 1, 5), (33, 65), (4, 5, 6, 7)]


def random_bits(dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """A tensor of any bits: NaNs with payloads, subnormals, bools beyond 1."""
    item = torch.empty(0, dtype=dtype).element_size()
    count = int(np.prod(shape, dtype=np.int64))
    data = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, count * item, np.uint8))
    # set_ takes the bytes for any dtype; view(dtype) refuses some.
    return torch.empty(0, dtype=dtype).set_(data.untyped_storage(), 0, shape)


LAYOUTS = {
    "transposed": lambda x: x.t(),
    "permuted": lambda x: x.reshape(6, 5, 4, -1).permute(3, 1, 0, 2),
    "stepped": lambda x: x[1::3, ::2],
    "offset": lambda x: x[3:],
    "a column": lambda x: x[:, 4],
    "expanded": lambda x: x[:2, None].expand(2, 9, *x.shape[1:]),
    "overlapping": lambda x: x.as_strided((40, 300), (2, 1)),
    "channels last": lambda x: x.reshape(6, 4, 5, -1).contiguous(memory_format=torch.channels_last),
    "ones between": lambda x: x.t()[:, None, ::2, None],
    "nothing": lambda x: x[5:5].t(),
    "a scalar": lambda x: x[7, 9],
    # Ten dimensions of which no two merge.
    "many dimensions": lambda x: x.as_strided((2,) * 10, (*(3**d for d in range(7)), 5, 7, 11)),
}
