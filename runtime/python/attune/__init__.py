"""attune: exact attention kernels made to measure, from Python.

    import attune
    out = attune.attention(q, k, v, causal=True)        # torch, cupy, jax, numpy, ... tensors

Kernels come from sets that `attune build` made, or are compiled at their first call and kept. Tensors
on a GPU run on it, on their framework's current stream; tensors in host memory are executed on the
CPU device, which checks a kernel and counts what it moves, and is slow. README.md has the first
steps, help(attune.attention) every option.

The package is ctypes over libattune, which it finds by ATTUNE_LIBRARY_PATH, beside itself, in the
source tree it lies in, or through the loader."""
from ._abi import VERSION as __version__
from ._abi import BlockClass, Level, Status
from ._array import Array
from ._attention import attention, bitmask_classes
from ._context import Context, default_context
from ._library import Error, library

library()  # found, of this version, and laid out as this package believes, or an ImportError now

__all__ = ["Array", "BlockClass", "Context", "Error", "Level", "Status", "attention",
           "bitmask_classes", "default_context"]
