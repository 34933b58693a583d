"""The C interface of attune. Made by runtime/bindings.py from runtime/abi.txt: edit neither
by hand; `make abi` writes both. LAYOUTS holds what the C compiler made of each struct: bytes,
and the offset of each field."""
from ctypes import (
    CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,
    c_uint32, c_uint64, c_void_p,
)
from enum import IntEnum
from typing import Any, Dict, List, Tuple, Type

VERSION = "0.1.0"


class Status(IntEnum):
    OK = 0
    INVALID = 1
    NO_MEMORY = 2
    NO_DEVICE = 3
    NOT_FOUND = 4
    UNSUPPORTED = 5
    NO_FIT = 6
    BAD_FILE = 7
    IO = 8
    BAD_SPEC = 9
    TEMPLATE = 10
    NO_COMPILER = 11
    COMPILE = 12
    DRIVER = 13
    WORKSPACE = 14
    MISMATCH = 15
    BUSY = 16


class Level(IntEnum):
    WARN = 1
    INFO = 2


class Op(IntEnum):
    ATTN_FWD = 1
    ATTN_STANDARD = 2
    ATTN_DEMO = 3


class Dtype(IntEnum):
    FP32 = 1
    FP16 = 2
    BF16 = 3


class Mask(IntEnum):
    NONE = 1
    CAUSAL = 2
    WINDOW = 3


class Align(IntEnum):
    _16B = 1
    ELEM = 2


class Corner(IntEnum):
    TOP_LEFT = 1
    BOTTOM_RIGHT = 2


class Feature(IntEnum):
    SOFTCAP = 1
    ALIBI = 2
    BIAS = 4
    SINK = 8
    BITMASK = 16
    VARLEN = 32
    PAGED = 64
    NORESCALE = 65536
    NOMAX = 131072
    FA1 = 262144
DEFAULT_SCALE = 1
BITMASK_BLOCK = 64
MAX_PARTS = 4
CPU_TENSORS = 16


class BlockClass(IntEnum):
    EMPTY = 0
    PARTIAL = 1
    FULL = 2


class CpuLanding(IntEnum):
    LATE = 0
    EARLY = 1
    RANDOM = 2


class CpuSums(IntEnum):
    FLOAT = 0
    HARDWARE = 1


class TuneMode(IntEnum):
    OFF = 0
    ONCE = 1
    BACKGROUND = 2

MessageFn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
VisitFn = CFUNCTYPE(c_int, c_void_p, c_void_p)
MissFn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_char_p, c_int, c_void_p)
FreeEntriesFn = CFUNCTYPE(None, c_void_p)


class Pin(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("value", c_double),
    ]


class Problem(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("op", c_int),
        ("dtype_q", c_int),
        ("dtype_kv", c_int),
        ("dtype_out", c_int),
        ("head_dim_qk", c_int32),
        ("head_dim_v", c_int32),
        ("mask", c_int),
        ("align", c_int),
        ("features", c_uint32),
        ("group", c_int32),
        ("pins", POINTER(Pin)),
        ("pin_count", c_uint32),
        ("batch", c_int32),
        ("heads_q", c_int32),
        ("heads_kv", c_int32),
        ("len_q", c_int32),
        ("len_k", c_int32),
    ]


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("stride_batch", c_int64),
        ("stride_seq", c_int64),
        ("stride_head", c_int64),
    ]


class AttnArgs(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("o", Tensor),
        ("lse", c_void_p),
        ("lse_stride_batch", c_int64),
        ("lse_stride_head", c_int64),
        ("lse_stride_seq", c_int64),
        ("seqused_q", c_void_p),
        ("seqused_k", c_void_p),
        ("batch", c_int32),
        ("heads_q", c_int32),
        ("heads_kv", c_int32),
        ("len_q", c_int32),
        ("len_k", c_int32),
        ("scale", c_float),
        ("flags", c_uint32),
        ("corner", c_int),
        ("window_left", c_int32),
        ("window_right", c_int32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("cu_seqlens_q", c_void_p),
        ("cu_seqlens_k", c_void_p),
        ("total_q", c_int32),
        ("total_k", c_int32),
        ("softcap", c_float),
        ("alibi_slopes", c_void_p),
        ("alibi_stride_batch", c_int64),
        ("bias", c_void_p),
        ("bias_stride_batch", c_int64),
        ("bias_stride_head", c_int64),
        ("bias_stride_q", c_int64),
        ("bias_stride_k", c_int64),
        ("sinks", c_void_p),
        ("bitmask", c_void_p),
        ("bitmask_stride_batch", c_int64),
        ("bitmask_stride_head", c_int64),
        ("bitmask_stride_q", c_int64),
        ("bitmask_classes", c_void_p),
        ("bitmask_classes_stride_batch", c_int64),
        ("bitmask_classes_stride_head", c_int64),
        ("bitmask_classes_stride_q", c_int64),
    ]


class Options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_int32),
        ("arch", c_char_p),
        ("message", MessageFn),
        ("message_user", c_void_p),
    ]


