"""test_attune.py - the Python binding on the CPU device against plain loops: dense, causal, GQA, windows,
layouts, packed sequences, what features add, DLPack from a hand-made exporter, errors, and the raw
layer. numpy, jax and torch are used where they are installed.

    python3 tests/python/test_attune.py     needs build/libattune*.so.0 and NVRTC"""
import array
import ctypes
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import attune  # noqa: E402
from attune import Array, Error, Status, _abi, _library  # noqa: E402
from plain import attend, furthest, head, keeps, numbers, offset, shaped  # noqa: E402

# Absolute, for |V| <= 1. fp32: the rounding of a few hundred additions. 16-bit: P and O are rounded once
# each, 2^-11 and 2^-8 of a number below 1, and the scores that P comes from have fp32 noise.
BOUND = {"fp32": 2e-5, "fp16": 2e-3, "bf16": 1.6e-2}
CONTEXT = attune.Context("cpu", arch="sm_80", store="")  # kernels are compiled once, kept in memory


class Case:
    """Random q, k and v as Arrays and as nested lists."""

    def __init__(self, batch=1, len_q=20, len_k=20, heads_q=2, heads_kv=2, dim=32, dim_v=None,
                 dtype="fp32", seed=1):
        self.shape = (batch, len_q, len_k, heads_q, heads_kv)
        self.dtype, dim_v = dtype, dim_v or dim
        self.arrays, self.lists = [], []
        shapes = ((batch, len_q, heads_q, dim), (batch, len_k, heads_kv, dim),
                  (batch, len_k, heads_kv, dim_v))
        for index, shape in enumerate(shapes):
            flat = numbers(seed * 3 + index, math.prod(shape), dtype)
            self.arrays.append(Array(shape, dtype, flat))
            self.lists.append(shaped(flat, *shape))

    def expect(self, mask=None, corner=None, scale=None, adjust=None, sinks=None, keep=None,
               used=None):
        """(O [batch][seq][head][dim], LSE [batch][head][seq]). adjust and keep get batch and head too."""
        batch, len_q, len_k, heads_q, heads_kv = self.shape
        q, k, v = self.lists
        out = [[[None] * heads_q for _ in range(len_q)] for _ in range(batch)]
        lse = [[None] * heads_q for _ in range(batch)]
        for b in range(batch):
            keys = len_k if used is None else used[b]
            inside = keeps(mask, corner, len_q, keys)
            for h in range(heads_q):
                shared = h // (heads_q // heads_kv)
                o, lse[b][h] = attend(
                    head(q, b, h), head(k, b, shared, slice(keys)), head(v, b, shared, slice(keys)),
                    scale, lambda i, j: inside(i, j) and (keep is None or keep(b, h, i, j)),
                    (lambda s, i, j: s) if adjust is None else (lambda s, i, j: adjust(s, b, h, i, j)),
                    None if sinks is None else sinks[h])
                for i, row in enumerate(o):
                    out[b][i][h] = row
        return out, lse


class BindingTest(unittest.TestCase):
    def near(self, found, expected, dtype="fp32"):
        self.assertLess(furthest(found, expected), BOUND[dtype])

    def run_case(self, case, expected, **options):
        out, lse = CONTEXT.attention(*case.arrays, return_lse=True, **options)
        self.near(out.tolist(), expected[0], case.dtype)
        self.near(lse.tolist(), expected[1], case.dtype)

    def refused(self, status, words, call):
        with self.assertRaises(Error) as caught:
            call()
        self.assertEqual(caught.exception.status, status, caught.exception)
        self.assertIn(words, str(caught.exception))


