"""attention(): tensors and options -> attune_problem and attune_attn_args -> launch.

Everything that the library checks is left to it: here only shapes are read, since the library sees
pointers and strides alone."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _abi
from ._abi import Align, Corner, Dtype, Feature, Mask, Op
from ._array import ALIGNMENT, ITEM_BYTES, Array
from ._context import Context, default_context
from ._library import invalid, zeroed
from ._tensor import (CPU, View, current_stream, empty, framework_of, orders_by_itself, view)

_DTYPES = {"fp32": Dtype.FP32, "fp16": Dtype.FP16, "bf16": Dtype.BF16}
_CORNERS = {None: 0, "top_left": Corner.TOP_LEFT, "bottom_right": Corner.BOTTOM_RIGHT}
_MASKS = {"none": Mask.NONE, "causal": Mask.CAUSAL, "window": Mask.WINDOW}
_LAYOUTS = {  # where batch, seq and head stand among the dimensions
    "bshd": (0, 1, 2),
    "bhsd": (0, 2, 1),
}


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Optional[str] = None,
              corner: Optional[str] = None, window: Optional[Tuple[int, int]] = None,
              scale: Optional[float] = None, softcap: Optional[float] = None,
              alibi_slopes: Any = None, bias: Any = None, sinks: Any = None, bitmask: Any = None,
              bitmask_classes: Any = None, seqused_q: Any = None, seqused_k: Any = None,
              cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
              max_seqlen_q: Optional[int] = None, max_seqlen_k: Optional[int] = None,
              out: Any = None, out_dtype: Optional[str] = None, lse: Any = None,
              return_lse: bool = False, layout: str = "bshd",
              pins: Optional[Mapping[str, float]] = None, group: int = 0,
              context: Optional[Context] = None, stream: Optional[int] = None) -> Any:
    """Exact attention, forward: softmax(scale Q K^T) V. Returns the output, or (output, lse) when
    `lse` is given or return_lse is true.

    Tensors are anything with __dlpack__ (torch, cupy, jax, numpy, ...), a buffer (memoryview) of fp32 or
    an attune.Array; all on one device. Strides are free but for the last dimension, which is dense.
    Nothing is copied.

    q, k, v     [batch, seq, head, dim] with layout="bshd", [batch, head, seq, dim] with "bhsd";
                fp32, fp16 or bf16. k and v have heads_kv heads, which divide q's: consecutive query
                heads share one. v may have another dim than q and k.
    causal      keys after the query are masked. window=(left, right) keeps that many keys on each
                side of the diagonal, inclusive, -1: all; with causal the right bound is 0.
                mask="none", "causal" or "window" names the same.
    corner      "top_left": row i sees keys up to i; "bottom_right": the last row sees the last key.
                Required with a mask or alibi_slopes when lengths of queries and keys may differ.
    scale       None: 1 / sqrt(dim of q). 0 is legal.
    softcap     scores become softcap * tanh(score / softcap).
    alibi_slopes  fp32 [heads] or [batch, heads]: slope * distance from the diagonal is subtracted.
    bias        added to the scores; q's dtype; [batch, heads, queries, keys], leading dimensions may be
                missing and any may be 1.
    sinks       fp32 [heads]: a logit in each row's denominator.
    bitmask     uint32 or int32 words [batch, heads, queries, ceil(keys / 32)], as bias in its leading
                dimensions: bit j % 32 of word j // 32 set keeps key j. bitmask_classes: its block
                classes, uint8 [batch, heads, ceil(queries / 64), ceil(keys / 64)], see attune.h.
    seqused_q, seqused_k   int32 [batch]: queries and keys in use; rows of others are not written.
    cu_seqlens_q, cu_seqlens_k   int32 [batch + 1], first 0: packed sequences. q, k, v and the output
                are then [total, head, dim], whatever layout says, lse [head, total].
                max_seqlen_q, max_seqlen_k: the longest, or anything larger; None: the totals.
    out, lse    written to; None: made by q's framework, for lse fp32 [batch, head, query].
                out_dtype="fp32" for an output that is made: wider than q.
    pins        {"softcap": 50.0, ...}: scalars that this call keeps at these values, so that a kernel
                with them compiled in may serve.
    group       query heads packed as rows of one tile; 0: as the kernel set has it.
    context     None: attune's own for the tensors' device. stream: a CUstream as a number; None: the
                current one of torch or cupy, else the legacy default stream. The launch does not
                wait, except for frameworks whose own streams could not wait for it (jax, unknown
                exporters). Usable under CUDA graph capture once the kernel is loaded.

    Raises attune.Error with the reason; nothing was computed then. There is no backward pass: a
    tensor that requires a gradient is refused by torch, hand in detach()ed ones."""
    names = {name: value for name, value in (
        ("alibi_slopes", alibi_slopes), ("bias", bias), ("sinks", sinks), ("bitmask", bitmask),
        ("bitmask_classes", bitmask_classes), ("seqused_q", seqused_q), ("seqused_k", seqused_k),
        ("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)) if value is not None}
    call = _Call(q, k, v, layout, stream, names, (max_seqlen_q, max_seqlen_k))
    call.context = context or default_context(call.views["q"].device)
    call.set_mask(mask, causal, window, corner)
    call.set_scalars(scale, softcap, group, pins)
    made = call.set_outputs(out, out_dtype, lse, return_lse)
    call.set_extras()
    call.set_alignment()
    call.launch()
    return made if made[1] is not None else made[0]


class _Call:
    """One call on its way from tensors to a launch."""

    def __init__(self, q: Any, k: Any, v: Any, layout: str, stream: Optional[int],
                 extras: Dict[str, Any], longest: Tuple[Optional[int], Optional[int]]):
        if layout not in _LAYOUTS:
            raise invalid("layout is %r, must be 'bshd' or 'bhsd'; packed sequences are named by "
                          "cu_seqlens_q and cu_seqlens_k", layout)
        self.like, self.framework, self.layout = q, framework_of(q), layout
        self.context: Any = None
        self.stream, self.exporter_stream = current_stream(self.framework, q)
        if stream is not None:
            self.stream, self.exporter_stream = stream, stream or 1
        self.waits = stream is None and not orders_by_itself(self.framework)
        self.packed = "cu_seqlens_q" in extras or "cu_seqlens_k" in extras
        self.problem, self.args = zeroed(_abi.Problem), zeroed(_abi.AttnArgs)
        self.problem.op = Op.ATTN_FWD
        self.views = {name: self.view(name, tensor) for name, tensor in
                      (("q", q), ("k", k), ("v", v))}
        self.extras = {name: self.small(name, tensor) for name, tensor in extras.items()}
        self._set_inputs(longest)

    # -- tensors ---------------------------------------------------------------------------------------

    def view(self, name: str, tensor: Any, writes: bool = False) -> View:
        return view(name, tensor, self.exporter_stream, writes)

    def small(self, name: str, tensor: Any) -> View:
        """A list of numbers will do for host memory."""
        if isinstance(tensor, (list, tuple)):
            if self.views["q"].device[0] != CPU:
                raise invalid("%s is a %s, must be a tensor on q's device", name,
                              type(tensor).__name__)
            kind = "fp32" if name in ("alibi_slopes", "sinks") else "int32"
            shape = [len(tensor)]
            if tensor and isinstance(tensor[0], (list, tuple)):
                shape.append(len(tensor[0]))
            tensor = Array(shape, kind, tensor)
        return self.view(name, tensor)

    def attn_tensor(self, name: str) -> Tuple[Tuple[int, int, int, int], "_abi.Tensor"]:
        """(batch, seq, heads, dim) and the C struct of q, k, v or the output."""
        t = self.views[name]
        want = 3 if self.packed else 4
        if len(t.shape) != want:
            raise invalid("%s has shape %s, must have %d dimensions: %s", name, t.shape, want,
                          "[total, head, dim] with cu_seqlens" if self.packed else
                          ", ".join(self.layout))
        if t.shape[-1] > 1 and t.strides[-1] != 1:
            raise invalid("%s has stride %d in its last dimension, must be 1", name, t.strides[-1])
        if t.dtype not in _DTYPES:
            raise invalid("%s is %s, must be %s", name, t.dtype, ", ".join(_DTYPES))
        struct = _abi.Tensor(data=t.pointer)
        if self.packed:
            struct.stride_seq, struct.stride_head = t.strides[:2]
            return (1, t.shape[0], t.shape[1], t.shape[2]), struct
        batch, seq, head = _LAYOUTS[self.layout]
        struct.stride_batch, struct.stride_seq = t.strides[batch], t.strides[seq]
        struct.stride_head = t.strides[head]
        return (t.shape[batch], t.shape[seq], t.shape[head], t.shape[3]), struct

    def _set_inputs(self, longest: Tuple[Optional[int], Optional[int]]) -> None:
        a, p = self.args, self.problem
        (batch, len_q, a.heads_q, dim), a.q = self.attn_tensor("q")
        k_shape, a.k = self.attn_tensor("k")
        v_shape, a.v = self.attn_tensor("v")
        if k_shape[3] != dim:
            raise invalid("k has dim %d, q has %d", k_shape[3], dim)
        if k_shape[:3] != v_shape[:3] or (k_shape[0] != batch):
            raise invalid("k has shape %s and v %s beside q's %s: batch, sequence and heads of k and v "
                          "must agree, batch with q's too", *(self.views[n].shape for n in "kvq"))
        if self.views["k"].dtype != self.views["v"].dtype:
            raise invalid("k is %s and v is %s, must be the same", self.views["k"].dtype,
                          self.views["v"].dtype)
        a.heads_kv, a.len_q, a.len_k, a.batch = k_shape[2], len_q, k_shape[1], batch
        p.dtype_q, p.dtype_kv = _DTYPES[self.views["q"].dtype], _DTYPES[self.views["k"].dtype]
        p.head_dim_qk, p.head_dim_v = dim, v_shape[3]
        if self.packed:
            self._set_packed(longest)

    def _set_packed(self, longest: Tuple[Optional[int], Optional[int]]) -> None:
        a = self.args
        for name in ("cu_seqlens_q", "cu_seqlens_k"):
            if name not in self.extras:
                raise invalid("%s is missing: packed queries and keys need both", name)
        starts = [self.vector(name, "int32") for name in ("cu_seqlens_q", "cu_seqlens_k")]
        if starts[0].shape != starts[1].shape or starts[0].shape[0] < 1:
            raise invalid("cu_seqlens_q has %d and cu_seqlens_k %d elements, must both have batch + 1",
                          starts[0].shape[0], starts[1].shape[0])
        a.batch, a.total_q, a.total_k = starts[0].shape[0] - 1, a.len_q, a.len_k
        if longest[0] is not None:
            a.len_q = longest[0]
        if longest[1] is not None:
            a.len_k = longest[1]
        a.cu_seqlens_q, a.cu_seqlens_k = starts[0].pointer, starts[1].pointer
        self.problem.features |= Feature.VARLEN

    def vector(self, name: str, *dtypes: str) -> View:
        t = self.extras[name]
        if t.dtype not in dtypes or len(t.shape) != 1 or (t.shape[0] > 1 and t.strides[0] != 1):
            raise invalid("%s is %s of shape %s and strides %s, must be %s in one dense dimension", name,
                          t.dtype, t.shape, t.strides, dtypes[0])
        return t

    # -- options ---------------------------------------------------------------------------------------

    def set_mask(self, mask: Optional[str], causal: bool, window: Optional[Sequence[int]],
                 corner: Optional[str]) -> None:
        if corner not in _CORNERS:
            raise invalid("corner is %r, must be 'top_left', 'bottom_right' or None", corner)
        named = "window" if window is not None else "causal" if causal else "none"
        if mask is not None and mask not in _MASKS:
            raise invalid("mask is %r, must be one of %s", mask, ", ".join(_MASKS))
        if mask is not None and (named != "none" or mask == "window") and mask != named:
            raise invalid("mask is %r, but causal=%r and window=%r ask for %r", mask, causal, window,
                          named)
        self.problem.mask = _MASKS[mask or named]
        self.args.corner = _CORNERS[corner]
        if window is not None:
            left, right = window
            self.args.window_left, self.args.window_right = left, 0 if causal else right

    def set_scalars(self, scale: Optional[float], softcap: Optional[float], group: int,
                    pins: Optional[Mapping[str, float]]) -> None:
        if scale is None:
            self.args.flags |= _abi.DEFAULT_SCALE
        else:
            self.args.scale = scale
        if softcap is not None:
            self.problem.features |= Feature.SOFTCAP
            self.args.softcap = softcap
        self.problem.group = group
        if pins:
            self.pins = (_abi.Pin * len(pins))(*(_abi.Pin(name.encode(), value)
                                                 for name, value in pins.items()))
            self.problem.pins, self.problem.pin_count = self.pins, len(pins)

    def set_outputs(self, out: Any, out_dtype: Optional[str], lse: Any,
                    return_lse: bool) -> Tuple[Any, Any]:
        p, a, q = self.problem, self.args, self.views["q"]
        shape = q.shape[:-1] + (p.head_dim_v,)
        if out is None:
            out = empty(self.framework, self.like, shape, out_dtype or q.dtype)
        self.views["out"] = self.view("out", out, writes=True)
        if self.views["out"].shape != shape:
            raise invalid("out has shape %s, must have %s", self.views["out"].shape, shape)
        _, a.o = self.attn_tensor("out")
        p.dtype_out = _DTYPES[self.views["out"].dtype]
        lse_shape = ((a.heads_q, a.total_q) if self.packed else (a.batch, a.heads_q, a.len_q))
        if lse is None and return_lse:
            lse = empty(self.framework, self.like, lse_shape, "fp32")
        if lse is not None:
            t = self.views["lse"] = self.view("lse", lse, writes=True)
            if t.shape != lse_shape or t.dtype != "fp32":
                raise invalid("lse is %s of shape %s, must be fp32 of %s", t.dtype, t.shape, lse_shape)
            a.lse = t.pointer
            a.lse_stride_head, a.lse_stride_seq = t.strides[-2:]
            a.lse_stride_batch = 0 if self.packed else t.strides[0]
        return out, lse

    # -- what the features add -------------------------------------------------------------------------

    def set_extras(self) -> None:
        a, p, extras = self.args, self.problem, self.extras
        for name in ("seqused_q", "seqused_k"):
            if name in extras:
                t = self.vector(name, "int32")
                if t.shape[0] != a.batch:
                    raise invalid("%s has %d elements, batch is %d", name, t.shape[0], a.batch)
                setattr(a, name, t.pointer)
        if "alibi_slopes" in extras:
            self._set_alibi(extras["alibi_slopes"])
        if "sinks" in extras:
            if self.vector("sinks", "fp32").shape[0] != a.heads_q:
                raise invalid("sinks has %d elements, q has %d heads", extras["sinks"].shape[0],
                              a.heads_q)
            a.sinks = extras["sinks"].pointer
            p.features |= Feature.SINK
        if "bias" in extras:
            self._set_bias()
        if "bitmask" in extras:
            self._set_bitmask()
        elif "bitmask_classes" in extras:
            raise invalid("bitmask_classes without bitmask: they are the classes of its blocks")

    def _set_alibi(self, t: View) -> None:
        a = self.args
        if t.dtype != "fp32" or t.shape not in ((a.heads_q,), (a.batch, a.heads_q)) or (
                a.heads_q > 1 and t.strides[-1] != 1):
            raise invalid("alibi_slopes is %s of shape %s, must be fp32 of (%d,) or (%d, %d), its last "
                          "dimension dense", t.dtype, t.shape, a.heads_q, a.batch, a.heads_q)
        a.alibi_slopes = t.pointer
        a.alibi_stride_batch = t.strides[0] if len(t.shape) == 2 else 0
        self.problem.features |= Feature.ALIBI

    def broadcast(self, name: str, dtypes: Sequence[str], extents: Sequence[int]) -> List[int]:
        """Strides for extents, 0 where the tensor has extent 1 or no such dimension."""
        t = self.extras[name]
        missing = len(extents) - len(t.shape)
        shape, strides = (1,) * missing + t.shape, (0,) * missing + t.strides
        fits = missing >= 0 and all(have in (1, want) for have, want in zip(shape, extents))
        if t.dtype not in dtypes or not fits:
            raise invalid("%s is %s of shape %s, must be %s that broadcasts to %s", name, t.dtype, t.shape,
                          " or ".join(dtypes), tuple(extents))
        return [0 if have == 1 else stride for have, stride in zip(shape, strides)]

    def _set_bias(self) -> None:
        a = self.args
        strides = self.broadcast("bias", [self.views["q"].dtype],
                                 (a.batch, a.heads_q, a.len_q, a.len_k))
        a.bias = self.extras["bias"].pointer
        (a.bias_stride_batch, a.bias_stride_head, a.bias_stride_q, a.bias_stride_k) = strides
        self.problem.features |= Feature.BIAS

    def _set_bitmask(self) -> None:
        a = self.args
        words = -(-a.len_k // 32)
        strides = self.broadcast("bitmask", ("uint32", "int32"), (a.batch, a.heads_q, a.len_q, words))
        if words > 1 and strides[3] != 1:
            raise invalid("bitmask has stride %d from word to word, must be 1", strides[3])
        a.bitmask = self.extras["bitmask"].pointer
        a.bitmask_stride_batch, a.bitmask_stride_head, a.bitmask_stride_q = strides[:3]
        self.problem.features |= Feature.BITMASK
        if "bitmask_classes" not in self.extras:
            return
        block = _abi.BITMASK_BLOCK
        blocks = (-(-a.len_q // block), -(-a.len_k // block))
        strides = self.broadcast("bitmask_classes", ["uint8"], (a.batch, a.heads_q) + blocks)
        if blocks[1] > 1 and strides[3] != 1:
            raise invalid("bitmask_classes has stride %d from block to block, must be 1", strides[3])
        a.bitmask_classes = self.extras["bitmask_classes"].pointer
        (a.bitmask_classes_stride_batch, a.bitmask_classes_stride_head,
         a.bitmask_classes_stride_q) = strides[:3]

    # -- launch ----------------------------------------------------------------------------------------

    def set_alignment(self) -> None:
        """16-byte rows where all four tensors have them: strides count where there is more than one."""
        for name in ("q", "k", "v", "out"):
            t, item = self.views[name], ITEM_BYTES[self.views[name].dtype]
            rows = [t.pointer, t.shape[-1] * item] + [
                stride * item for extent, stride in zip(t.shape[:-1], t.strides) if extent > 1]
            if any(place % 16 for place in rows):
                self.problem.align = Align.ELEM

    def launch(self) -> None:
        a, p, context = self.args, self.problem, self.context
        for name, t in list(self.views.items()) + list(self.extras.items()):
            if not context.accepts(t.device):
                raise invalid("%s is on DLPack device %s, the context is on %s", name, t.device,
                              context.device_name or "none")
        p.batch, p.heads_q, p.heads_kv, p.len_q, p.len_k = (a.batch, a.heads_q, a.heads_kv, a.len_q,
                                                            a.len_k)
        program = context.prepare(p)
        a.workspace_bytes = context.workspace_bytes(program, a)
        scratch = self._workspace(a.workspace_bytes)
        context.launch(program, a, self.stream)
        if self.waits and not context.on_cpu:
            context.synchronize()
        del scratch  # frameworks give memory back in the order of the stream

    def _workspace(self, size: int) -> Any:
        if not size:
            return None
        on_host = self.views["q"].device[0] == CPU
        scratch = Array((size,), "uint8") if on_host else empty(
            self.framework, self.like, (size + ALIGNMENT,), "uint8")
        start = self.view("workspace", scratch, writes=True).pointer
        self.args.workspace = start + -start % ALIGNMENT
        return scratch


def bitmask_classes(bits: Any, keys: int) -> Array:
    """Block classes of one head's bit mask, on the host: bits is a dense host tensor of words
    [queries, ceil(keys / 32)]; the result is uint8 [ceil(queries / 64), ceil(keys / 64)]."""
    from ._library import check, library
    t = view("bits", bits)
    if t.device[0] != CPU or t.dtype not in ("uint32", "int32") or len(t.shape) != 2 or (
            t.shape[1] != -(-keys // 32) or (t.shape[1] > 1 and t.strides[1] != 1)):
        raise invalid("bits is %s of shape %s, must be uint32 words on the host, (queries, %d)", t.dtype,
                      t.shape, -(-keys // 32))
    block = _abi.BITMASK_BLOCK
    classes = Array((-(-t.shape[0] // block), -(-keys // block)), "uint8")
    check(library().attune_bitmask_classes(t.pointer, t.strides[0], t.shape[0], keys, classes.pointer))
    return classes
