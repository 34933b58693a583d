"""View: what attune needs to know of anybody's tensor (address, dtype, shape, strides, device), read
through DLPack or the buffer protocol; and what only its framework can do: name the current stream, make
an output.

Nothing is copied and nothing is owned: a View keeps the exporting object alive, no more.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from ._array import ITEM_BYTES, Array, dense_strides
from ._library import invalid

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
_DTYPES = {  # (DLDataTypeCode, bits)
    (0, 32): "int32", (1, 32): "uint32", (1, 8): "uint8",
    (2, 32): "fp32", (2, 16): "fp16", (4, 16): "bf16",
}
_BUFFER_DTYPES = {"f": "fp32", "e": "fp16", "i": "int32", "I": "uint32", "B": "uint8"}
_LEGACY_STREAM = 1  # how DLPack's __dlpack__ calls the legacy default stream, CUDA's 0


class View(NamedTuple):
    pointer: int
    dtype: str  # a key of ITEM_BYTES
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]  # in elements
    device: Tuple[int, int]  # DLDeviceType, ordinal
    keep: Any  # what must live as long as the view


# ---- DLPack ------------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):  # DLManagedTensorVersioned, since DLPack 1.0
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    ]


_READ_ONLY = 1  # in _Versioned.flags

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object,
                                                                      ctypes.c_char_p]
_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.restype, _capsule_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _tensor_of(name: str, capsule: Any, writes: bool) -> _DLTensor:
    if _capsule_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise invalid("%s comes as DLPack %d.%d, known is 1", name, managed.major, managed.minor)
        if writes and managed.flags & _READ_ONLY:
            raise invalid("%s is read-only: it is written to", name)
        return managed.tensor
    if _capsule_valid(capsule, b"dltensor"):
        return _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    raise invalid("%s.__dlpack__() gave no dltensor capsule", name)


def _capsule(name: str, tensor: Any, stream: Optional[int]) -> Any:
    """The versioned capsule where the exporter knows it: only that one may be of a read-only array."""
    options = {} if stream is None else {"stream": stream}
    try:
        try:
            return tensor.__dlpack__(max_version=(1, 0), **options)
        except TypeError:
            return tensor.__dlpack__(**options)
    except (BufferError, RuntimeError) as refused:
        raise invalid("%s is not exported by its framework: %s", name, refused) from None


def _from_dlpack(name: str, tensor: Any, stream: Optional[int], writes: bool) -> View:
    kind, ordinal = tensor.__dlpack_device__()
    device = (int(kind), int(ordinal))
    if device[0] == CPU and hasattr(tensor, "block_until_ready"):
        tensor.block_until_ready()  # jax computes later, and host memory has no streams to order
    capsule = _capsule(name, tensor, stream if device[0] != CPU else None)
    t = _tensor_of(name, capsule, writes)
    dtype = _DTYPES.get((t.code, t.bits)) if t.lanes == 1 else None
    if dtype is None:
        raise invalid("%s has DLPack type code %d, %d bits, %d lanes; known are %s of one lane", name,
                      t.code, t.bits, t.lanes, ", ".join(ITEM_BYTES))
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else dense_strides(shape)
    # The capsule was not consumed: it frees what the exporter made for it when it goes.
    return View((t.data or 0) + t.byte_offset, dtype, shape, strides, device, (tensor, capsule))


# ---- the buffer protocol -----------------------------------------------------------------------------


class _Buffer(ctypes.Structure):  # Py_buffer of CPython's stable ABI
    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_RECORDS_READ_ONLY = 0x18 | 0x4  # PyBUF_STRIDES | PyBUF_FORMAT: readable, any strides


def _address(buffer: memoryview) -> int:
    """Where the buffer begins. It may be released again at once: the memoryview holds the memory."""
    raw = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(raw),
                                        _RECORDS_READ_ONLY)
    address = raw.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))
    return address


def _from_buffer(name: str, tensor: Any, writes: bool) -> View:
    buffer = memoryview(tensor)
    dtype = _BUFFER_DTYPES.get(buffer.format.lstrip("@=<"))
    if dtype is None or buffer.itemsize != ITEM_BYTES[dtype]:
        raise invalid("%s is a buffer of format %r; known are %s: attune.Array has the other types",
                      name, buffer.format, ", ".join(_BUFFER_DTYPES))
    if writes and buffer.readonly:
        raise invalid("%s is read-only: it is written to", name)
    shape, steps = tuple(buffer.shape or ()), tuple(buffer.strides or ())
    if any(step % buffer.itemsize for step in steps):
        raise invalid("%s has strides of %s bytes, not multiples of its %d-byte elements", name, steps,
                      buffer.itemsize)
    strides = tuple(step // buffer.itemsize for step in steps)
    return View(_address(buffer), dtype, shape, strides, (CPU, 0), (tensor, buffer))


# ---- any tensor --------------------------------------------------------------------------------------


def framework_of(tensor: Any) -> str:
    """'torch', 'cupy', 'jax', 'numpy', 'attune', 'buffer', or 'dlpack' for what is none of these."""
    if isinstance(tensor, Array):
        return "attune"
    root = type(tensor).__module__.split(".")[0]
    if root in ("jaxlib", "jax"):
        return "jax"
    if root in ("torch", "cupy", "numpy"):
        return root
    if hasattr(tensor, "__dlpack__"):
        return "dlpack"
    try:
        memoryview(tensor)
    except TypeError:
        return root if "torch" in sys.modules and _is_torch(tensor) else ""
    return "buffer"


def _is_torch(tensor: Any) -> bool:
    return isinstance(tensor, sys.modules["torch"].Tensor)


def view(name: str, tensor: Any, stream: Optional[int] = None, writes: bool = False) -> View:
    """stream: what __dlpack__ is told for a GPU tensor; None: nothing."""
    if isinstance(tensor, Array):
        return View(tensor.pointer, tensor.dtype, tensor.shape, dense_strides(tensor.shape), (CPU, 0),
                    tensor)
    if hasattr(tensor, "__dlpack__"):
        return _from_dlpack(name, tensor, stream, writes)
    try:
        return _from_buffer(name, tensor, writes)
    except TypeError:
        raise invalid("%s is a %s, must have __dlpack__, be a buffer or an attune.Array", name,
                      type(tensor).__name__) from None


# ---- what only the framework can do ------------------------------------------------------------------


def current_stream(framework: str, tensor: Any) -> Tuple[int, Optional[int]]:
    """The stream to launch on, and what __dlpack__ is to be told of it. -1 there means "no wait": the
    tensors of the framework are in order on its own current stream."""
    if framework == "torch":
        if not tensor.is_cuda:
            return 0, None
        return sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream, -1
    if framework == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr, -1
    return 0, _LEGACY_STREAM


def orders_by_itself(framework: str) -> bool:
    """Whether later work of the framework waits for the stream that current_stream() named. jax and
    unknown exporters compute on streams of their own: a launch is waited for."""
    return framework in ("torch", "cupy")


def _numpy_dtype(name: str, like: Any) -> Any:
    names = {"fp32": "float32", "fp16": "float16", "uint8": "uint8"}
    return names.get(name, like.dtype)


def empty(framework: str, like: Any, shape: Sequence[int], dtype: str) -> Any:
    """An uninitialised tensor of the framework on the device of `like`; a bf16 one only beside another."""
    if framework == "torch":
        torch = sys.modules["torch"]
        kinds = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
                 "uint8": torch.uint8}
        return torch.empty(tuple(shape), dtype=kinds[dtype], device=like.device)
    if framework in ("cupy", "numpy"):
        return sys.modules[framework].empty(tuple(shape), dtype=_numpy_dtype(dtype, like))
    if framework == "jax":
        jax = sys.modules["jax"]
        made = jax.numpy.empty(tuple(shape), dtype=_numpy_dtype(dtype, like))
        return jax.device_put(made, next(iter(like.devices()))).block_until_ready()
    if framework == "attune":
        return Array(shape, dtype)
    if framework == "buffer" and dtype == "fp32" and 0 not in shape:
        return Array(shape, dtype).bytes().cast("f", shape=list(shape))
    raise invalid("out is not given, and tensors of this kind (%s) cannot be made here: pass out, and "
                  "lse if it is wanted", framework)
