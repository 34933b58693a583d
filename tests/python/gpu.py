"""gpu.py - the Python binding on an NVIDIA GPU against PyTorch: the same cases as test_attune.py, and what
only a GPU has: streams, CUDA graphs, threads. Every case is one line; closes with "N passed, N failed".

    python3 tests/python/gpu.py        needs PyTorch with CUDA, build/libattune*.so.0 and NVRTC

The bound of a case: twice the error of standard attention, computed by PyTorch in the same dtype, plus
one unit in the last place at max|O| (fp32: and 8 at max|V|), both against the same in float64. A case whose kernel is not
generated yet is named and counted as neither."""
import math
import os
import sys
import threading

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))

import torch  # noqa: E402
import attune  # noqa: E402

DEVICE = torch.device("cuda", 0)
KINDS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
passed, failed, not_run = [], [], []


def made(shape, kind, seed):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=DEVICE).to(kind)


def diagonal(len_q, len_k, corner):
    rows = torch.arange(len_q, device=DEVICE)[:, None]
    columns = torch.arange(len_k, device=DEVICE)[None, :]
    return columns - rows - (len_k - len_q if corner == "bottom_right" else 0)


def kept(len_q, len_k, options):
    """The pairs that causal and window keep."""
    distance = diagonal(len_q, len_k, options.get("corner"))
    left, right = options.get("window") or (-1, -1)
    if options.get("causal"):
        right = 0
    inside = torch.ones_like(distance, dtype=torch.bool)
    if left >= 0:
        inside &= distance >= -left
    if right >= 0:
        inside &= distance <= right
    return inside


