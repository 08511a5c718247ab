"""The definition in csrc/numerics/fingerprint.h in Python integers. It shares no code with the library."""

import numpy as np
import torch

MASK = (1 << 64) - 1
MULTIPLIERS = (0x9E3779B97F4A7C15, 0xD1342543DE82EF95)

# torch's ScalarType numbers, which its serialised programs hold fast.
DTYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex32: 8,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.bits8: 21,
    torch.bits16: 22,
    torch.float8_e5m2: 23,
    torch.float8_e4m3fn: 24,
    torch.float8_e5m2fnuz: 25,
    torch.float8_e4m3fnuz: 26,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
    torch.uint1: 30,
    torch.float8_e8m0fnu: 44,
    torch.float4_e2m1fn_x2: 45,
}


def mix64(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


KEYS = [mix64((n + 1) * 0x9E3779B97F4A7C15 & MASK) for n in range(256 + 3 * 64)]


def row_hash(words: list[int], r: int) -> int:
    total = 0
    for i, word in enumerate(words):
        key = KEYS[i + 64 * r]
        low = (word + key) & 0xFFFFFFFF
        high = ((word >> 32) + (key >> 32)) & 0xFFFFFFFF
        total += low * high
    return total & MASK


def header(dtype_number: int, shape: tuple[int, ...]) -> tuple[int, int]:
    lanes = []
    for multiplier in MULTIPLIERS:
        lane = multiplier
        for value in (dtype_number, len(shape), *shape):
            lane = mix64((lane ^ value) + multiplier & MASK)
        lanes.append(lane)
    return lanes[0], lanes[1]


def digest(data: bytes, dtype_number: int, shape: tuple[int, ...]) -> tuple[int, int]:
    """Of the elements' bytes in row-major order."""
    data += bytes(-len(data) % 2048)
    words = np.frombuffer(data, "<u8").tolist()
    result = []
    for lane, multiplier in enumerate(MULTIPLIERS):
        total = 0
        for b in range(len(words) // 256):
            block = words[256 * b : 256 * (b + 1)]
            first, second = (row_hash(block, 2 * lane + k) for k in (0, 1))
            total += mix64(mix64((first + (b + 1) * multiplier) & MASK) + second & MASK)
        result.append(mix64(header(dtype_number, shape)[lane] + total & MASK))
    return result[0], result[1]


def reference(x: torch.Tensor) -> str:
    """Of a contiguous CPU tensor."""
    assert x.is_contiguous() and not x.is_conj() and not x.is_neg()
    storage = x.detach().untyped_storage()
    start = x.storage_offset() * x.element_size()
    data = bytes(storage[start : start + x.numel() * x.element_size()])
    if x.dtype == torch.bool:
        data = bytes(byte != 0 for byte in data)
    return "{:016x}{:016x}".format(*digest(data, DTYPES[x.dtype], tuple(x.shape)))