class KernelFacts(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("threads", c_int32),
        ("smem_bytes", c_int32),
        ("registers", c_int32),
        ("spill_bytes", c_int32),
    ]


class ProgramInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("variant", c_char_p),
        ("shape_class", c_char_p),
        ("origin", c_char_p),
        ("corner", c_int),
        ("prepared", c_int32),
        ("kernel_count", c_int32),
        ("kernels", KernelFacts * 4),
    ]


class MissResult(Structure):
    _fields_ = [
        ("count", c_int32),
        ("entries", c_void_p * 4),
        ("entry_bytes", c_size_t * 4),
        ("free_entries", FreeEntriesFn),
        ("owner", c_void_p),
        ("shape_class", c_int32),
    ]


class CpuOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("arch", c_char_p),
        ("unchecked", c_int32),
        ("schedule_seed", c_uint64),
        ("landing", c_int),
        ("sums", c_int),
        ("threads", c_int32),
        ("message", MessageFn),
        ("message_user", c_void_p),
    ]


class CpuTensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("requested_read", c_uint64),
        ("requested_write", c_uint64),
        ("compulsory_read", c_uint64),
        ("compulsory_write", c_uint64),
        ("sectors_read", c_uint64),
        ("sectors_write", c_uint64),
    ]


class CpuCounters(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tensor", CpuTensor * 16),
        ("tensors", c_int32),
        ("blocks", c_uint64),
        ("warps", c_uint64),
        ("instructions", c_uint64),
        ("smem_read", c_uint64),
        ("smem_write", c_uint64),
        ("smem_phases", c_uint64),
        ("smem_phases_least", c_uint64),
        ("fma", c_uint64),
        ("mma_macs", c_uint64),
        ("exp2", c_uint64),
        ("barriers", c_uint64),
        ("async_bytes", c_uint64),
    ]


class JitOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("store", c_char_p),
        ("no_jit", c_int32),
        ("message", MessageFn),
        ("message_user", c_void_p),
        ("tune", c_int),
        ("tune_budget", c_double),
        ("tune_share", c_double),
        ("tune_program", c_char_p),
    ]


class TuneOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("budget", c_double),
        ("seed", c_uint64),
        ("max_trials", c_int32),
    ]


class TuneResult(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("program", c_void_p),
        ("planned", c_double),
        ("winner", c_double),
        ("gain", c_double),
        ("gain_low", c_double),
        ("gain_high", c_double),
        ("tried", c_int32),
        ("changed", c_int32),
        ("provisional", c_int32),
    ]


LAYOUTS: Dict[Type[Structure], Tuple[int, Dict[str, int]]] = {
    Pin: (16, {
        "name": 0,
        "value": 8,
    }),
    Problem: (80, {
        "size": 0,
        "op": 8,
        "dtype_q": 12,
        "dtype_kv": 16,
        "dtype_out": 20,
        "head_dim_qk": 24,
        "head_dim_v": 28,
        "mask": 32,
        "align": 36,
        "features": 40,
        "group": 44,
        "pins": 48,
        "pin_count": 56,
        "batch": 60,
        "heads_q": 64,
        "heads_kv": 68,
        "len_q": 72,
        "len_k": 76,
    }),
    Tensor: (32, {
        "data": 0,
        "stride_batch": 8,
        "stride_seq": 16,
        "stride_head": 24,
    }),
    AttnArgs: (400, {
        "size": 0,
        "q": 8,
        "k": 40,
        "v": 72,
        "o": 104,
        "lse": 136,
        "lse_stride_batch": 144,
        "lse_stride_head": 152,
        "lse_stride_seq": 160,
        "seqused_q": 168,
        "seqused_k": 176,
        "batch": 184,
        "heads_q": 188,
        "heads_kv": 192,
        "len_q": 196,
        "len_k": 200,
        "scale": 204,
        "flags": 208,
        "corner": 212,
        "window_left": 216,
        "window_right": 220,
        "workspace": 224,
        "workspace_bytes": 232,
        "cu_seqlens_q": 240,
        "cu_seqlens_k": 248,
        "total_q": 256,
        "total_k": 260,
        "softcap": 264,
        "alibi_slopes": 272,
        "alibi_stride_batch": 280,
        "bias": 288,
        "bias_stride_batch": 296,
        "bias_stride_head": 304,
        "bias_stride_q": 312,
        "bias_stride_k": 320,
        "sinks": 328,
        "bitmask": 336,
        "bitmask_stride_batch": 344,
        "bitmask_stride_head": 352,
        "bitmask_stride_q": 360,
        "bitmask_classes": 368,
        "bitmask_classes_stride_batch": 376,
        "bitmask_classes_stride_head": 384,
        "bitmask_classes_stride_q": 392,
    }),
    Options: (40, {
        "size": 0,
        "device": 8,
        "arch": 16,
        "message": 24,
        "message_user": 32,
    }),
    KernelFacts: (24, {
        "name": 0,
        "threads": 8,
        "smem_bytes": 12,
        "registers": 16,
        "spill_bytes": 20,
    }),
    ProgramInfo: (144, {
        "size": 0,
        "variant": 8,
        "shape_class": 16,
        "origin": 24,
        "corner": 32,
        "prepared": 36,
        "kernel_count": 40,
        "kernels": 48,
    }),
    MissResult: (96, {
        "count": 0,
        "entries": 8,
        "entry_bytes": 40,
        "free_entries": 72,
        "owner": 80,
        "shape_class": 88,
    }),
    CpuOptions: (64, {
        "size": 0,
        "arch": 8,
        "unchecked": 16,
        "schedule_seed": 24,
        "landing": 32,
        "sums": 36,
        "threads": 40,
        "message": 48,
        "message_user": 56,
    }),
    CpuTensor: (56, {
        "name": 0,
        "requested_read": 8,
        "requested_write": 16,
        "compulsory_read": 24,
        "compulsory_write": 32,
        "sectors_read": 40,
        "sectors_write": 48,
    }),
    CpuCounters: (1008, {
        "size": 0,
        "tensor": 8,
        "tensors": 904,
        "blocks": 912,
        "warps": 920,
        "instructions": 928,
        "smem_read": 936,
        "smem_write": 944,
        "smem_phases": 952,
        "smem_phases_least": 960,
        "fma": 968,
        "mma_macs": 976,
        "exp2": 984,
        "barriers": 992,
        "async_bytes": 1000,
    }),
    JitOptions: (72, {
        "size": 0,
        "store": 8,
        "no_jit": 16,
        "message": 24,
        "message_user": 32,
        "tune": 40,
        "tune_budget": 48,
        "tune_share": 56,
        "tune_program": 64,
    }),
    TuneOptions: (32, {
        "size": 0,
        "budget": 8,
        "seed": 16,
        "max_trials": 24,
    }),
    TuneResult: (72, {
        "size": 0,
        "program": 8,
        "planned": 16,
        "winner": 24,
        "gain": 32,
        "gain_low": 40,
        "gain_high": 48,
        "tried": 56,
        "changed": 60,
        "provisional": 64,
    }),
}

