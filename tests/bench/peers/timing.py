"""One cell of a benchmark: contenders checked, then timed in interleaved rounds.

Input: contenders as callables over several input sets. Output: a row. A round times every contender once, in an order of its
own (paired.orders), since who runs before is felt: behind one that draws less power the clock is higher for a while. All calls
of a contender, over input sets that together exceed L2, are one CUDA graph: else the host (80 us a call and more for some)
would be timed in short cells. One that cannot be captured is called in a loop instead, and its row says so. Each is compared
before it is timed: two heads with float32 attention, all of O with the first contender that was right.
"""
import gc
import math

import paired
import torch

WRONG = 2e-2      # relative distance by norm, per head; bf16 against float32 stays below 1e-2
WARM_SECONDS = 0.5


def reference(q, k, v, left=-1, right=-1):
    """float32 attention of one head, [seq, dim]; rows in chunks, so that no score matrix is over 1 GB. Without TF32."""
    out, step = [], max(1, (1 << 28) // k.shape[0])
    k, v, j = k.float(), v.float(), torch.arange(k.shape[0], device=k.device)
    for first in range(0, q.shape[0], step):
        rows = q[first:first + step].float()
        distance = j[None] - torch.arange(first, first + rows.shape[0], device=k.device)[:, None]
        s = rows @ k.T / math.sqrt(q.shape[1])
        if left >= 0:
            s.masked_fill_(distance < -left, -math.inf)
        if right >= 0:
            s.masked_fill_(distance > right, -math.inf)
        out.append(torch.softmax(s, 1) @ v)
    return torch.cat(out)


def distance(a, b):
    """Largest relative distance of a head, [batch, seq, head, dim]."""
    worst = 0.0
    for x, y in zip(a, b):  # a sequence at a time: float32 copies of all would not fit beside the sets
        x, y = x.float(), y.float()
        d = (x - y).norm(dim=(0, 2)) / y.norm(dim=(0, 2))
        worst = max(worst, d.nan_to_num(math.inf).max().item())
    return worst


def check(o, inputs, known):
    """Relative distance from what is right; known: a whole output that was right, or None."""
    q, k, v, left, right = inputs
    if o.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError(f"O is {tuple(o.shape)}")
    if known is not None:
        return distance(o, known)
    worst = 0.0
    for b, h in ((0, 0), (q.shape[0] - 1, q.shape[2] - 1)):
        g = h // (q.shape[2] // k.shape[2])
        want = reference(q[b, :, h], k[b, :, g], v[b, :, g], left, right)
        worst = max(worst, distance(o[b:b + 1, :, h:h + 1], want[None, :, None]))
    return worst


class Timed:
    """A contender ready to be timed: replays its graph, or calls in a loop."""

    def __init__(self, calls):
        self.calls, self.graph, self.reps = calls, None, 1
        for call in calls:
            call()  # compiles, allocates
        torch.cuda.synchronize()
        self.direct = None
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                for call in calls:
                    call()
            self.graph = graph
        except Exception as error:
            torch.cuda.synchronize()
            self.direct = repr(error)[:160]

    def once(self):
        if self.graph:
            self.graph.replay()
        else:
            for call in self.calls:
                call()

    def milliseconds(self):
        """Per call, of `reps` times all calls; the time before that fills queue and caches."""
        self.once()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(self.reps):
            self.once()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / self.reps / len(self.calls)


def prepare(sets, inputs, row):
    """Contender name -> Timed, of those that run and are right; the others are named in the row."""
    ready, known = {}, None
    for name in sets[0]:
        try:
            with torch.no_grad():
                o = sets[0][name]()
                torch.cuda.synchronize()
                error = check(o, inputs, known)
                row[name + "_error"] = float(f"{error:.2g}")
                if not error < WRONG:
                    raise ValueError(f"wrong: distance {error:.3g}")
                known = o.clone() if known is None else known
                ready[name] = Timed([s[name] for s in sets])
        except Exception as error:
            row[name + "_err"] = repr(error)[:240]
            torch.cuda.synchronize()
    return ready


def rounds_of(ready, rounds, ms):
    """Times per call in milliseconds, a list over the rounds each."""
    names, spent = list(ready), 0.0
    for name in names:
        each = ready[name].milliseconds()
        ready[name].reps = max(1, round(ms / (each * len(ready[name].calls))))
    while spent < WARM_SECONDS * 1e3:  # until the clocks are where they stay
        spent += sum(t.milliseconds() * len(t.calls) * (t.reps + 1) for t in ready.values())
    times = {name: [] for name in names}
    for order in paired.orders(len(names), rounds):
        for i in order:
            times[names[i]].append(ready[names[i]].milliseconds())
    return times


def measure(row, make, copies, inputs, work, ours, options):
    """Fills the row. make(i): name -> callable over input set i, returning O as [batch, seq, head, dim]; inputs: q, k, v, left
    and right of set 0 for the check; work: floating-point operations; ours: names that are attune's, the faster one counts."""
    sets = [make(i) for i in range(copies)]
    ready = prepare(sets, inputs(), row)
    times = rounds_of(ready, options.rounds, options.ms) if ready else {}
    for name, t in times.items():
        m = paired.median(t)
        row[name + "_us"], row[name + "_tflops"] = round(m * 1e3, 3), round(work / m / 1e9, 1)
        if ready[name].direct:
            row[name + "_direct"] = ready[name].direct
    mine = sorted((n for n in times if n in ours), key=lambda n: paired.median(times[n]))
    peers = sorted((n for n in times if n not in ours), key=lambda n: paired.median(times[n]))
    row["unit"], row["rounds"] = "TFLOP/s", options.rounds
    if mine:
        row["attune"], row["attune_name"] = row[mine[0] + "_tflops"], mine[0]
    if peers:
        row["best_peer"], row["best_name"] = row[peers[0] + "_tflops"], peers[0]
    if mine and peers:
        row["ratio"], row["ratio_lo"], row["ratio_hi"] = (round(x, 4) for x in paired.ratio(times[peers[0]], times[mine[0]]))
    row["times_us"] = {n: [round(x * 1e3, 3) for x in t] for n, t in times.items()}
    del sets, ready
    gc.collect()
    torch.cuda.empty_cache()
    return row
