"""Fingerprints on a GPU: the CPU's digests for every dtype and layout, no waiting, capturable in a graph."""

import numpy as np
import pytest
import torch

from reprocuda import ops
from reprocuda.auditing.fingerprint import Digests, fingerprint
from tests.auditing.reference import DTYPES
from tests.auditing.tensors import LAYOUTS, SHAPES, random_bits
from tests.gpu.synchronisation import no_synchronisation

NOT_ON_DEVICES = (torch.bits8, torch.bits16, torch.uint1, torch.float4_e2m1fn_x2)  # torch copies none of these there


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype not in NOT_ON_DEVICES], ids=str)
def test_the_digest_of_the_cpu(dtype):
    for shape in [*SHAPES, (1_000_003,), (1000, 1003)]:
        x = random_bits(dtype, shape)
        assert fingerprint(x.cuda()) == fingerprint(x), shape


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float32, torch.complex128])
def test_strides_do_not_enter(dtype, layout):
    x = random_bits(dtype, (60, 128))
    assert fingerprint(LAYOUTS[layout](x.cuda())) == fingerprint(LAYOUTS[layout](x))


def test_it_does_not_wait():
    tensors = [torch.randn(n, device="cuda") for n in (1, 10_000, 3_000_000)]
    digests = Digests()
    digests.append(tensors[0])
    with no_synchronisation():
        for x in tensors:
            digests.append(x)
    wanted = [fingerprint(x.cpu()) for x in (tensors[0], *tensors)]
    assert [f"{a:016x}{b:016x}" for a, b in digests.take()] == wanted


def test_it_can_be_captured_in_a_graph():
    x = torch.randn(1_000_000, device="cuda")
    digests = torch.empty(2, 2, dtype=torch.int64, device="cuda")
    ops.fingerprint_(digests, 0, x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ops.fingerprint_(digests, 0, x)
        ops.fingerprint_(digests, 1, x[:100])
    for _ in range(3):
        x.normal_()
        digests.fill_(-1)
        graph.replay()
        got = digests.cpu().numpy().view(np.uint64)
        assert [f"{a:016x}{b:016x}" for a, b in got] == [fingerprint(x.cpu()), fingerprint(x[:100].cpu())]
