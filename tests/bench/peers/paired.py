"""Statistics of an interleaved run: ratios of contenders that were timed in the same rounds.

Input: times per round. Output: a ratio with its interval, and sums over cells. Nothing is timed here; test_stats.py checks it.
"""
import math

METHOD = ("ratio = median time of the peer / median time of attune over the rounds; its interval: order statistics of the "
          "per-round ratios (k-th lowest and highest, the largest k for which the binomial probability of holding their median is "
          ">= 0.95; no assumption on the distribution), widened to hold the ratio")


def orders(count, rounds):
    """An order of the contenders 0 .. count - 1 for each round: rows of a Williams design, in which each contender stands at each
    place, and directly behind each other one, equally often (E. J. Williams 1949, Aust. J. Sci. Res. A 2). Balanced over
    `count` rounds where that is even, else over twice as many; what is left over is as even as its first rows are."""
    zigzag = [-(i // 2) % count if i % 2 == 0 else (i + 1) // 2 for i in range(count)]
    rows = []
    for shift in range(count):
        row = [(place + shift) % count for place in zigzag]
        rows += [row] if count % 2 == 0 else [row, row[::-1]]
    return [rows[r % len(rows)] for r in range(rounds)]


def median(values):
    s = sorted(values)
    n = len(s)
    return s[n // 2] if n % 2 else (s[n // 2 - 1] + s[n // 2]) / 2


def places(n):
    """Places, from 0, of the two order statistics of n; and the probability that they hold the median."""
    below, low, coverage = 0.0, 0, 1 - 2 * 0.5 ** n
    for k in range(1, n // 2 + 1):
        below += math.comb(n, k - 1) * 0.5 ** n
        if 1 - 2 * below < 0.95 or 2 * k > n:
            break
        low, coverage = k - 1, 1 - 2 * below
    return low, n - 1 - low, coverage


def ratio(peer, ours):
    """Speed of ours over the peer's, from times of the same rounds: (ratio, low, high)."""
    if len(peer) != len(ours) or not ours:
        raise ValueError("times of the same rounds are wanted")
    value = median(peer) / median(ours)
    each = sorted(p / o for p, o in zip(peer, ours))
    low, high, _ = places(len(each))
    return value, min(value, each[low]), max(value, each[high])


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def summary(rows):
    """Over the rows with a ratio: geometric mean and cells below 1, 0.98, 0.95."""
    ratios = [r["ratio"] for r in rows if r.get("ratio")]
    out = {"cells": len(rows), "with_ratio": len(ratios)}
    if ratios:
        out["geometric_mean"] = round(geometric_mean(ratios), 4)
        out["lowest"] = round(min(ratios), 4)
        for limit in (1, 0.98, 0.95):
            out[f"below_{limit}"] = sum(r < limit for r in ratios)
    return out
