#!/usr/bin/env python3
"""attune and its peers on one NVIDIA GPU, timed side by side in one interleaved run; the benchmarks that issues quote.

  attune     through its C library (runtime/python), JIT or a set; O and no LSE, as the peers in inference
  cudnn      PyTorch SDPA, cuDNN backend, contiguous [batch, head, seq, dim]
  cudnn_t    the same over [batch, seq, head, dim] memory, which all others have (and most callers)
  fa2        PyTorch SDPA, FlashAttention-2 backend
  fa3, fa4   FlashAttention-3 (PyPI fa3-fwd: no window) and FlashAttention-4 (PyPI flash-attn-4)
  flex       PyTorch FlexAttention, compiled

  fwd        d 64, 128, 256, full and causal, S 512 .. 16384: 16k tokens, hidden 2048
  gqa        32 query heads over 8, d 128, the same lengths; attune's better of group 1 and 4 (attune_name says which)
  short      vision and encoder shapes; window: (W, 0); mla: 192/128
  fwd-mma    family mma alone against FA2: d 64, 128, S 1024 .. 16384
  varlen-gqa-window   attune against itself: time per computed tile, against a dense launch of as many tiles
  dtype      attune in fp16 beside attune in bf16

bf16, random normal. FLOPs 2 (d_qk + d_v) per visible pair. How a cell is timed: peers/timing.py; ratio and interval:
peers/paired.py. A run without FA3 or FA4 says so and is void for bars that name them (void in the file).

attune's libraries and program: ATTUNE_LIBRARY_PATH, else build/.

  tests/bench/peers.py [--out DIR] [--rounds N] [--ms MS] [--set DIR] [--family F] SECTION ...
"""
import argparse
import datetime
import json
import os
import re
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import contenders  # noqa: E402
import cost        # noqa: E402
import paired      # noqa: E402
import timing      # noqa: E402
import torch       # noqa: E402

TOKENS = 16384
# peers without which a section is void; else both
NEEDS = {"fwd-mma": set(), "varlen-gqa-window": set(), "window": {"fa4"}, "dtype": set()}
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


