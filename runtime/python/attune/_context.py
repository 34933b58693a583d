"""Context: one device, its kernel sets, its JIT."""
from __future__ import annotations

import ctypes
import logging
import threading
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

from . import _abi
from ._library import check, invalid, library, zeroed
from ._tensor import CPU, CUDA, CUDA_HOST, CUDA_MANAGED

DEFAULT_CPU_ARCH = "sm_80"
_log = logging.getLogger("attune")


def _log_message(level: int, text: str) -> None:
    _log.log(logging.WARNING if level == _abi.Level.WARN else logging.INFO, "%s", text)


def _close(lib: ctypes.CDLL, context: int, jit: Optional[int], keep: Any) -> None:
    lib.attune_close(context)
    if jit:
        library("attune_gen").attune_jit_close(jit)


class Context:
    """Kernels for one device.

        Context()                          the first CUDA device
        Context(1)                         the second
        Context("cpu", arch="sm_80")       the CPU device, which executes and checks what would run on
                                           an sm_80 GPU; arch is sm_80 unless given
        Context(arch="sm_90a")             looks up and compiles for that arch, launches nothing

    sets: folders or packs that `attune build` or `attune pack` made; later ones win.
    jit: compile what no set has, at its first call (needs NVRTC); the results stay in `store`, a
        folder (None: ATTUNE_CACHE_DIR or ~/.cache; "": in memory only). False: such a call is an
        Error that says which spec lines to add.
    message: message(level, text) is told of compiles and of kernels that serve a call less well than
        they could; by default the logger "attune" is. level is an attune.Level.
    checks: on the CPU device, whether races, bounds and missing barriers are looked for.

    Any thread may use a context; close() it, or leave its `with` block, when none does."""

    def __init__(self, device: Union[int, str, None] = None, *, arch: Optional[str] = None,
                 jit: bool = True, sets: Iterable[str] = (), store: Optional[str] = None,
                 message: Optional[Callable[[int, str], None]] = None, checks: bool = True):
        self._lib = library()
        told = message or _log_message
        self._message = _abi.MessageFn(lambda user, level, text: told(level, text.decode()))
        self.on_cpu = device == "cpu"
        if isinstance(device, str) and not self.on_cpu:
            raise invalid("device is %r, must be a number, 'cpu' or None", device)
        self.ordinal = 0 if self.on_cpu or device is None else int(device)
        self._handle = self._open(device, arch, checks)
        try:
            self._jit = self._install(store) if jit else None
            self._finish = weakref.finalize(self, _close, self._lib, self._handle, self._jit,
                                            self._message)
        except BaseException:
            self._lib.attune_close(self._handle)
            raise
        for path in sets:
            self.open_set(path)

    def _open(self, device: Union[int, str, None], arch: Optional[str], checks: bool) -> int:
        handle = ctypes.c_void_p()
        if self.on_cpu:
            options = zeroed(_abi.CpuOptions)
            options.arch, options.unchecked = (arch or DEFAULT_CPU_ARCH).encode(), not checks
            options.message = self._message
            check(library("attune_cpu").attune_cpu_open(options, ctypes.byref(handle)))
        else:
            options = zeroed(_abi.Options)
            options.device, options.arch = self.ordinal, arch.encode() if arch else None
            options.message = self._message
            check(self._lib.attune_open(options, ctypes.byref(handle)))
        return handle.value or 0

    def _install(self, store: Optional[str]) -> int:
        options, jit = zeroed(_abi.JitOptions), ctypes.c_void_p()
        options.store = None if store is None else store.encode()
        options.message = self._message
        check(library("attune_gen").attune_jit_install(self._handle, options, ctypes.byref(jit)))
        return jit.value or 0

    # -- life ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Frees the context and its kernels. Nothing may be in flight. Closing twice is fine."""
        self._finish()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    @property
    def handle(self) -> int:
        """The attune_context *, for calls of the C library that this package does not wrap."""
        if not self._finish.alive:
            raise invalid("the context is closed")
        return self._handle

    # -- what it has -----------------------------------------------------------------------------------

    def open_set(self, path: str) -> None:
        """Adds the kernels of a set: a folder, or one file."""
        check(self._lib.attune_open_set(self.handle, str(path).encode()))

    @property
    def arch(self) -> str:
        """The arch looked up for, such as "sm_90a"."""
        return self._lib.attune_context_arch(self.handle).decode()

    @property
    def device_name(self) -> str:
        """The device's name; "" without one."""
        return self._lib.attune_context_device(self.handle).decode()

    def programs(self) -> List[Dict[str, Any]]:
        """Every program that the context knows, by name: {variant, shape_class, origin, kernels}, and for
        each kernel {name, threads, smem_bytes, registers, spill_bytes} (numbers once it was used)."""
        found: List[Dict[str, Any]] = []

        def visit(user: Any, program: int) -> int:
            found.append(self._info(program))
            return 0

        check(self._lib.attune_each(self.handle, _abi.VisitFn(visit), None))
        return found

    def _info(self, program: int) -> Dict[str, Any]:
        info = zeroed(_abi.ProgramInfo)
        check(self._lib.attune_info(program, info))
        names = [field[0] for field in _abi.KernelFacts._fields_]
        kernels = [{name: getattr(info.kernels[i], name) for name in names}
                   for i in range(info.kernel_count)]
        for kernel in kernels:
            kernel["name"] = kernel["name"].decode()
        return {"variant": info.variant.decode(), "shape_class": info.shape_class.decode(),
                "origin": info.origin.decode(), "kernels": kernels}

    def synchronize(self) -> None:
        """Waits for all work on the context's device."""
        check(self._lib.attune_synchronize(self.handle))

    def counters(self) -> Dict[str, Any]:
        """What the last launch on the CPU device moved and did, as attune_cpu.h describes: instructions,
        multiply-adds, ..., and under "tensors" the bytes of each tensor by name."""
        counted = zeroed(_abi.CpuCounters)
        check(library("attune_cpu").attune_cpu_count(self.handle, -1, counted))
        numbers: Dict[str, Any] = {field[0]: getattr(counted, field[0])
                                   for field in _abi.CpuCounters._fields_
                                   if field[1] is ctypes.c_uint64}
        numbers["tensors"] = {
            tensor.name.decode(): {field[0]: getattr(tensor, field[0])
                                   for field in _abi.CpuTensor._fields_ if field[0] != "name"}
            for tensor in counted.tensor[:counted.tensors]}
        return numbers

    # -- launching -------------------------------------------------------------------------------------

    def accepts(self, device: Tuple[int, int]) -> bool:
        """Whether kernels of this context can reach a tensor of that DLPack device."""
        if self.on_cpu:
            return device[0] == CPU
        return device[0] == CUDA_HOST or (device[0] in (CUDA, CUDA_MANAGED) and
                                          device[1] == self.ordinal)

    def prepare(self, problem: "_abi.Problem") -> int:
        """The attune_program * for a problem, ready to launch: found, or compiled at the first call."""
        program = ctypes.c_void_p()
        check(self._lib.attune_prepare(self.handle, problem, ctypes.byref(program)))
        return program.value or 0

    def supports(self, problem: "_abi.Problem") -> None:
        """Returns when prepare would find or could make a program; else the Error says why not."""
        check(self._lib.attune_supports(self.handle, problem))

    def workspace_bytes(self, program: int, args: "_abi.AttnArgs") -> int:
        need = ctypes.c_size_t()
        check(self._lib.attune_workspace(program, args.batch, args.heads_q, args.len_q, args.len_k,
                                         ctypes.byref(need)))
        return need.value

    def launch(self, program: int, args: "_abi.AttnArgs", stream: int) -> None:
        check(self._lib.attune_launch(program, ctypes.byref(args), stream))

    def attention(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        """attune.attention on this context."""
        from ._attention import attention
        return attention(q, k, v, context=self, **options)


_defaults: Dict[Tuple[int, int], Context] = {}
_lock = threading.Lock()


def default_context(device: Tuple[int, int]) -> Context:
    """The context that attention() uses for tensors of a DLPack device when none is named: made at the
    first call, with the JIT; for host memory the CPU device as sm_80."""
    key = (CPU, 0) if device[0] == CPU else (CUDA, device[1])
    with _lock:
        if key not in _defaults:
            _defaults[key] = Context("cpu") if key[0] == CPU else Context(device[1])
        return _defaults[key]