FUNCTIONS: Dict[str, Dict[str, Tuple[Any, List[Any]]]] = {
    "attune": {
        "attune_alloc": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
        "attune_bitmask_classes": (c_int, [c_void_p, c_int64, c_int32, c_int32, c_void_p]),
        "attune_download": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t]),
        "attune_each": (c_int, [c_void_p, VisitFn, c_void_p]),
        "attune_find": (c_int, [c_void_p, POINTER(Problem), POINTER(c_void_p)]),
        "attune_info": (c_int, [c_void_p, POINTER(ProgramInfo)]),
        "attune_launch": (c_int, [c_void_p, c_void_p, c_void_p]),
        "attune_launch_problem": (c_int, [c_void_p, POINTER(Problem), c_void_p, c_void_p]),
        "attune_open": (c_int, [POINTER(Options), POINTER(c_void_p)]),
        "attune_open_memory": (c_int, [c_void_p, c_void_p, c_size_t, c_char_p]),
        "attune_open_set": (c_int, [c_void_p, c_char_p]),
        "attune_prepare": (c_int, [c_void_p, POINTER(Problem), POINTER(c_void_p)]),
        "attune_supports": (c_int, [c_void_p, POINTER(Problem)]),
        "attune_synchronize": (c_int, [c_void_p]),
        "attune_upload": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t]),
        "attune_workspace": (c_int, [c_void_p, c_int32, c_int32, c_int32, c_int32, POINTER(c_size_t)]),
        "attune_context_arch": (c_char_p, [c_void_p]),
        "attune_context_device": (c_char_p, [c_void_p]),
        "attune_error": (c_char_p, []),
        "attune_status_name": (c_char_p, [c_int]),
        "attune_status_text": (c_char_p, [c_int]),
        "attune_version": (c_char_p, []),
        "attune_close": (None, [c_void_p]),
        "attune_free": (None, [c_void_p, c_void_p]),
        "attune_on_miss": (None, [c_void_p, MissFn, c_void_p]),
    },
    "attune_cpu": {
        "attune_cpu_configure": (c_int, [c_void_p, POINTER(CpuOptions)]),
        "attune_cpu_count": (c_int, [c_void_p, c_int32, POINTER(CpuCounters)]),
        "attune_cpu_open": (c_int, [POINTER(CpuOptions), POINTER(c_void_p)]),
    },
    "attune_gen": {
        "attune_jit_install": (c_int, [c_void_p, POINTER(JitOptions), POINTER(c_void_p)]),
        "attune_tune": (c_int, [c_void_p, POINTER(Problem), POINTER(TuneOptions), POINTER(TuneResult)]),
        "attune_jit_close": (None, [c_void_p]),
    },
}