def rnd(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def pairs(s, causal=False, window=None):
    """Visible pairs of a head."""
    if window is not None:
        return sum(min(i + 1, window + 1) for i in range(s))
    return s * (s + 1) // 2 if causal else s * s


class Section:
    """Rows of one section, written after each cell, so that a run that is cut short keeps what it has."""

    def __init__(self, name, options, library):
        self.name, self.options, self.library, self.rows = name, options, library, []
        gpu = re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower().replace("nvidia", "")).strip("-")
        self.path = os.path.join(options.out, f"{gpu}-{name}.json")
        self.head = {"section": name, "gpu": torch.cuda.get_device_name(), "date": datetime.date.today().isoformat(),
                     "versions": contenders.versions(), "missing": contenders.missing,
                     "void": sorted(set(contenders.missing) & NEEDS.get(name, {"fa3", "fa4"})), "method": paired.METHOD,
                     "options": {k: v for k, v in vars(options).items() if k in ("rounds", "ms", "set", "family")},
                     "clocks_before": contenders.clocks()}

    def add(self, row):
        self.rows.append(row)
        print(json.dumps({k: v for k, v in row.items() if k != "times_us"}), flush=True)
        with open(self.path, "w", encoding="utf-8") as f:
            json.dump({**self.head, "clocks_after": contenders.clocks(), "summary": paired.summary(self.rows), "rows": self.rows},
                      f, indent=1)
            f.write("\n")

    def dense(self, D, S, B, H, causal, HK=None, DV=None, peers=("cudnn", "cudnn_t", "fa2", "fa3", "fa4"), copies=2):
        """A cell without window."""
        row = {"kind": self.name, "D": D, "S": S, "B": B, "H": H, "causal": causal}
        row.update({name: value for name, value in (("HK", HK), ("DV", DV)) if value})
        HK, DV, inputs = HK or H, DV or D, {}
        groups = (1,) if HK == H else (1, H // HK)

        def make(i):
            q, k, v = rnd(B, S, H, D), rnd(B, S, HK, D), rnd(B, S, HK, DV)
            inputs.setdefault(0, (q, k, v, -1, 0 if causal else -1))
            calls = contenders.dense_peers(q, k, v, causal, peers)
            return {**self._attune(row, q, k, v, groups, causal=causal), **calls}

        work = 2 * B * H * pairs(S, causal) * (D + DV)
        self.add(timing.measure(row, make, copies, lambda: inputs[0], work, ("attune", "attune_group"), self.options))

    def window(self, D, S, B, H, left):
        inputs, row = {}, {"kind": self.name, "D": D, "S": S, "B": B, "H": H, "W": left}

        def make(i):
            q, k, v = (rnd(B, S, H, D) for _ in range(3))
            inputs.setdefault(0, (q, k, v, left, 0))
            return {**self._attune(row, q, k, v, (1,), window=(left, 0)), **contenders.window_peers(q, k, v, left)}

        work = 4 * B * H * pairs(S, window=left) * D
        self.add(timing.measure(row, make, 2, lambda: inputs[0], work, ("attune",), self.options))

    def _attune(self, row, q, k, v, groups, **mask):
        """attune's calls, their kernels named in the row; one that is refused becomes a call that raises the reason, so that the row has it."""
        out = {}
        for group in groups:
            name = "attune" if group == 1 else "attune_group"
            try:
                out[name] = contenders.attune(self.library, q, k, v, group=group, **mask)
                row[name + "_kernel"] = out[name].kernels[0]
            except Exception as error:
                out[name] = raiser(error)
        return out


def raiser(error):
    def call():
        raise error
    return call


# ---- sections ----------------------------------------------------------------------------------------------------------------

def fwd(section):
    for D in (64, 128, 256):
        for causal in (False, True):
            for S in LENGTHS:
                section.dense(D, S, TOKENS // S, 2048 // D, causal)


def gqa(section):
    for causal in (False, True):
        for S in LENGTHS:
            section.dense(128, S, TOKENS // S, 32, causal, HK=8)


def short(section):
    for D, S, B, H in ((64, 197, 64, 12), (64, 77, 128, 12), (32, 128, 256, 12), (64, 577, 32, 16), (80, 1500, 8, 16), (72, 729, 32, 16)):
        section.dense(D, S, B, H, False, copies=6)


def window(section):
    for D, S, W in ((64, 8192, 128), (64, 32768, 128), (128, 8192, 128), (128, 8192, 1024), (128, 32768, 4096)):
        section.window(D, S, max(1, TOKENS // S), 2048 // D, W)


def mla(section):
    for S in (1024, 4096, 16384):
        for causal in (True, False):
            section.dense(192, S, TOKENS // S, 16, causal, DV=128, peers=("cudnn_t", "fa3", "fa4"))


def fwd_mma(section):
    for D in (64, 128):
        for causal in (False, True):
            for S in LENGTHS[1:]:
                section.dense(D, S, TOKENS // S, 2048 // D, causal, peers=("fa2",))


# ---- fp16 beside bf16 --------------------------------------------------------------------------------------------------------

def dtype(section):
    """ratio: speed in fp16 over speed in bf16, of the same tensors rounded to each; the bar is 0.97. fp16 draws more power,
    and the clock gives way. No peer: FA3's wheel has no fp16."""
    for D in (64, 128, 256):
        for causal in (False, True):
            for S in (512, 4096):
                dtype_cell(section, D, S, TOKENS // S, 2048 // D, causal)


def dtype_cell(section, D, S, B, H, causal):
    inputs, row = {}, {"kind": "dtype", "D": D, "S": S, "B": B, "H": H, "causal": causal}

    def make(i):
        single, calls = [torch.randn(B, S, H, D, device="cuda") for _ in range(3)], {}
        for name, kind in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
            q, k, v = (x.to(kind) for x in single)
            inputs.setdefault(0, (q, k, v, -1, 0 if causal else -1))
            calls[name] = contenders.attune(section.library, q, k, v, causal=causal)
            row[name + "_kernel"] = calls[name].kernels[0]
        return calls

    section.add(timing.measure(row, make, 2, lambda: inputs[0], 4 * B * H * pairs(S, causal) * D, ("fp16",), section.options))


# ---- cost of a tile ----------------------------------------------------------------------------------------------------------

def packed(lengths, H, HK, D):
    cu = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device="cuda")
    total = sum(lengths)
    return rnd(total, H, D), rnd(total, HK, D), rnd(total, HK, D), (cu, max(lengths))


def dense_call(library, B, SQ, SK, H, D):
    q, k, v = rnd(B, SQ, H, D), rnd(B, SK, H, D), rnd(B, SK, H, D)
    call = contenders.attune(library, q, k, v)
    return call, B * H * cost.tiles(SQ, SK, *call.tile)


def varlen_call(section, lengths, H, D):
    q, k, v, cu = packed(lengths, H, H, D)
    call = contenders.attune_packed(section.library, q, k, v, *cu)
    return call, H * sum(cost.tiles(n, n, *call.tile) for n in lengths)


def group_call(section, B, S, H, HK, D):
    q, k, v = rnd(B, S, H, D), rnd(B, S, HK, D), rnd(B, S, HK, D)
    call = contenders.attune(section.library, q, k, v, group=H // HK)
    return call, B * HK * cost.tiles(S * (H // HK), S, *call.tile)


def window_call(section, B, S, H, D, left):
    q, k, v = (rnd(B, S, H, D) for _ in range(3))
    call = contenders.attune(section.library, q, k, v, window=(left, 0))
    return call, B * H * cost.tiles(S, S, *call.tile, left, 0)


def same_tile(section, call, D):
    """A library whose dense kernel has the tile of the call's."""
    pins = contenders.tile_pins(call.kernels[0])
    spec = f"{{version: 1, op: attn_fwd, arch: {section.library.arch}, dtype: bf16, head_dim: {D}, {pins}}}\n"
    return contenders.open_attune([contenders.build_set(spec)])


def varlen_gqa_window(section):
    """ratio: a tile's time in the dense launch of the same tile over its time here, in the kernel that attune takes for the problem;
    1 is no extra cost, the bar is 1 / 1.15."""
    mixed = [128 * n for n in (1, 31, 8, 3, 16, 2, 24, 5, 12, 26)]  # 16384 rows in all
    for D in (64, 128):
        H = 2048 // D
        square = (8, 2048, 2048)
        cost_cell(section, "varlen equal", D, lambda: varlen_call(section, [2048] * 8, H, D), square)
        cost_cell(section, "varlen mixed", D, lambda: varlen_call(section, mixed, H, D), (6, 2688, 2688))  # 2.6 % fewer tiles
        cost_cell(section, "gqa packed 4", D, lambda: group_call(section, 8, 2048, H, H // 4, D), square)
        for W in (256, 1024, 4096):
            cost_cell(section, f"window {W}", D, lambda: window_call(section, 1, TOKENS, H, D, W), None)


def window_as_dense(call, tiles, H):
    """A dense shape whose rows of blocks have as many tiles as the window's have."""
    block_m, block_n = call.tile
    rows = H * -(-TOKENS // block_m)
    return 1, TOKENS, block_n * max(1, round(tiles / rows))


def cost_cell(section, what, D, ours, dense_shape):
    H = 2048 // D
    row, options = {"kind": "cost", "what": what, "D": D, "H": H}, section.options
    try:
        call, tiles = ours()
        shape = dense_shape or window_as_dense(call, tiles, H)
        base, base_tiles = dense_call(same_tile(section, call, D), *shape, H, D)
        row.update(kernel=call.kernels[0], dense_kernel=base.kernels[0], tiles=tiles, dense_tiles=base_tiles)
        ready = {"attune": timing.Timed([call]), "dense": timing.Timed([base])}
        times = timing.rounds_of(ready, options.rounds, options.ms)
    except Exception as error:
        section.add({**row, "attune_err": repr(error)[:240]})
        return
    pairs_of = {"attune": tiles * call.tile[0] * call.tile[1], "dense": base_tiles * base.tile[0] * base.tile[1]}
    per = {name: [t / pairs_of[name] for t in times[name]] for name in times}
    row["attune_us"], row["dense_us"] = (round(paired.median(times[n]) * 1e3, 3) for n in ("attune", "dense"))
    row["attune"], row["best_peer"] = (round(1e-6 / paired.median(per[n]), 3) for n in ("attune", "dense"))
    row["unit"], row["best_name"], row["rounds"] = "pairs of tiles/ns", "dense", options.rounds
    row["ratio"], row["ratio_lo"], row["ratio_hi"] = (round(x, 4) for x in paired.ratio(per["dense"], per["attune"]))
    row["times_us"] = {n: [round(x * 1e3, 3) for x in t] for n, t in times.items()}
    section.add(row)


# ---- the run -----------------------------------------------------------------------------------------------------------------

SECTIONS = {"fwd": fwd, "gqa": gqa, "short": short, "window": window, "mla": mla, "fwd-mma": fwd_mma,
            "varlen-gqa-window": varlen_gqa_window, "dtype": dtype}


def forced(family):
    """The spec of a section's variants in one family."""
    return (f"version: 1\nop: attn_fwd\narch: native\ndtype: bf16\nhead_dim: [64, 128]\nmask: [none, causal, window]\nfamily: {family}\n")


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("sections", nargs="+", choices=list(SECTIONS), metavar="SECTION")
    ap.add_argument("--out", default=os.environ.get("OUT") or os.path.join(HERE, "results"), help="folder of the results")
    ap.add_argument("--rounds", type=int, default=11)
    ap.add_argument("--ms", type=float, default=20, help="least milliseconds of a sample")
    ap.add_argument("--set", help="a set folder that attune looks in before it compiles")
    ap.add_argument("--family", help="attune's kernels of this family alone (d 64 and 128)")
    return ap.parse_args()


def run(name, options):
    family = "mma" if name == "fwd-mma" else options.family
    sets = ([options.set] if options.set else []) + ([contenders.build_set(forced(family))] if family else [])
    library = contenders.open_attune(sets)
    section = Section(name, options, library)
    print("#", name, json.dumps(section.head), flush=True)
    started, whole = time.time(), True
    try:
        SECTIONS[name](section)
    except Exception:  # the other sections still run
        traceback.print_exc()
        whole = False
    torch.cuda.synchronize()
    library.close()
    print(f"# {name}: {json.dumps(paired.summary(section.rows))}; {time.time() - started:.0f} s; {section.path}", flush=True)
    return whole and all("ratio" in row for row in section.rows)


def main():
    options = arguments()
    os.makedirs(options.out, exist_ok=True)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, why in contenders.missing.items():
        print(f"# MISSING {name}: {why}", flush=True)
    done = [run(name, options) for name in options.sections]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
