#!/usr/bin/env python3
"""bindings.py - writes the raw layer of the bindings from the agreed binary interface.

    runtime/bindings.py            writes runtime/python/attune/_abi.py and
                                   runtime/rust/attune-sys/src/abi.rs again
    runtime/bindings.py --check    writes nothing; exit 1 when a file is not what would be written

Input: runtime/abi.txt (enums, structs with offsets, functions of each library, as the C compiler has
them) and the version of attune.h. Both outputs hold sizes and offsets a second time, as numbers,
so that each language checks its own layout against the C compiler's. `make abi` runs this script.
"""
import os
import re
import sys

RUNTIME = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(RUNTIME, "python", "attune", "_abi.py")
RUST = os.path.join(RUNTIME, "rust", "attune-sys", "src", "abi.rs")

# Function pointers, which abi.txt has by name only: result and arguments.
CALLBACKS = {
    "attune_message_fn": ("void", ["void *", "attune_level", "const char *"]),
    "attune_visit_fn": ("int", ["void *", "attune_program *"]),
    "attune_miss_fn": ("attune_status", ["void *", "const attune_problem *", "const char *", "int",
                                         "attune_miss_result *"]),
    "function *": ("void", ["attune_miss_result *"]),
}
SCALARS = {  # C: ctypes, Rust
    "int": ("c_int", "c_int"),
    "size_t": ("c_size_t", "usize"),
    "int32_t": ("c_int32", "i32"),
    "uint32_t": ("c_uint32", "u32"),
    "int64_t": ("c_int64", "i64"),
    "uint64_t": ("c_uint64", "u64"),
    "uint8_t": ("c_uint8", "u8"),
    "float": ("c_float", "f32"),
    "double": ("c_double", "f64"),
}


class Abi:
    """abi.txt, parsed."""

    def __init__(self):
        self.libraries = {}  # name: [(function, result, [(type, name)])]
        self.enums = {}  # name: [(member, value)]; constants without an enum's name under ""
        self.structs = {}  # name: (size, [(offset, field, type)])
        with open(os.path.join(RUNTIME, "attune.h"), encoding="ascii") as f:
            self.version = re.search(r'ATTUNE_VERSION_TEXT +"(.*)"', f.read()).group(1)
        with open(os.path.join(RUNTIME, "abi.txt"), encoding="ascii") as f:
            self._parse(f.read().splitlines())

    def _parse(self, lines):
        add = None
        for line in lines:
            if line.startswith("#"):
                continue
            words = line.split()
            if line.startswith(" "):
                add(line.strip())
            elif words[0] == "library":
                add = self._function_adder(words[1])
            elif words[0] == "enum":
                name = "" if words[1] == "(no" else words[1]
                add = self._member_adder(self.enums.setdefault(name, []))
            else:
                add = self._field_adder(words[1], int(words[2]))

    def _function_adder(self, library):
        functions = self.libraries.setdefault(library, [])

        def add(line):
            head, arguments = re.fullmatch(r"(.*)\((.*)\)", line).groups()
            if "..." in arguments:  # attune_fail: for miss handlers, which are C
                return
            result, name = split_declaration(head)
            parsed = [] if arguments == "void" else [
                split_declaration(a) for a in arguments.split(", ")]
            functions.append((name, result, parsed))

        return add

    @staticmethod
    def _member_adder(members):
        def add(line):
            value, name = line.split()
            members.append((name, int(value)))

        return add

    def _field_adder(self, name, size):
        fields = []
        self.structs[name] = (size, fields)

        def add(line):
            offset, field, kind = re.fullmatch(r"(\d+) (\w+): (.*)", line).groups()
            fields.append((int(offset), field, kind))

        return add


def split_declaration(text):
    """'const char *attune_error' -> ('const char *', 'attune_error')."""
    kind, name = re.fullmatch(r"(.*?)(\w+)", text).groups()
    return kind.strip(), name


def split_pointer(kind):
    """'const char *' -> ('char', 1, True): what is pointed to, how often, whether it is const."""
    stars = kind.count("*")
    base = kind.replace("*", "").replace("const ", "").strip()
    return base, stars, "const " in kind


def split_array(kind):
    match = re.fullmatch(r"(.*)\[(\d+)\]", kind)
    return (match.group(1).strip(), int(match.group(2))) if match else (kind, 0)


def camel(name):
    return "".join(part.capitalize() for part in name.replace("attune_", "", 1).split("_"))


