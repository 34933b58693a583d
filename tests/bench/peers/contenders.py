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

import attune_c
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

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
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

def open_attune(build, sets=()):
    return attune_c.Attune(build, os.path.join(ROOT, "runtime"), sets=sets, say=lambda text: print("attune:", text, file=sys.stderr),
                           stream=lambda: torch.cuda.current_stream().cuda_stream)


def build_set(build, spec):
    """A set of exactly the spec's kernels for this GPU, by `attune build`; its folder."""
    folder = tempfile.mkdtemp(prefix="attune-peers-")
    path = os.path.join(folder, "spec.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(spec)
    out = os.path.join(folder, "set")
    subprocess.run([os.path.join(build, "attune"), "build", path, "-o", out], check=True, stdout=sys.stderr)
    return out


def tile_pins(build, kernel):
    """ "family: F, tile: {...}" of a kernel, from the spec line in its data sheet."""
    text = subprocess.run([os.path.join(build, "attune"), "emit", kernel], check=True, capture_output=True, text=True).stdout
    return re.search(r"family: \w+, tile: \{[^}]*\}", text)[0]


def attune(library, q, k, v, causal=False, window=None, group=1, lse=False):
    o = torch.empty(*q.shape[:3], v.shape[3], device=q.device, dtype=q.dtype)
    stats = torch.empty(q.shape[0], q.shape[2], q.shape[1], device=q.device, dtype=torch.float32) if lse else None
    mask = "window" if window else "causal" if causal else "none"
    return library.forward(q, k, v, o, mask=mask, window=window or (-1, -1), group=group, lse=stats)


# ---- versions ----------------------------------------------------------------------------------------------------------------

def _output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=30, check=False).stdout.strip()
    except OSError:
        return ""


def _package(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions(build, library):
    try:
        nvrtc = json.loads(_output(os.path.join(build, "attune"), "doctor", "--json"))["nvrtc"]["version"]
    except (ValueError, KeyError):
        nvrtc = None
    return {"attune": library.version, "commit": os.environ.get("ATTUNE_COMMIT") or _output("git", "rev-parse", "--short", "HEAD") or None,
            "nvrtc": nvrtc, "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0] or None,
            **{key: _package(name) for key, name in PACKAGES.items()}}


def clocks():
    """SM clock, memory clock, power, temperature, throttle reasons: "1980 MHz, 3201 MHz, 120.10 W, 35, 0x0000000000000000"."""
    return _output("nvidia-smi", "--format=csv,noheader",
                   "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_throttle_reasons.active").split("\n")[0] or None