class Attention(BindingTest):
    def test_dense(self):
        for dtype in ("fp32", "fp16", "bf16"):
            with self.subTest(dtype=dtype):
                case = Case(batch=2, len_q=17, len_k=37, dtype=dtype)
                self.run_case(case, case.expect())

    def test_causal_corners(self):
        case = Case(len_q=9, len_k=21)
        for corner in ("top_left", "bottom_right"):
            with self.subTest(corner=corner):
                self.run_case(case, case.expect("causal", corner), causal=True, corner=corner)
        square = Case()
        self.run_case(square, square.expect("causal", "top_left"), mask="causal")

    def test_rows_that_see_nothing(self):
        case = Case(len_q=12, len_k=5)  # bottom right: the first 7 rows see no key
        expected = case.expect("causal", "bottom_right")
        self.assertEqual(expected[1][0][0][6], -math.inf)
        self.run_case(case, expected, causal=True, corner="bottom_right")

    def test_window(self):
        case = Case(len_q=40, len_k=40)
        for window in ((3, 5), (0, -1), (-1, 2)):
            with self.subTest(window=window):
                self.run_case(case, case.expect(window), window=window)
        self.run_case(case, case.expect((4, 0)), window=(4, 9), causal=True)

    def test_gqa(self):
        case = Case(batch=2, heads_q=6, heads_kv=2, len_q=7)
        self.run_case(case, case.expect())

    def test_scale(self):
        case = Case()
        for scale in (0.0, -0.5, 1.25):
            self.run_case(case, case.expect(scale=scale), scale=scale)

    def test_dims_that_differ(self):
        case = Case(dim=64, dim_v=32)
        self.run_case(case, case.expect())

    def test_element_alignment(self):
        case = Case()
        padded = Array((1, 20, 2, 33), "fp32", [row + [math.nan] for i in case.lists[0][0] for row in i])
        q = Exporter(padded, shape=(1, 20, 2, 32), strides=(1320, 66, 33, 1))
        out = CONTEXT.attention(q, *case.arrays[1:], out=Array((1, 20, 2, 32)))
        self.near(out.tolist(), case.expect()[0])
        self.assertTrue(any(p["variant"].endswith("_elem") for p in CONTEXT.programs()))

    def test_seqused_k(self):
        case = Case(batch=3, len_k=24)
        self.run_case(case, case.expect(used=[24, 1, 13]), seqused_k=[24, 1, 13])

    def test_pins(self):
        case = Case(len_q=40, len_k=40)
        pins = {"window_left": 3, "window_right": 0}
        self.run_case(case, case.expect((3, 0)), window=(3, 0), pins=pins)
        names = [program["variant"] for program in CONTEXT.programs()]
        self.assertTrue(any("_window_x" in name for name in names), names)
        self.refused(Status.INVALID, "window_left", lambda: CONTEXT.attention(
            *case.arrays, window=(4, 0), pins=pins))

    def test_nothing_to_do(self):
        q, kv = Array((1, 0, 2, 32)), Array((1, 20, 2, 32))
        self.assertEqual(CONTEXT.attention(q, kv, kv).flat(), [])
        q, none = Array((1, 3, 2, 32)), Array((1, 0, 2, 32))
        out, lse = CONTEXT.attention(q, none, none, return_lse=True)
        self.assertEqual(out.flat(), [0.0] * 192)
        self.assertEqual(lse.flat(), [-math.inf] * 6)


