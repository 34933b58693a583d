"""plain.py - attention in plain Python loops over nested lists, the reference of the binding's tests, and
what makes their inputs. Nothing here knows attune."""
import math
import random
import struct


def rounded(value, dtype):
    """The nearest value of fp32, fp16 or bf16."""
    if dtype == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return struct.unpack("<f", struct.pack("<I", bits))[0]
    letter = {"fp32": "f", "fp16": "e"}[dtype]
    return struct.unpack("<" + letter, struct.pack("<" + letter, value))[0]


def numbers(seed, count, dtype="fp32"):
    """count numbers of -1 .. 1, as the dtype holds them."""
    source = random.Random(seed)
    return [rounded(source.uniform(-1, 1), dtype) for _ in range(count)]


def shaped(flat, *shape):
    """Nested lists of a shape from a flat one."""
    for extent in reversed(shape[1:]):
        flat = [flat[i:i + extent] for i in range(0, len(flat), extent)]
    return flat


def offset(len_q, len_k, corner):
    return len_k - len_q if corner == "bottom_right" else 0


def keeps(mask, corner, len_q, len_k):
    """mask: None, "causal" or (left, right). The function of a query and a key."""
    shift = offset(len_q, len_k, corner)
    if mask is None:
        return lambda i, j: True
    left, right = (-1, 0) if mask == "causal" else mask
    return lambda i, j: ((left < 0 or j >= i + shift - left) and (right < 0 or j <= i + shift + right))


def attend(q, k, v, scale=None, keep=lambda i, j: True, adjust=lambda s, i, j: s, sink=None):
    """One head: q [len_q][dim], k [len_k][dim], v [len_k][dim_v] -> (o, lse). adjust changes a scaled
    score; sink is a logit in every denominator."""
    out, lse = [], []
    if scale is None and q:
        scale = 1 / math.sqrt(len(q[0]))
    for i, row in enumerate(q):
        scores = {j: adjust(scale * sum(a * b for a, b in zip(row, key)), i, j)
                  for j, key in enumerate(k) if keep(i, j)}
        logits = list(scores.values()) + ([] if sink is None else [sink])
        top = max(logits, default=-math.inf)
        if top == -math.inf:
            out.append([0.0] * len(v[0]))
            lse.append(-math.inf)
            continue
        total = sum(math.exp(s - top) for s in logits)
        weights = {j: math.exp(s - top) / total for j, s in scores.items()}
        out.append([sum(w * v[j][d] for j, w in weights.items()) for d in range(len(v[0]))])
        lse.append(top + math.log(total))
    return out, lse


def head(tensor, batch, index, rows=None):
    """Rows of one head of a [batch][seq][head][dim] list; rows: a slice of the sequence."""
    sequence = tensor[batch] if rows is None else tensor[batch][rows]
    return [row[index] for row in sequence]


def furthest(a, b):
    """The largest difference between two nested lists; equal infinities differ by 0."""
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b), (len(a), len(b))
        return max((furthest(x, y) for x, y in zip(a, b)), default=0.0)
    if a == b:
        return 0.0
    difference = abs(a - b)
    return difference if difference == difference else math.inf