def short_members(enum, members):
    """Members without their common prefix, which is the enum's name where they carry it."""
    prefix = enum.upper() + "_"
    if not all(name.startswith(prefix) for name, _ in members):
        prefix = os.path.commonprefix([name for name, _ in members])
        prefix = prefix[:prefix.rindex("_") + 1]
    for name, value in members:
        short = name[len(prefix):]
        yield ("_" + short if short[0].isdigit() else short), value


# ---- Python --------------------------------------------------------------------------------------


class Python:
    """The text of _abi.py."""

    def __init__(self, abi):
        self.abi = abi

    def kind(self, kind):
        kind, count = split_array(kind)
        if count:
            return "%s * %d" % (self.kind(kind), count)
        if kind in CALLBACKS:
            return callback_name(kind)
        base, stars, _ = split_pointer(kind)
        if stars == 0:
            return "c_int" if base in self.abi.enums else (
                camel(base) if base in self.abi.structs else SCALARS[base][0])
        if stars == 2:
            return "POINTER(c_void_p)"
        if base == "char":
            return "c_char_p"
        if base in self.abi.structs:
            return "POINTER(%s)" % camel(base)
        return "POINTER(c_size_t)" if base == "size_t" else "c_void_p"

    def result(self, kind):
        return "None" if kind == "void" else self.kind(kind)

    def enums(self):
        for name, members in self.abi.enums.items():
            if not name:
                for member, value in members:
                    yield "%s = %d" % (member.replace("ATTUNE_", "", 1), value)
                continue
            yield "\n\nclass %s(IntEnum):" % camel(name)
            for member, value in short_members(name, members):
                yield "    %s = %d" % (member, value)
        yield ""

    def structs(self):
        for name, (_, fields) in self.abi.structs.items():
            yield "\n\nclass %s(Structure):" % camel(name)
            yield "    _fields_ = ["
            for _, field, kind in fields:
                yield '        ("%s", %s),' % (field, self.kind(kind))
            yield "    ]"

    def callbacks(self):
        for kind, (result, arguments) in CALLBACKS.items():
            # A struct that is defined below is a plain pointer here.
            shown = [self.result(result)] + [
                "c_void_p" if split_pointer(a)[0] in self.abi.structs else self.kind(a)
                for a in arguments]
            yield "%s = CFUNCTYPE(%s)" % (callback_name(kind), ", ".join(shown))

    def layouts(self):
        yield "\n\nLAYOUTS: Dict[Type[Structure], Tuple[int, Dict[str, int]]] = {"
        for name, (size, fields) in self.abi.structs.items():
            yield "    %s: (%d, {" % (camel(name), size)
            for offset, field, _ in fields:
                yield '        "%s": %d,' % (field, offset)
            yield "    }),"
        yield "}"

    def functions(self):
        yield "\nFUNCTIONS: Dict[str, Dict[str, Tuple[Any, List[Any]]]] = {"
        for library, functions in self.abi.libraries.items():
            yield '    "%s": {' % library.replace("lib", "", 1)
            for name, result, arguments in functions:
                yield '        "%s": (%s, [%s]),' % (
                    name, self.result(result), ", ".join(self.kind(kind) for kind, _ in arguments))
            yield "    },"
        yield "}"

    def text(self):
        lines = [
            '"""The C interface of attune. Made by runtime/bindings.py from runtime/abi.txt: edit neither',
            "by hand; `make abi` writes both. LAYOUTS holds what the C compiler made of each struct: bytes,",
            'and the offset of each field."""',
            "from ctypes import (",
            "    CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,",
            "    c_uint32, c_uint64, c_void_p,",
            ")",
            "from enum import IntEnum",
            "from typing import Any, Dict, List, Tuple, Type",
            "",
            'VERSION = "%s"' % self.abi.version,
        ]
        for part in (self.enums, self.callbacks, self.structs, self.layouts, self.functions):
            lines += part()
        return "\n".join(lines) + "\n"


def callback_name(kind):
    return "FreeEntriesFn" if kind == "function *" else camel(kind)


# ---- Rust ----------------------------------------------------------------------------------------


