"""Finds and loads libattune, libattune_cpu and libattune_gen, and turns statuses into errors.

Looked at, in this order: the folders of ATTUNE_LIBRARY_PATH; `lib` beside this file; the `build`
folder of the source tree that this file lies in; what the loader knows. A library of another
version than this package, or a Python whose structs are laid out otherwise than the C compiler's, is
an ImportError: nothing is called before both were checked. Sizes are checked again by the library at
every call, since each struct carries its own.
"""
from __future__ import annotations

import ctypes
import os
from typing import Dict, List

from . import _abi
from ._abi import Status

_HERE = os.path.dirname(os.path.abspath(__file__))
_loaded: Dict[str, ctypes.CDLL] = {}
# What a library needs is loaded before it: the loader finds it by its name then, wherever it lies.
_NEEDS = {"attune": (), "attune_cpu": ("attune",), "attune_gen": ("attune", "attune_cpu")}


class Error(RuntimeError):
    """A call failed. `status` is the Status; the text says what was wanted, what was found and what
    would work."""

    def __init__(self, status: int, text: str):
        self.status = Status(status)
        super().__init__("ATTUNE_%s: %s" % (self.status.name, text))


def invalid(text: str, *values: object) -> Error:
    return Error(Status.INVALID, text % values if values else text)


def _folders() -> List[str]:
    named = os.environ.get("ATTUNE_LIBRARY_PATH")
    if named:
        return named.split(os.pathsep)
    tree = os.path.join(_HERE, "..", "..", "..")
    folders = [os.path.join(_HERE, "lib")]
    if os.path.exists(os.path.join(tree, "runtime", "attune.h")):
        folders.append(os.path.normpath(os.path.join(tree, "build")))
    return folders


def _file_name(name: str) -> str:
    return "lib%s.so.%s" % (name, _abi.VERSION.split(".")[0])


def _open(name: str) -> ctypes.CDLL:
    folders = _folders()
    for folder in folders:
        path = os.path.join(folder, _file_name(name))
        if os.path.exists(path):
            return ctypes.CDLL(path)
    if not os.environ.get("ATTUNE_LIBRARY_PATH"):
        try:
            return ctypes.CDLL(_file_name(name))
        except OSError:
            folders.append("the loader's folders")
    raise ImportError("%s not found in %s: install attune (make install), or set "
                      "ATTUNE_LIBRARY_PATH to the folder that has it"
                      % (_file_name(name), " or ".join(folders)))


def _check_version(found: str) -> None:
    """Below 1.0 a minor version may change the interface."""
    if found.split(".")[:2] != _abi.VERSION.split(".")[:2]:
        raise ImportError("libattune is version %s, this package speaks to %s: install the two "
                          "from one source" % (found, _abi.VERSION))


def check_layouts() -> None:
    """ImportError when a struct of _abi.py is not laid out as the C compiler has it."""
    for struct, (size, offsets) in _abi.LAYOUTS.items():
        found = {field: getattr(struct, field).offset for field in offsets}
        if ctypes.sizeof(struct) != size or found != offsets:
            raise ImportError("%s is laid out as %d bytes %s here, the library has %d bytes %s: this "
                              "platform is not supported"
                              % (struct.__name__, ctypes.sizeof(struct), found, size, offsets))


def library(name: str = "attune") -> ctypes.CDLL:
    """The library `attune`, `attune_cpu` or `attune_gen`, with the types of its functions set."""
    if name in _loaded:
        return _loaded[name]
    if name == "attune":
        check_layouts()
    for needed in _NEEDS[name]:
        library(needed)
    loaded = _open(name)
    if name == "attune":
        loaded.attune_version.restype = ctypes.c_char_p
        _check_version(loaded.attune_version().decode())
    for function, (result, arguments) in _abi.FUNCTIONS[name].items():
        try:
            bound = getattr(loaded, function)
        except AttributeError:
            raise ImportError("lib%s has no %s, which version %s has: install the library and this "
                              "package from one source" % (name, function, _abi.VERSION)) from None
        bound.restype, bound.argtypes = result, arguments
    _loaded[name] = loaded
    return loaded


def check(status: int) -> None:
    """Raises the Error of the call that just returned `status`, on its thread."""
    if status:
        raise Error(status, library().attune_error().decode(errors="replace"))


def zeroed(kind):
    """An instance of a struct of _abi.py with its size set, as attune_*_init() make it."""
    made = kind()
    made.size = ctypes.sizeof(kind)
    return made
