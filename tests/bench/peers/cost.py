"""How many tiles a kernel computes: what the cells that compare cost per tile divide by.

Input: lengths, block sizes, bounds on the diagonal. Output: a count. Nothing is timed here.
"""


def tiles(len_q, len_k, block_m, block_n, left=-1, right=-1):
    """Tiles of block_m x block_n with a pair that -left <= j - i <= right keeps; -1: unbounded. One head."""
    count = 0
    for first in range(0, len_q, block_m):
        last = min(first + block_m, len_q) - 1
        begin = 0 if left < 0 else max(0, first - left)
        end = len_k if right < 0 else min(len_k, last + right + 1)
        if begin < end:
            count += (end + block_n - 1) // block_n - begin // block_n
    return count
