"""attune in a benchmark: contexts whose calls say which kernel served them. Over the package of runtime/python.

Input: tensors. Output: calls that launch and return O. What is timed against what is left to peers.py.
"""
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))
import attune  # noqa: E402

# Folder of the libraries and of the program.
BUILD = os.environ.get("ATTUNE_LIBRARY_PATH") or os.path.join(ROOT, "build")


class Library(attune.Context):
    """A context that remembers the program of its last call."""
    program = 0

    def prepare(self, problem):
        self.program = super().prepare(problem)
        return self.program


class Call:
    """One call, made once here: compiled and loaded, so that it can be captured. options: as attune.attention takes them."""

    def __init__(self, library, q, k, v, out, **options):
        self.library, self.tensors, self.out, self.options = library, (q, k, v), out, options
        self()
        self.kernels = [kernel["name"] for kernel in library._info(library.program)["kernels"]]

    def __call__(self):
        self.library.attention(*self.tensors, out=self.out, **self.options)
        return self.out

    @property
    def tile(self):
        """(block_m, block_n) of the one kernel, from its name."""
        m = re.search(r"__\w+?_m(\d+)n(\d+)", self.kernels[0])
        return int(m[1]), int(m[2])
