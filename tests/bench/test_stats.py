#!/usr/bin/env python3
"""Checks of what peers.py is made of and needs no GPU: the statistics, the count of tiles, and calls of attune on
the CPU device (skipped, and said so, without built shared libraries). Run from the repository root: make bench-check
"""
import array
import math
import os
import random
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import attune_calls  # noqa: E402
import cost          # noqa: E402
import paired        # noqa: E402


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

    def test_orders(self):
        for count in range(1, 9):
            rounds = count if count % 2 == 0 else 2 * count
            orders, behind, places = paired.orders(count, rounds), {}, {}
            for order in orders:
                self.assertEqual(sorted(order), list(range(count)))
                for pair in zip(order, order[1:]):
                    behind[pair] = behind.get(pair, 0) + 1
                for place in enumerate(order):
                    places[place] = places.get(place, 0) + 1
            self.assertEqual(set(behind.values()), {rounds // count} if count > 1 else set())
            self.assertEqual(len(behind), count * (count - 1))
            self.assertEqual((len(places), set(places.values())), (count * count, {rounds // count}))
            self.assertEqual(paired.orders(count, 2 * rounds + 1), 2 * orders + orders[:1])

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


@unittest.skipUnless(os.path.exists(os.path.join(attune_calls.BUILD, "libattune_gen.so.0")), "build/libattune_gen.so.0 is not built")
class Calls(unittest.TestCase):
    def test_a_call_names_its_kernel(self):
        rng = random.Random(3)
        numbers = array.array("f", (rng.gauss(0, 1) for _ in range(33 * 2 * 32)))
        q = memoryview(numbers).cast("B").cast("f", shape=[1, 33, 2, 32])
        out = memoryview(array.array("f", [math.nan] * len(numbers))).cast("B").cast("f", shape=[1, 33, 2, 32])
        with attune_calls.Library("cpu", arch="sm_80", message=lambda level, text: None) as library:
            for causal, variant in ((True, "d32_causal"), (False, "d32")):
                call = attune_calls.Call(library, q, q, q, out, causal=causal, corner="bottom_right" if causal else None)
                self.assertIs(call(), out)
                self.assertRegex(call.kernels[0], f"^attn_fwd_sm80_fp32_{variant}__")
                self.assertEqual(call.tile, tuple(map(int, re.search(r"_m(\d+)n(\d+)", call.kernels[0]).groups())))
            self.assertTrue(all(x == x for x in out.cast("B").cast("f")))


if __name__ == "__main__":
    unittest.main()
