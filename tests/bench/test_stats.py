#!/usr/bin/env python3
"""Checks of what peers.py is made of and needs no GPU: the statistics, the count of tiles, and attune through ctypes on the
CPU device (skipped, and said so, without built shared libraries). Run from the repository root: make bench-check
"""
import array
import ctypes
import math
import os
import random
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import attune_c  # noqa: E402
import cost      # noqa: E402
import paired    # noqa: E402

BUILD, RUNTIME = (os.path.join(HERE, "..", "..", name) for name in ("build", "runtime"))


class Statistics(unittest.TestCase):
    def test_places(self):
        for n, want in ((7, (0, 6)), (8, (0, 7)), (9, (1, 7)), (10, (1, 8)), (15, (3, 11)), (20, (5, 14))):
            low, high, coverage = paired.places(n)
            self.assertEqual((low, high), want)
            self.assertGreaterEqual(coverage, 0.95)
        self.assertLess(paired.places(5)[2], 0.95)

    def test_coverage_by_drawing(self):
        rng, held, tries = random.Random(1), 0, 4000
        for _ in range(tries):
            sample = sorted(rng.expovariate(1) for _ in range(11))
            low, high, coverage = paired.places(11)
            held += sample[low] <= math.log(2) <= sample[high]
        self.assertAlmostEqual(held / tries, coverage, delta=0.01)

    def test_ratio(self):
        ours = [2.0, 2.1, 1.9, 2.0, 2.2, 2.0, 2.0]
        value, low, high = paired.ratio([2 * t for t in ours], ours)
        self.assertEqual((value, low, high), (2.0, 2.0, 2.0))  # what both share, such as a clock that falls, is no noise
        value, low, high = paired.ratio([3, 3, 3, 3, 3, 3, 9], [2, 2, 2, 2, 2, 2, 2])
        self.assertEqual((value, low, high), (1.5, 1.5, 4.5))
        with self.assertRaises(ValueError):
            paired.ratio([1, 2], [1])

    def test_summary(self):
        rows = [{"ratio": r} for r in (0.9, 0.96, 0.99, 1.2)] + [{"attune_err": "refused"}]
        s = paired.summary(rows)
        self.assertEqual((s["cells"], s["with_ratio"], s["below_1"], s["below_0.98"], s["below_0.95"]), (5, 4, 3, 2, 1))
        self.assertAlmostEqual(s["geometric_mean"], (0.9 * 0.96 * 0.99 * 1.2) ** 0.25, places=4)


class Tiles(unittest.TestCase):
    def test_against_pairs(self):
        rng = random.Random(2)
        for _ in range(200):
            q, k, bm, bn = rng.randint(1, 300), rng.randint(1, 300), rng.choice((16, 64, 128)), rng.choice((16, 32, 64))
            left = rng.choice((-1, 0, 5, 70))
            right = rng.choice((-1, 0, 3))
            kept = {(i // bm, j // bn) for i in range(q) for j in range(k)
                    if (left < 0 or j - i >= -left) and (right < 0 or j - i <= right)}
            self.assertEqual(cost.tiles(q, k, bm, bn, left, right), len(kept))


class Tensor:
    """What attune_c asks of a tensor, over host memory."""
    dtype = "float32"

    def __init__(self, *shape, fill):
        count = math.prod(shape)
        self.shape, self.data = shape, array.array("f", (fill(i) for i in range(count)))

    def stride(self):
        return tuple(math.prod(self.shape[i + 1:]) for i in range(len(self.shape)))

    def data_ptr(self):
        return self.data.buffer_info()[0]


@unittest.skipUnless(os.path.exists(os.path.join(BUILD, "libattune_gen.so.0")), "build/libattune_gen.so.0 is not built")
class Library(unittest.TestCase):
    def test_struct_sizes(self):
        header = attune_c.Header(RUNTIME)
        for name in ("attune_problem", "attune_attn_args", "attune_options", "attune_tensor"):
            self.assertGreater(ctypes.sizeof(header.structs[name]), 0)
        self.assertEqual(header.axes["MASKS"]["causal"], 2)

    def test_a_launch(self):
        a = attune_c.Attune(BUILD, RUNTIME, cpu_arch="sm_80")
        rng = random.Random(3)
        q, k, v = (Tensor(1, 33, 2, 32, fill=lambda i: rng.gauss(0, 1)) for _ in range(3))
        o = Tensor(1, 33, 2, 32, fill=lambda i: math.nan)
        call = a.forward(q, k, v, o, mask="causal")
        self.assertIs(call(), o)
        self.assertRegex(call.kernels[0], "^attn_fwd_sm80_fp32_d32_causal__")
        self.assertEqual(len(call.tile), 2)
        at = lambda t, s, h: t.data[(s * 2 + h) * 32:(s * 2 + h + 1) * 32]
        for s, h in ((0, 0), (17, 1), (32, 0)):
            score = [sum(x * y for x, y in zip(at(q, s, h), at(k, j, h))) / 32 ** 0.5 for j in range(s + 1)]
            e = [math.exp(x - max(score)) for x in score]
            for d in range(32):
                want = sum(x * at(v, j, h)[d] for j, x in enumerate(e)) / sum(e)
                self.assertAlmostEqual(at(o, s, h)[d], want, places=5)
        a.close()

    def test_a_refusal(self):
        a = attune_c.Attune(BUILD, RUNTIME, cpu_arch="sm_80", jit=False)
        t = Tensor(1, 8, 1, 32, fill=float)
        with self.assertRaisesRegex(attune_c.Error, "no kernel|no row|nothing"):
            a.forward(t, t, t, t)
        a.close()


if __name__ == "__main__":
    unittest.main()