class Rust:
    """The text of abi.rs, as rustfmt leaves it where that costs nothing: it is not formatted again."""

    def __init__(self, abi):
        self.abi = abi

    def kind(self, kind):
        kind, count = split_array(kind)
        if count:
            return "[%s; %d]" % (self.kind(kind), count)
        if kind == "function *":
            return "attune_free_entries_fn"
        if kind in CALLBACKS:
            return kind
        base, stars, const = split_pointer(kind)
        inner = {"void": "c_void", "char": "c_char"}.get(
            base, SCALARS[base][1] if base in SCALARS else base)
        if stars == 2:
            return "*mut *mut " + inner
        return ("*const " if const else "*mut ") + inner if stars else inner

    def enums(self):
        for name, members in self.abi.enums.items():
            if name:
                yield "\npub type %s = c_uint;" % name
            for member, value in members:
                yield "pub const %s: %s = %d;" % (member, name or "c_uint", value)

    def callbacks(self):
        yield ""
        for kind, (result, arguments) in CALLBACKS.items():
            returned = "" if result == "void" else " -> " + self.kind(result)
            yield "pub type %s =\n    Option<unsafe extern \"C\" fn(%s)%s>;" % (
                self.kind(kind), ", ".join(self.kind(a) for a in arguments), returned)

    def opaque(self):
        for name in ("attune_context", "attune_program", "attune_jit"):
            yield "\n#[repr(C)]\npub struct %s {\n    _private: [u8; 0],\n}" % name

    def structs(self):
        for name, (_, fields) in self.abi.structs.items():
            yield "\n#[repr(C)]\n#[derive(Clone, Copy, Debug)]\npub struct %s {" % name
            for _, field, kind in fields:
                yield "    pub %s: %s," % (field, self.kind(kind))
            yield "}"
            if fields[0][1] == "size":
                yield "\nimpl %s {" % name
                yield "    /// Zeroed, with its size set.\n    pub fn init() -> Self {"
                yield "        // SAFETY: integers, floats, null pointers and None are all zero bytes."
                yield "        let zeroed: Self = unsafe { core::mem::zeroed() };"
                yield "        Self { size: core::mem::size_of::<Self>(), ..zeroed }\n    }\n}"

    def functions(self):
        for library, functions in self.abi.libraries.items():
            feature = {"libattune_cpu": "cpu", "libattune_gen": "jit"}.get(library)
            yield ""
            if feature:
                yield '#[cfg(feature = "%s")]' % feature
            yield '#[link(name = "%s")]\nextern "C" {' % library.replace("lib", "", 1)
            for name, result, arguments in functions:
                returned = "" if result == "void" else " -> " + self.kind(result)
                yield "    pub fn %s(%s)%s;" % (
                    name, ", ".join("%s: %s" % (n, self.kind(k)) for k, n in arguments), returned)
            yield "}"

    def layouts(self):
        yield "\n#[cfg(test)]\nmod layout {\n    use super::*;\n"
        yield "    macro_rules! at {\n        ($kind:ty, $field:ident) => {{"
        yield "            let whole = core::mem::MaybeUninit::<$kind>::uninit();"
        yield "            let base = whole.as_ptr();"
        yield "            // SAFETY: only the address of a field is taken, inside of the value."
        yield "            let field = unsafe { core::ptr::addr_of!((*base).$field) };"
        yield "            field as usize - base as usize\n        }};\n    }"
        for name, (size, fields) in self.abi.structs.items():
            yield "\n    #[test]\n    fn %s_is_the_c_compilers() {" % name
            yield "        assert_eq!(core::mem::size_of::<%s>(), %d);" % (name, size)
            for offset, field, _ in fields:
                yield "        assert_eq!(at!(%s, %s), %d);" % (name, field, offset)
            yield "    }"
        yield "}"

    def text(self):
        lines = [
            "// The C interface of attune. Made by runtime/bindings.py from runtime/abi.txt: edit neither by",
            "// hand; `make abi` writes both. The tests at the end hold what the C compiler made of each struct.",
            "use std::os::raw::{c_char, c_int, c_uint, c_void};",
            "",
            'pub const ATTUNE_VERSION_TEXT: &str = "%s";' % self.abi.version,
        ]
        for part in (self.enums, self.callbacks, self.opaque, self.structs, self.functions,
                     self.layouts):
            lines += part()
        return "\n".join(lines) + "\n"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    abi = Abi()
    stale = 0
    for path, text in ((PYTHON, Python(abi).text()), (RUST, Rust(abi).text())):
        if arguments:
            with open(path, encoding="ascii") as f:
                if f.read() != text:
                    print("%s is not what runtime/bindings.py writes: make abi" %
                          os.path.relpath(path), file=sys.stderr)
                    stale = 1
        else:
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
