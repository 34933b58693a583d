"""The contenders: attune through its C library, and the peers that are installed, behind one kind of call.

Input: q, k, v as [batch, seq, head, dim]. Output: name -> callable that returns O in the same layout. A peer that cannot be
imported is named in `missing`. What they are given and how they are timed is left to peers.py and timing.py.
"""
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile

import attune_calls
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

missing = {}
try:
    from fa3_fwd_interface import flash_attn_func as fa3
except Exception as error:
    fa3, missing["fa3"] = None, repr(error)[:200]
try:
    from flash_attn.cute.interface import flash_attn_func as fa4
except Exception as error:
    fa4, missing["fa4"] = None, repr(error)[:200]
try:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
except Exception as error:
    flex_attention, missing["flex"] = None, repr(error)[:200]

PROGRAM = os.path.join(attune_calls.BUILD, "attune")
PACKAGES = {"fa3": "fa3-fwd", "fa4": "flash-attn-4", "cutlass_dsl": "nvidia-cutlass-dsl", "triton": "triton"}


def _t(x):
    return x.transpose(1, 2)


def _first(result):  # the FA functions return a tensor or a tuple by version
    return result[0] if isinstance(result, tuple) else result


def _sdpa(backend, q, k, v, causal):
    """Heads before sequence."""
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


# ---- peers -------------------------------------------------------------------------------------------------------------------

def cudnn(q, k, v, causal):
    """cuDNN on its favourite layout, contiguous [batch, head, seq, dim]."""
    qh, kh, vh = (_t(x).contiguous() for x in (q, k, v))
    return lambda: _t(_sdpa(SDPBackend.CUDNN_ATTENTION, qh, kh, vh, causal))


def cudnn_t(q, k, v, causal):
    """cuDNN over the memory that the others have."""
    return lambda: _t(_sdpa(SDPBackend.CUDNN_ATTENTION, _t(q), _t(k), _t(v), causal))


def fa2(q, k, v, causal):
    return lambda: _t(_sdpa(SDPBackend.FLASH_ATTENTION, _t(q), _t(k), _t(v), causal))


def dense_peers(q, k, v, causal, names=("cudnn", "cudnn_t", "fa2", "fa3", "fa4")):
    calls = {"cudnn": cudnn, "cudnn_t": cudnn_t, "fa2": fa2}
    out = {name: calls[name](q, k, v, causal) for name in names if name in calls}
    if fa3 and "fa3" in names:
        out["fa3"] = lambda: _first(fa3(q, k, v, causal=causal))
    if fa4 and "fa4" in names:
        out["fa4"] = lambda: _first(fa4(q, k, v, causal=causal))
    return out


_flex = {}


def window_peers(q, k, v, left):
    """(left, 0). FA3's wheel has no window; PyTorch's other backends have none either."""
    out = {}
    if fa4:
        out["fa4"] = lambda: _first(fa4(q, k, v, causal=False, window_size=(left, 0)))
    if flex_attention:
        if "compiled" not in _flex:
            _flex["compiled"] = torch.compile(flex_attention, dynamic=False)
        s, compiled, key = q.shape[1], _flex["compiled"], (q.shape[1], left)
        if key not in _flex:
            _flex[key] = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j <= left), None, None, s, s)
        out["flex"] = lambda: _t(compiled(_t(q), _t(k), _t(v), block_mask=_flex[key]))
    return out


# ---- attune ------------------------------------------------------------------------------------------------------------------

def open_attune(sets=()):
    return attune_calls.Library(0, sets=sets, message=lambda level, text: print("attune:", text, file=sys.stderr))


def build_set(spec):
    """A set of exactly the spec's kernels for this GPU, by `attune build`; its folder."""
    folder = tempfile.mkdtemp(prefix="attune-peers-")
    path = os.path.join(folder, "spec.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(spec)
    out = os.path.join(folder, "set")
    subprocess.run([PROGRAM, "build", path, "-o", out], check=True, stdout=sys.stderr)
    return out


def tile_pins(kernel):
    """ "family: F, tile: {...}" of a kernel, from the spec line in its data sheet."""
    text = subprocess.run([PROGRAM, "emit", kernel], check=True, capture_output=True, text=True).stdout
    return re.search(r"family: \w+, tile: \{[^}]*\}", text)[0]


def attune(library, q, k, v, causal=False, window=None, group=1):
    o = torch.empty(*q.shape[:3], v.shape[3], device=q.device, dtype=q.dtype)
    return attune_calls.Call(library, q, k, v, o, causal=causal, window=window, group=group,
                             corner="bottom_right" if causal or window else None)


def attune_packed(library, q, k, v, cu, longest):
    """[total, head, dim], sequences one behind the other."""
    return attune_calls.Call(library, q, k, v, torch.empty_like(q), cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=longest,
                             max_seqlen_k=longest)


# ---- versions ----------------------------------------------------------------------------------------------------------------

def _output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=attune_calls.ROOT, timeout=30, check=False).stdout.strip()
    except OSError:
        return ""


def _package(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions():
    try:
        nvrtc = json.loads(_output(PROGRAM, "doctor", "--json"))["nvrtc"]["version"]
    except (ValueError, KeyError):
        nvrtc = None
    commit = os.environ.get("ATTUNE_COMMIT") or _output("git", "describe", "--always", "--dirty", "--exclude=*")
    return {"attune": attune_calls.attune.__version__, "commit": commit or None, "nvrtc": nvrtc,
            "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0] or None,
            **{key: _package(name) for key, name in PACKAGES.items()}}


def clocks():
    """SM clock, memory clock, power, temperature, throttle reasons: "1980 MHz, 3201 MHz, 120.10 W, 35, 0x0000000000000000"."""
    return _output("nvidia-smi", "--format=csv,noheader",
                   "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_throttle_reasons.active").split("\n")[0] or None
