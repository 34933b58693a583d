"""attune through its C library, by ctypes: the header read, a context opened, launches made.

Input: the folder of the built libraries, runtime/attune.h and axes.def. Output: launches over tensors that have data_ptr(),
shape, stride() and dtype, as torch's have; torch itself is not imported here. Structs and enums are read from the header, so
that they cannot fall behind it. What is timed against what is left to peers.py.
"""
import ctypes
import os
import pathlib
import re

SCALARS = {"size_t": ctypes.c_size_t, "float": ctypes.c_float, "double": ctypes.c_double,
           **{f"{u}int{bits}_t": getattr(ctypes, f"c_{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)}}
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
MESSAGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


class Error(RuntimeError):
    pass


class Header:
    """The structs and enum values of attune.h and its .def files."""

    def __init__(self, folder):
        texts = [pathlib.Path(folder, name).read_text(encoding="utf-8") for name in ("attune.h", "axes.def", "attune_cpu.h")]
        text = re.sub(r"/\*.*?\*/", "", "\n".join(texts), flags=re.S)
        self.axes = {m[0]: dict((b, int(a)) for a, b in re.findall(r"X\(\w+,\s*(\d+),\s*\"(\w+)\"", m[1]))
                     for m in re.findall(r"#define ATTUNE_(\w+)\(X\)((?:.*\\\n)*.*)", text)}
        self.numbers = dict((n, int(v)) for n, v in re.findall(r"\b(ATTUNE_\w+) = (\d+)", text))
        self.enums = set(re.findall(r"typedef enum (\w+)", text))
        self.structs = {}
        for name, body in re.findall(r"typedef struct (\w+) \{([^{}]*)\} \1;", text):
            if "(" not in body:  # no function pointers are needed here but the typedef'ed ones
                self.structs[name] = type(name, (ctypes.Structure,), {"_fields_": list(self._fields(body))})

    def _fields(self, body):
        for declaration in filter(None, (d.strip() for d in body.split(";"))):
            m = re.match(r"(const\s+)?(\w+)\s*(.*)", declaration, flags=re.S)
            for declarator in m[3].split(","):
                name = re.search(r"\w+", declarator)[0]
                kind = self._type(m[2], "*" in declarator, bool(m[1]))
                length = re.search(r"\[(\w+)\]", declarator)
                if length:
                    kind *= int(length[1]) if length[1].isdigit() else self.numbers[length[1]]
                yield name, kind

    def _type(self, name, pointer, const):
        if pointer:
            return ctypes.c_char_p if name == "char" and const else ctypes.c_void_p
        if name in SCALARS:
            return SCALARS[name]
        if name in self.structs:
            return self.structs[name]
        if name in self.enums:
            return ctypes.c_int
        if name.endswith("_fn"):
            return ctypes.c_void_p
        raise Error(f"attune.h has a type that is unknown here: {name}")

    def make(self, name):
        struct = self.structs[name]()
        struct.size = ctypes.sizeof(struct)
        return struct


class Attune:
    """A context on the GPU, or on the CPU device of `cpu_arch`. sets: folders to open; the JIT serves what they lack."""

    def __init__(self, build, runtime, sets=(), stream=lambda: 0, say=None, cpu_arch=None, jit=True):
        self.header, self.stream = Header(runtime), stream
        load = lambda name: ctypes.CDLL(os.path.join(build, name + ".so.0"), mode=ctypes.RTLD_GLOBAL)
        self.lib, self.cpu, self.gen = load("libattune"), load("libattune_cpu"), load("libattune_gen")
        for name in ("attune_error", "attune_version", "attune_context_arch", "attune_context_device"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.context, self.jit = ctypes.c_void_p(), ctypes.c_void_p()
        self._say = MESSAGE(lambda user, level, text: say(text.decode()) if say else None)
        self._open(cpu_arch)
        for folder in sets:
            self.open_set(folder)
        if jit:
            self.check(self.gen.attune_jit_install(self.context, None, ctypes.byref(self.jit)))

    def _open(self, cpu_arch):
        options = self.header.make("attune_cpu_options" if cpu_arch else "attune_options")
        if cpu_arch:
            options.arch = cpu_arch.encode()
            self.check(self.cpu.attune_cpu_open(ctypes.byref(options), ctypes.byref(self.context)))
            return
        options.message = ctypes.cast(self._say, ctypes.c_void_p)
        self.check(self.lib.attune_open(ctypes.byref(options), ctypes.byref(self.context)))

    def open_set(self, folder):
        self.check(self.lib.attune_open_set(self.context, folder.encode()))

    def check(self, status):
        if status:
            raise Error(self.lib.attune_error().decode())

    def close(self):
        self.lib.attune_close(self.context)
        self.gen.attune_jit_close(self.jit)

    @property
    def version(self):
        return self.lib.attune_version().decode()

    @property
    def arch(self):
        return self.lib.attune_context_arch(self.context).decode()

    def _problem(self, q, k, v, o, mask, features, group):
        axes = self.header.axes
        dtype = lambda t: axes["DTYPES"][DTYPES[str(t.dtype).split(".")[-1]]]
        p = self.header.make("attune_problem")
        p.op = axes["OPS"]["attn_fwd"]
        p.dtype_q, p.dtype_kv, p.dtype_out = dtype(q), dtype(k), dtype(o)
        p.head_dim_qk, p.head_dim_v = q.shape[-1], v.shape[-1]
        p.mask, p.group = axes["MASKS"][mask], group
        for name in features:
            p.features |= 1 << axes["FEATURES"][name]
        return p

    def _tensor(self, t):
        """[batch, seq, head, dim], or packed [total, head, dim]."""
        strides = t.stride()
        if strides[-1] != 1:
            raise Error("attune: the head dim's stride must be 1")
        out = self.header.structs["attune_tensor"]()
        out.data = t.data_ptr()
        out.stride_batch = strides[0] if len(strides) == 4 else 0
        out.stride_seq, out.stride_head = strides[-3], strides[-2]
        return out

    def forward(self, q, k, v, o, mask="none", window=(-1, -1), group=1, lse=None, varlen=None):
        """A prepared call: an object that launches and returns o. varlen: (cu_seqlens_q, cu_seqlens_k, longest)."""
        p = self._problem(q, k, v, o, mask, ("varlen",) if varlen else (), group)
        args = self.header.make("attune_attn_args")
        args.q, args.k, args.v, args.o = (self._tensor(t) for t in (q, k, v, o))
        args.flags = self.header.numbers["ATTUNE_DEFAULT_SCALE"]
        args.corner = self.header.axes["CORNERS"]["bottom_right"]
        args.window_left, args.window_right = window
        args.heads_q, args.heads_kv = q.shape[-2], k.shape[-2]
        if lse is not None:  # [batch, heads, seq]
            args.lse = lse.data_ptr()
            args.lse_stride_batch, args.lse_stride_head, args.lse_stride_seq = lse.stride()
        if varlen:
            args.cu_seqlens_q, args.cu_seqlens_k = (t.data_ptr() for t in varlen[:2])
            args.batch, args.len_q, args.len_k = varlen[0].shape[0] - 1, varlen[2], varlen[2]
            args.total_q, args.total_k = q.shape[0], k.shape[0]
        else:
            args.batch, args.len_q, args.len_k = q.shape[0], q.shape[1], k.shape[1]
        for name in ("batch", "heads_q", "heads_kv", "len_q", "len_k"):
            setattr(p, name, getattr(args, name))
        program = ctypes.c_void_p()
        self.check(self.lib.attune_prepare(self.context, ctypes.byref(p), ctypes.byref(program)))
        return Call(self, program, args, o, (q, k, v, lse, varlen))


class Call:
    """One launch, ready; keeps its tensors alive."""

    def __init__(self, attune, program, args, o, keep):
        self.attune, self.program, self.args, self.o, self.keep = attune, program, args, o, keep

    def __call__(self):
        a = self.attune
        a.check(a.lib.attune_launch(self.program, ctypes.byref(self.args), ctypes.c_void_p(a.stream())))
        return self.o

    @property
    def kernels(self):
        info = self.attune.header.make("attune_program_info")
        self.attune.check(self.attune.lib.attune_info(self.program, ctypes.byref(info)))
        return [info.kernels[i].name.decode() for i in range(info.kernel_count)]

    @property
    def tile(self):
        """(block_m, block_n) of the one kernel, from its name."""
        m = re.search(r"__\w+?_m(\d+)n(\d+)", self.kernels[0])
        return int(m[1]), int(m[2])