class Features(BindingTest):
    """What the problem's features add to a score."""

    def test_any_head_dim(self):
        case = Case(dim=7)  # rows of 28 bytes
        self.run_case(case, case.expect())

    def test_softcap(self):
        case = Case()
        self.run_case(case, case.expect(scale=3.0, adjust=lambda s, *at: 1.5 * math.tanh(s / 1.5)),
                      scale=3.0, softcap=1.5)

    def test_alibi(self):
        case = Case(batch=2, len_q=11, len_k=20)
        shift = offset(11, 20, "bottom_right")
        for slopes in ([0.25, 1.0], [[0.25, 1.0], [0.0, 0.5]]):
            of = slopes if isinstance(slopes[0], list) else [slopes] * 2
            self.run_case(case, case.expect(
                "causal", "bottom_right",
                adjust=lambda s, b, h, i, j: s - of[b][h] * abs(j - i - shift)),
                causal=True, corner="bottom_right", alibi_slopes=slopes)

    def test_bias(self):
        case = Case(batch=2, len_q=9, len_k=14)
        for shape in ((2, 2, 9, 14), (2, 1, 14), (9, 1), (14,)):
            whole = (1,) * (4 - len(shape)) + shape
            flat = numbers(5, math.prod(shape))
            values = shaped(flat, *whole)

            def biased(s, *at):
                inner = values
                for place, extent in zip(at, whole):
                    inner = inner[place if extent > 1 else 0]
                return s + inner

            with self.subTest(shape=shape):
                self.run_case(case, case.expect(adjust=biased), bias=Array(shape, "fp32", flat))

    def test_sinks(self):
        case = Case(len_q=12, len_k=5)
        sinks = [0.5, -math.inf]
        self.run_case(case, case.expect("causal", "bottom_right", sinks=sinks), sinks=sinks,
                      causal=True, corner="bottom_right")

    def test_bitmask(self):
        case = Case(len_q=70, len_k=70)
        # a full block, an empty one, and partial ones
        kept = [[(j < 64 if i < 64 else (i * 7 + j * 3) % 5 > 1) for j in range(70)] for i in range(70)]
        words = [sum(1 << (j - at) for j in range(at, min(at + 32, 70)) if row[j])
                 for row in kept for at in (0, 32, 64)]
        bits = Array((70, 3), "uint32", words)
        classes = attune.bitmask_classes(bits, 70)
        self.assertEqual(classes.tolist(), [[2, 0], [1, 1]])
        expected = case.expect(keep=lambda b, h, i, j: kept[i][j])
        self.run_case(case, expected, bitmask=bits)
        self.run_case(case, expected, bitmask=bits, bitmask_classes=classes)

    def test_varlen(self):
        lengths_q, lengths_k, heads, dim = (5, 0, 19), (8, 3, 19), 2, 32
        sizes = [sum(lengths_q) * heads * dim] + [sum(lengths_k) * heads * dim] * 2
        flat = [numbers(seed, size) for seed, size in enumerate(sizes)]
        lists = [shaped(f, len(f) // (heads * dim), heads, dim) for f in flat]
        arrays = [Array((len(l), heads, dim), "fp32", f) for l, f in zip(lists, flat)]
        starts_q, starts_k = [0, 5, 5, 24], [0, 8, 11, 30]
        out, lse = [None] * 24, [[None] * 24 for _ in range(heads)]
        for b in range(3):
            rows, keys = slice(*starts_q[b:b + 2]), slice(*starts_k[b:b + 2])
            inside = keeps("causal", "bottom_right", lengths_q[b], lengths_k[b])
            found = [attend(*([row[h] for row in tensor[part]] for tensor, part in
                              zip(lists, (rows, keys, keys))), keep=inside) for h in range(heads)]
            for i in range(lengths_q[b]):
                out[starts_q[b] + i] = [found[h][0][i] for h in range(heads)]
                for h in range(heads):
                    lse[h][starts_q[b] + i] = found[h][1][i]
        case = Case()
        case.arrays = arrays
        self.run_case(case, (out, lse), causal=True, corner="bottom_right", cu_seqlens_q=starts_q,
                      cu_seqlens_k=starts_k, max_seqlen_q=19, max_seqlen_k=19)
        self.run_case(case, (out, lse), causal=True, corner="bottom_right", cu_seqlens_q=starts_q,
                      cu_seqlens_k=starts_k)

    def test_seqused_q(self):
        case = Case(batch=2, len_q=10)
        expected = case.expect()
        out = Array((2, 10, 2, 32), "fp32", [7.0] * 1280)
        CONTEXT.attention(*case.arrays, seqused_q=[10, 4], out=out)
        expected[0][1][4:] = [[[7.0] * 32] * 2] * 6  # rows that are not in use are not written
        self.near(out.tolist(), expected[0])

    def test_group(self):
        case = Case(heads_q=4, heads_kv=1, len_q=3)
        self.run_case(case, case.expect(), group=4)

    def test_output_wider_than_input(self):
        case = Case(dtype="fp16")
        self.run_case(case, case.expect(), out_dtype="fp32")


class Tensors(BindingTest):
    def test_memoryviews(self):
        case = Case()
        views = [memoryview(array.array("f", a.flat())).cast("B").cast("f", shape=list(a.shape))
                 for a in case.arrays]
        out, lse = CONTEXT.attention(*views, return_lse=True)
        self.assertIsInstance(out, memoryview)
        self.near(out.tolist(), case.expect()[0])
        self.near(lse.tolist(), case.expect()[1])

    def test_read_only(self):
        case = Case()
        views = [memoryview(bytes(a.bytes())).cast("f", shape=list(a.shape)) for a in case.arrays]
        self.near(CONTEXT.attention(*views).tolist(), case.expect()[0])
        self.refused(Status.INVALID, "out is read-only",
                     lambda: CONTEXT.attention(*views, out=views[0]))

    def test_bhsd(self):
        case = Case(batch=2, len_q=6, len_k=9)
        turned = [Array((b, h, s, d), "fp32", [x[i][j][g] for i in range(b) for g in range(h)
                                               for j in range(s)])
                  for x, (b, s, h, d) in zip(case.lists, (a.shape for a in case.arrays))]
        out = CONTEXT.attention(*turned, layout="bhsd").tolist()
        self.near([[[out[b][h][i] for h in range(2)] for i in range(6)] for b in range(2)],
                  case.expect()[0])

    def test_given_outputs_are_used(self):
        case = Case()
        out, lse = Array((1, 20, 2, 32)), Array((1, 2, 20))
        returned = CONTEXT.attention(*case.arrays, out=out, lse=lse)
        self.assertIs(returned[0], out)
        self.assertIs(returned[1], lse)
        self.near(out.tolist(), case.expect()[0])

    def test_bf16_is_rounded_to_even(self):
        values = [1.0, 1.00390625, 1.01171875, -3.0e38, math.inf]
        self.assertEqual(Array((5,), "bf16", values).flat()[:3], [1.0, 1.0, 1.015625])
        self.assertTrue(math.isnan(Array((1,), "bf16", [math.nan]).flat()[0]))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_numpy(self):
        import numpy
        case = Case(dtype="fp16")
        q, k, v = (numpy.array(a.tolist(), "float16") for a in case.arrays)
        wide = numpy.zeros((1, 20, 4, 32), "float16")
        wide[:, :, ::2] = k
        out = CONTEXT.attention(q, wide[:, :, ::2], v)
        self.assertIsInstance(out, numpy.ndarray)
        self.near(out.tolist(), case.expect()[0], "fp16")

    @unittest.skipUnless(importlib.util.find_spec("jax"), "jax is not installed")
    def test_jax(self):
        import jax.numpy
        case = Case(dtype="bf16")
        q, k, v = (jax.numpy.array(a.tolist(), "bfloat16") for a in case.arrays)
        out, lse = CONTEXT.attention(q, k, v, causal=True, return_lse=True)
        self.assertEqual((str(out.dtype), str(lse.dtype)), ("bfloat16", "float32"))
        self.near(out.tolist(), case.expect("causal", "top_left")[0], "bf16")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_torch(self):
        import torch
        case = Case(dtype="bf16")
        q, k, v = (torch.tensor(a.tolist(), dtype=torch.bfloat16) for a in case.arrays)
        out, lse = CONTEXT.attention(q, k, v, causal=True, return_lse=True)
        self.assertEqual((out.dtype, lse.dtype), (torch.bfloat16, torch.float32))
        self.near(out.tolist(), case.expect("causal", "top_left")[0], "bf16")
        self.refused(Status.INVALID, "grad", lambda: CONTEXT.attention(q.requires_grad_(), k, v))


class Exporter:
    """A tensor that speaks DLPack and nothing else, over an Array's memory."""

    def __init__(self, of, versioned=False, shape=None, strides=None, device=(1, 0), lanes=1, code=2,
                 bits=32, byte_offset=0, flags=0):
        shape = shape or of.shape
        self.of, self.versioned, self.device = of, versioned, device
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(strides))(*strides) if strides else None
        self.managed = attune._tensor._Versioned(major=1, flags=flags)
        t = self.managed.tensor
        t.data, t.byte_offset = of.pointer - byte_offset, byte_offset
        t.device_type, t.device_id = device
        t.ndim, t.code, t.bits, t.lanes = len(shape), code, bits, lanes
        t.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        if strides:
            t.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        if self.versioned and max_version:
            return new(ctypes.addressof(self.managed), b"dltensor_versioned", None)
        return new(ctypes.addressof(self.managed.tensor), b"dltensor", None)


class DlPack(BindingTest):
    def setUp(self):
        self.case = Case()

    def call(self, out=None, **options):
        q, k, v = self.case.arrays
        return CONTEXT.attention(Exporter(q, **options), k, v, out=out or Array(q.shape))

    def test_old_and_new_capsules(self):
        for versioned in (False, True):
            self.near(self.call(versioned=versioned).tolist(), self.case.expect()[0])

    def test_strides_and_offset(self):
        expected = self.case.expect()[0]
        self.near(self.call(strides=(1280, 64, 32, 1)).tolist(), expected)
        self.near(self.call(byte_offset=64).tolist(), expected)

    def test_refusals(self):
        for words, options in (
                ("on DLPack device (2, 0)", {"device": (2, 0)}),
                ("2 lanes", {"lanes": 2}),
                ("code 5", {"code": 5, "bits": 64}),
                ("64 bits", {"bits": 64}),
                ("must have 4 dimensions", {"shape": (20, 2, 32)}),
                ("stride 2 in its last dimension", {"strides": (2560, 128, 64, 2)})):
            with self.subTest(words=words):
                self.refused(Status.INVALID, words, lambda: self.call(**options))

    def test_what_cannot_be_made_is_asked_for(self):
        q, k, v = self.case.arrays
        self.refused(Status.INVALID, "pass out", lambda: CONTEXT.attention(Exporter(q), k, v))

    def test_read_only_output(self):
        out = Exporter(Array((1, 20, 2, 32)), versioned=True, flags=1)
        self.refused(Status.INVALID, "out is read-only", lambda: self.call(out=out))


class Errors(BindingTest):
    def test_arguments(self):
        q, k, v = Case(len_q=4, len_k=6).arrays
        one = Array((1, 6, 3, 32))
        calls = (
            ("corner is not named", lambda: CONTEXT.attention(q, k, v, causal=True)),
            ("layout is 'sbhd'", lambda: CONTEXT.attention(q, k, v, layout="sbhd")),
            ("corner is 'left'", lambda: CONTEXT.attention(q, k, v, causal=True, corner="left")),
            ("mask is 'full'", lambda: CONTEXT.attention(q, k, v, mask="full")),
            ("mask is 'none', but", lambda: CONTEXT.attention(q, k, v, mask="none", causal=True)),
            ("must agree", lambda: CONTEXT.attention(q, one, v)),
            ("heads_q", lambda: CONTEXT.attention(q, one, one)),
            ("k has dim 16", lambda: CONTEXT.attention(q, Array((1, 6, 2, 16)), v)),
            ("out has shape", lambda: CONTEXT.attention(q, k, v, out=k)),
            ("lse is fp32 of shape", lambda: CONTEXT.attention(q, k, v, lse=Array((1, 4, 2)))),
            ("scale is", lambda: CONTEXT.attention(q, k, v, scale=math.inf)),
            ("is no pinnable scalar", lambda: CONTEXT.attention(q, k, v, pins={"flags": 1})),
            ("must both have batch + 1", lambda: CONTEXT.attention(
                *(Array((4, 2, 32)),) * 3, cu_seqlens_q=[0, 4], cu_seqlens_k=[0, 2, 4])),
            ("cu_seqlens_k is missing", lambda: CONTEXT.attention(
                *(Array((4, 2, 32)),) * 3, cu_seqlens_q=[0, 4])),
            ("seqused_k has 2", lambda: CONTEXT.attention(q, k, v, seqused_k=[1, 2])),
            ("q is a int", lambda: CONTEXT.attention(3, k, v)),
            ("buffer of format 'd'", lambda: CONTEXT.attention(array.array("d", [0.0]), k, v)),
            ("broadcasts to", lambda: CONTEXT.attention(q, k, v, bias=Array((5, 6)))),
            ("broadcasts to", lambda: CONTEXT.attention(q, k, v, bias=Array((4, 6), "fp16"))),
        )
        for words, call in calls:
            with self.subTest(words=words):
                self.refused(Status.INVALID, words, call)

    def test_no_jit_says_what_to_add(self):
        with attune.Context("cpu", jit=False) as context:
            self.refused(Status.NOT_FOUND, "add it to a spec",
                         lambda: context.attention(*Case().arrays))
        self.refused(Status.INVALID, "closed", lambda: context.arch)
        context.close()

    def test_no_device(self):
        with attune.Context(arch="sm_90a", jit=False) as context:
            self.assertEqual((context.arch, context.device_name), ("sm_90a", ""))
            self.refused(Status.INVALID, "the context is on none",
                         lambda: context.attention(*Case().arrays))
        self.refused(Status.INVALID, "options.arch", lambda: attune.Context("cpu", arch="mips"))
        self.refused(Status.INVALID, "device is 'gpu'", lambda: attune.Context("gpu"))

    def test_a_missing_set(self):
        self.refused(Status.IO, "nowhere", lambda: attune.Context("cpu", jit=False,
                                                                   sets=["build/nowhere"]))


class Contexts(BindingTest):
    def test_messages_and_store(self):
        told = []
        with tempfile.TemporaryDirectory() as store:
            for _ in range(2):
                with attune.Context("cpu", store=store, message=lambda *m: told.append(m)) as context:
                    context.attention(*Case(dim=16).arrays)
            self.assertTrue(os.listdir(store))
        compiled = [text for level, text in told if "compiled" in text]
        self.assertEqual(len(compiled), 1, told)  # the second context found it in the store

    def test_a_set(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = os.path.join(folder, "spec.yaml")
            with open(spec, "w", encoding="ascii") as f:
                f.write("version: 1\nop: attn_fwd\narch: sm_80\ndtype: fp32\nhead_dim: 48\n")
            subprocess.run([os.path.join(ROOT, "build", "attune"), "build", spec, "-o",
                            os.path.join(folder, "set")], check=True, capture_output=True)
            with attune.Context("cpu", jit=False, sets=[os.path.join(folder, "set")]) as context:
                case = Case(dim=48)
                self.near(context.attention(*case.arrays).tolist(), case.expect()[0])
                (program,) = [p for p in context.programs() if p["kernels"][0]["threads"]]
                self.assertEqual(program["variant"], "attn_fwd_sm80_fp32_d48")

    def test_counters(self):
        case = Case()
        CONTEXT.attention(*case.arrays)
        q = CONTEXT.counters()["tensors"]["q"]
        self.assertEqual(q["compulsory_read"], 20 * 2 * 32 * 4)

    def test_the_default_context_is_made_once(self):
        case = Case()
        self.near(attune.attention(*case.arrays).tolist(), case.expect()[0])
        self.assertIs(attune.default_context((1, 0)), attune.default_context((1, 0)))


class RawLayer(BindingTest):
    def test_is_generated(self):
        subprocess.run([sys.executable, os.path.join(ROOT, "runtime", "bindings.py"), "--check"],
                       check=True)

    def test_another_layout_is_an_import_error(self):
        class Twisted(ctypes.Structure):
            _fields_ = [("size", ctypes.c_int32), ("device", ctypes.c_int64)]

        _abi.LAYOUTS[Twisted] = (16, {"size": 0, "device": 4})
        try:
            with self.assertRaisesRegex(ImportError, "laid out"):
                _library.check_layouts()
        finally:
            del _abi.LAYOUTS[Twisted]
        _library.check_layouts()

    def test_another_version_is_an_import_error(self):
        _library._check_version(_abi.VERSION)
        with self.assertRaisesRegex(ImportError, "speaks to"):
            _library._check_version("9.0.0")

    def test_another_size_is_an_error(self):
        problem = _library.zeroed(_abi.Problem)
        problem.size -= 8
        self.refused(Status.INVALID, "attune_problem.size", lambda: CONTEXT.prepare(problem))
        problem = _library.zeroed(_abi.Problem)
        problem.op, problem.dtype_q, problem.head_dim_qk = 1, 1, 32
        args = _abi.AttnArgs(size=64)
        self.refused(Status.INVALID, "args.size is 64",
                     lambda: CONTEXT.launch(CONTEXT.prepare(problem), args, 0))

    def test_a_missing_library_is_an_import_error(self):
        done = subprocess.run([sys.executable, "-c", "import attune"], capture_output=True, text=True,
                              env={**os.environ, "ATTUNE_LIBRARY_PATH": "/nowhere",
                                   "PYTHONPATH": os.path.join(ROOT, "runtime", "python")})
        self.assertIn("libattune.so.0 not found in /nowhere", done.stderr)

    def test_each_library_loads_first(self):
        """From a folder that the loader does not know, in a process of its own."""
        for name in _abi.FUNCTIONS:
            code = "from attune import _library; _library.library(%r)" % name
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                  env={"ATTUNE_LIBRARY_PATH": os.path.join(ROOT, "build"),
                                       "PYTHONPATH": os.path.join(ROOT, "runtime", "python")})
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
