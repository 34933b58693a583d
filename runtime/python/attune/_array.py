"""Array: a dense host tensor in plain Python, for the CPU device and for bfloat16, which the buffer
protocol cannot name."""
from __future__ import annotations

import ctypes
import struct
from typing import Any, Iterable, List, Optional, Sequence, Tuple

ITEM_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int32": 4, "uint32": 4, "uint8": 1}
_FORMATS = {"fp32": "f", "fp16": "e", "int32": "i", "uint32": "I", "uint8": "B", "bf16": "H"}
ALIGNMENT = 256  # bytes; what cudaMalloc gives, and a workspace needs


def product(shape: Iterable[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def dense_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """Strides in elements, last dimension fastest."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def to_bf16(value: float) -> int:
    """The bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


def from_bf16(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


class Array:
    """A dense host tensor: Array((1, 128, 4, 64), "fp16"), zeros, or the given values in row-major
    order, nested or flat. dtype: fp32, fp16, bf16, int32, uint32 or uint8. `pointer` is its address,
    a multiple of 256 bytes."""

    def __init__(self, shape: Sequence[int], dtype: str = "fp32", values: Optional[Any] = None):
        if dtype not in ITEM_BYTES:
            raise ValueError("dtype is %r, must be one of %s" % (dtype, ", ".join(ITEM_BYTES)))
        self.shape = tuple(int(extent) for extent in shape)
        self.dtype = dtype
        count = product(self.shape)
        self._memory = bytearray(count * ITEM_BYTES[dtype] + ALIGNMENT)
        self._fixed = ctypes.c_char.from_buffer(self._memory)  # as long as it lives nothing moves
        start = ctypes.addressof(self._fixed)
        self._offset = -start % ALIGNMENT
        self.pointer = start + self._offset
        if values is not None:
            self._fill(list(_flat(values)), count)

    def _fill(self, values: List[float], count: int) -> None:
        if len(values) != count:
            raise ValueError("%d values for shape %s, which has %d" % (len(values), self.shape, count))
        if self.dtype == "bf16":
            values = [to_bf16(value) for value in values]
        struct.pack_into("<%d%s" % (count, _FORMATS[self.dtype]), self._memory, self._offset, *values)

    def flat(self) -> List[Any]:
        """All elements in row-major order, as Python numbers."""
        count = product(self.shape)
        values = list(struct.unpack_from("<%d%s" % (count, _FORMATS[self.dtype]), self._memory,
                                         self._offset))
        return [from_bf16(value) for value in values] if self.dtype == "bf16" else values

    def tolist(self) -> Any:
        """Nested lists, one level a dimension."""
        nested = self.flat()
        for extent in reversed(self.shape[1:]):
            nested = [nested[i:i + extent] for i in range(0, len(nested), extent)] if extent else []
        return nested if self.shape else nested[0]

    def bytes(self) -> memoryview:
        """The elements' memory, writable."""
        count = product(self.shape) * ITEM_BYTES[self.dtype]
        return memoryview(self._memory)[self._offset:self._offset + count]

    def __repr__(self) -> str:
        return "attune.Array(%s, %r)" % (self.shape, self.dtype)


def _flat(values: Any) -> Iterable[float]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value
