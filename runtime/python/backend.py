"""backend.py - makes the package's wheel for pip (PEP 517) with the standard library alone, so that
`pip install runtime/python` fetches nothing. The version is that of attune/_abi.py.

A wheel is a zip of the package and three text files. libattune is not in it: the package finds it
when it is imported."""
import base64
import hashlib
import os
import re
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes from the same files


def _read(*path):
    with open(os.path.join(HERE, *path), encoding="utf-8") as f:
        return f.read()


def _version():
    return re.search(r'^VERSION = "(.*)"', _read("attune", "_abi.py"), re.M).group(1)


def _files(info):
    for name in sorted(os.listdir(os.path.join(HERE, "attune"))):
        if name.endswith(".py") or name == "py.typed":
            yield "attune/" + name, _read("attune", name)
    yield info + "/METADATA", (
        "Metadata-Version: 2.1\nName: attune\nVersion: %s\n"
        "Summary: Attention kernels made to measure: the Python binding of libattune\n"
        "Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n%s" % (
            _version(), _read("README.md")))
    yield info + "/WHEEL", ("Wheel-Version: 1.0\nGenerator: attune\nRoot-Is-Purelib: true\n"
                            "Tag: py3-none-any\n")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns its file name."""
    info = "attune-%s.dist-info" % _version()
    name = "attune-%s-py3-none-any.whl" % _version()
    record = []
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, text in _files(info):
            data = text.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append("%s,sha256=%s,%d\n" % (path, digest, len(data)))
            wheel.writestr(zipfile.ZipInfo(path, _EPOCH), data)
        record.append(info + "/RECORD,,\n")
        wheel.writestr(zipfile.ZipInfo(info + "/RECORD", _EPOCH), "".join(record))
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise RuntimeError("attune's Python package is installed from its source tree or a wheel")