def standard(q, k, v, options, keep=None):
    """Standard attention in q's dtype, float64 for the truth: BSHD -> (O, LSE [b, h, s])."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scale = options.get("scale")
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if options.get("softcap"):
        scores = torch.tanh(scores / options["softcap"]) * options["softcap"]
    if options.get("bias") is not None:
        scores = scores + options["bias"].to(scores.dtype)
    if options.get("alibi_slopes") is not None:
        slopes = options["alibi_slopes"].to(scores.dtype)
        slopes = slopes.reshape(-1, slopes.shape[-1], 1, 1)
        scores = scores - slopes * diagonal(q.shape[2], k.shape[2], options.get("corner")).abs()
    inside = kept(q.shape[2], k.shape[2], options)
    inside = inside if keep is None else inside & keep
    scores = scores.masked_fill(~inside, -math.inf)
    if options.get("sinks") is not None:
        sink = options["sinks"].to(scores.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], -1)
    lse = torch.logsumexp(scores.double(), -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)[..., :v.shape[2]]
    return (weights @ v).transpose(1, 2), lse


def largest(t):
    return t.abs().max().item() if t.numel() else 0.0


def lse_bound(q, k, scale):
    """Absolute, as `attune verify` has it: LSE is fp32 arithmetic on exact inputs, whatever their dtype."""
    norms = [t.double().norm(dim=-1).max().item() if t.numel() else 0.0 for t in (q, k)]
    scale = q.shape[-1] ** -0.5 if scale is None else abs(scale)
    return 2.0 ** -23 * ((q.shape[-1] + 8) * scale * norms[0] * norms[1] + k.shape[1] + 24)


def out_bound(truth, rough, v):
    """As `attune verify` has it."""
    ulp = torch.finfo(v.dtype).eps
    bound = 2 * largest(rough.double() - truth) + ulp * largest(truth)
    return bound + 8 * ulp * largest(v) if v.dtype == torch.float32 else bound


def verdict(name, found, lse, truth, true_lse, bounds):
    error = (found.double() - truth).abs().max().item()
    same = torch.isinf(true_lse) & (lse == true_lse)
    lse_error = (lse.double() - true_lse).masked_fill(same, 0).abs().max().item()
    right = error <= bounds[0] and lse_error <= bounds[1]  # NaN is not
    (passed if right else failed).append(name)
    print("%s  %-44s max|err| %.2e, bound %.2e; lse %.1e, bound %.1e" % (
        "pass" if right else "FAIL", name, error, bounds[0], lse_error, bounds[1]), flush=True)


def case(name, call):
    """call() -> (found, lse, truth, true_lse, (bound, bound of lse))."""
    try:
        verdict(name, *call())
    except Exception as error:  # a failure like any other: the cases after it still run
        if getattr(error, "status", None) == attune.Status.UNSUPPORTED:
            not_run.append(name)
            print("      %-44s not run: %s" % (name, error), flush=True)
        else:
            failed.append(name)
            print("FAIL  %-44s %s" % (name, error), flush=True)


def inputs(kind, batch=2, len_q=200, len_k=200, heads_q=4, heads_kv=4, dim=64, dim_v=None, seed=0):
    shapes = ((batch, len_q, heads_q, dim), (batch, len_k, heads_kv, dim),
              (batch, len_k, heads_kv, dim_v or dim))
    return [made(shape, KINDS[kind], seed + i) for i, shape in enumerate(shapes)]


def answers(q, k, v, options, keep=None):
    truth, true_lse = standard(q.double(), k.double(), v.double(), options, keep)
    rough, _ = standard(q, k, v, options, keep)
    return truth, true_lse, (out_bound(truth, rough, v), lse_bound(q, k, options.get("scale")))


def run(kind, options, shape=None, **extra):
    q, k, v = inputs(kind, **(shape or {}))
    keep = extra.pop("keep", None)
    out, lse = attune.attention(q, k, v, return_lse=True, **options, **extra)
    return (out, lse) + answers(q, k, v, options, keep)


def dense_cases():
    corners = {"len_q": 100, "len_k": 333}
    table = (
        ("dense", {}, {}),
        ("dense 1000 x 777", {}, {"len_q": 1000, "len_k": 777}),
        ("dense d128", {}, {"dim": 128}),
        ("causal", {"causal": True}, {}),
        ("causal top left", {"causal": True, "corner": "top_left"}, corners),
        ("causal bottom right", {"causal": True, "corner": "bottom_right"}, corners),
        ("rows that see nothing", {"causal": True, "corner": "bottom_right"},
         {"len_q": 300, "len_k": 70}),
        ("gqa 8 / 2", {"causal": True}, {"heads_q": 8, "heads_kv": 2}),
        ("window 64, 16", {"window": (64, 16)}, {"len_q": 500, "len_k": 500}),
        ("window -1, 5", {"window": (-1, 5)}, {}),
        ("scale 0", {"scale": 0.0}, {}),
        ("scale 0.3", {"scale": 0.3}, {}),
        ("softcap", {"softcap": 20.0, "causal": True}, {}),
        ("one query", {}, {"len_q": 1, "len_k": 1500}),
        ("dims 64 / 32", {}, {"dim_v": 32}),
    )
    for kind in KINDS:
        for name, options, shape in table:
            case("%s %s" % (kind, name), lambda: run(kind, options, shape))


def feature_cases():
    for kind in ("fp32", "bf16"):
        slopes = torch.rand(4, device=DEVICE)
        case(kind + " alibi", lambda: run(kind, {"alibi_slopes": slopes, "causal": True,
                                                 "corner": "top_left"}))
        by_batch = torch.rand(2, 4, device=DEVICE)
        case(kind + " alibi [b, h]", lambda: run(kind, {"alibi_slopes": by_batch}))
        for shape in ((2, 4, 200, 200), (4, 1, 200), (200, 1)):
            bias = made(shape, KINDS[kind], 7)
            case("%s bias %s" % (kind, shape), lambda: run(kind, {"bias": bias}))
        sinks = torch.randn(4, device=DEVICE)
        case(kind + " sinks", lambda: run(kind, {"sinks": sinks, "causal": True}))
        case(kind + " group 4", lambda: run(kind, {}, {"heads_q": 8, "heads_kv": 2}, group=4))
        case(kind + " bitmask", lambda: bitmask(kind))
        case(kind + " head dim 40", lambda: run(kind, {}, {"dim": 40}))
        case(kind + " head dim 7", lambda: run(kind, {}, {"dim": 7}))
    case("bf16 in, fp32 out", lambda: run("bf16", {}, out_dtype="fp32"))
    case("pins", lambda: run("bf16", {"window": (64, 0)},
                             pins={"window_left": 64, "window_right": 0}))


def bitmask(kind):
    keep = torch.rand(200, 200, device=DEVICE) < 0.5
    keep[:64, :64], keep[64:128, 64:128] = True, False
    padded = torch.nn.functional.pad(keep, (0, 24)).view(200, 7, 32).to(torch.int64)
    words = (padded << torch.arange(32, device=DEVICE)).sum(-1).to(torch.int32)
    classes = attune.bitmask_classes(words.cpu(), 200)
    on_device = torch.tensor(classes.tolist(), dtype=torch.uint8, device=DEVICE)
    return run(kind, {}, keep=keep, bitmask=words, bitmask_classes=on_device)


def lengths_cases():
    for kind in ("fp32", "fp16", "bf16"):
        case(kind + " seqused_k", lambda: used_keys(kind))
        case(kind + " varlen", lambda: varlen(kind))


def used_keys(kind):
    q, k, v = inputs(kind, batch=3)
    used = [200, 1, 77]
    for t in (k, v):
        for b, length in enumerate(used):
            t[b, length:] = math.nan  # never to be seen
    out, lse = attune.attention(q, k, v, return_lse=True,
                                seqused_k=torch.tensor(used, dtype=torch.int32, device=DEVICE))
    parts = [answers(q[b:b + 1], k[b:b + 1, :n], v[b:b + 1, :n], {}) for b, n in enumerate(used)]
    return (out, lse, torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]),
            [max(pair) for pair in zip(*(p[2] for p in parts))])


def varlen(kind):
    lengths = ((17, 40), (0, 9), (130, 130), (64, 0), (1, 300))
    starts = [[0], [0]]
    for pair in lengths:
        for side in (0, 1):
            starts[side].append(starts[side][-1] + pair[side])
    q = made((starts[0][-1], 4, 64), KINDS[kind], 1)
    k, v = (made((starts[1][-1], 2, 64), KINDS[kind], seed) for seed in (2, 3))
    options = {"causal": True, "corner": "bottom_right"}
    cu_q, cu_k = (torch.tensor(s, dtype=torch.int32, device=DEVICE) for s in starts)
    out, lse = attune.attention(q, k, v, return_lse=True, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k,
                                max_seqlen_q=130, max_seqlen_k=300, **options)
    truth, true_lse = torch.empty_like(out).double(), torch.empty_like(lse).double()
    bounds = (0.0, 0.0)
    for b in range(len(lengths)):
        rows, keys = slice(*starts[0][b:b + 2]), slice(*starts[1][b:b + 2])
        if rows.start == rows.stop:
            continue
        o, l, one = answers(q[None, rows], k[None, keys], v[None, keys], options)
        truth[rows], true_lse[:, rows] = o[0], l[0]
        bounds = [max(pair) for pair in zip(bounds, one)]
    return out, lse, truth, true_lse, bounds


# ---- what only a GPU has ------------------------------------------------------------------------------


def layouts():
    q, k, v = inputs("bf16")
    answer = answers(q, k, v, {})
    turned = [t.transpose(1, 2).contiguous() for t in (q, k, v)]
    out, lse = attune.attention(*turned, layout="bhsd", return_lse=True)
    case("bhsd", lambda: (out.transpose(1, 2), lse) + answer)
    views = [t.transpose(1, 2) for t in turned]  # BSHD again, as a view
    case("a view", lambda: attune.attention(*views, return_lse=True) + answer)
    wide = torch.cat([q, k, v], -1)  # slices of one packed tensor
    parts = wide.split(64, -1)
    case("slices of packed qkv", lambda: attune.attention(*parts, return_lse=True) + answer)


def streams():
    """Inputs are made on a side stream behind a long kernel: a launch anywhere else would read early."""
    side = torch.cuda.Stream()
    q, k, v = inputs("bf16", len_q=1024, len_k=1024)
    answer = answers(q, k, v, {"causal": True})
    attune.attention(q, k, v, causal=True)  # loaded
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # cycles, 0.1 s
        late = [t.clone() for t in (q, k, v)]
        out, lse = attune.attention(*late, causal=True, return_lse=True)
        copied = out.clone()
    side.synchronize()
    case("a stream of its own", lambda: (copied, lse) + answer)
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        late = [t.clone() for t in (q, k, v)]
    out, lse = attune.attention(*late, causal=True, return_lse=True, stream=side.cuda_stream)
    side.synchronize()
    case("a stream by its number", lambda: (out, lse) + answer)


def graphs():
    q, k, v = inputs("bf16", len_q=300, len_k=300)
    attune.attention(q, k, v, causal=True, return_lse=True)  # loaded before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = attune.attention(q, k, v, causal=True, return_lse=True)
    for seed in (50, 60):
        for tensor, fresh in zip((q, k, v), inputs("bf16", len_q=300, len_k=300, seed=seed)):
            tensor.copy_(fresh)
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        case("CUDA graph, inputs %d" % seed,
             lambda: (out, lse) + answers(q, k, v, {"causal": True}))


def threads():
    results = [None] * 4

    def work(index):
        with torch.cuda.stream(torch.cuda.Stream()):
            q, k, v = inputs("fp16", seed=index * 10)
            torch.cuda.current_stream().synchronize()
            results[index] = (q, k, v) + attune.attention(q, k, v, return_lse=True)
            torch.cuda.current_stream().synchronize()

    running = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for index, (q, k, v, out, lse) in enumerate(results):
        case("thread %d" % index, lambda: (out, lse) + answers(q, k, v, {}))


def refusals():
    q, k, v = inputs("bf16")
    for name, words, call in (
            ("a gradient is refused", "grad",
             lambda: attune.attention(q.clone().requires_grad_(), k, v)),
            ("mixed devices are refused", "DLPack device", lambda: attune.attention(q, k.cpu(), v)),
            ("float64 is refused", "64 bits", lambda: attune.attention(q.double(), k, v))):
        try:
            call()
            text = "was accepted"
        except attune.Error as error:
            text = str(error)
        (passed if words in text else failed).append(name)
        print("%s  %-44s %s" % ("pass" if words in text else "FAIL", name, text[:90]), flush=True)


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    context = attune.default_context((2, 0))
    print("attune %s on %s (%s), PyTorch %s" % (attune.__version__, context.device_name, context.arch,
                                                torch.__version__))
    for part in (dense_cases, feature_cases, lengths_cases, layouts, streams, graphs, threads, refusals):
        part()
    if not_run:
        print("%d not run: kernels that are not generated yet" % len(not_run))
    print("%d passed, %d failed" % (len(passed), len(failed)))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
