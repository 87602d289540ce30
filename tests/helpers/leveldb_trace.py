"""A library between the store and LevelDB: it passes calls on and counts reads and writes."""

import ctypes
import re
import subprocess
from pathlib import Path

from tuskml.kvstore import native

HEADER = Path(__file__).parents[2] / "kvstore/native/leveldb/leveldb.hpp"
ENTRY = re.compile(r"X\(([^,]+), (\w+),\s*\((.*?)\)\)", re.DOTALL)
NAMES = ("gets", "found", "bytes_found", "values", "bytes_values", "puts", "bytes_put")
COUNTED = {
    "get": "counts[0]++; if (out) { counts[1]++; counts[2] += *a4; }",
    "iter_value": "counts[3]++; counts[4] += *a1;",
    "writebatch_put": "counts[5]++; counts[6] += a4;",
}
"""Expressions over the arguments a0, a1, ... and the result that are counted, by function."""


def entries() -> list[tuple[str, str, list[str]]]:
    """(result, name, types of arguments) of LevelDB's functions that the store calls."""
    text = HEADER.read_text().replace("\\\n", "")
    text = text[text.index("define TUSK_LEVELDB") :].replace("std::", "")
    found = []
    for result, name, arguments in ENTRY.findall(text):
        types = [part.strip() for part in arguments.split(",") if part.strip()]
        found.append((result.strip(), name, types))
    return found


def source(real: str) -> str:
    """The library in C."""
    calls = entries()
    opaque = set(re.findall(r"\b[A-Z]\w+", " ".join(" ".join([r, *t]) for r, _, t in calls)))
    lines = ["#include <dlfcn.h>", "#include <stddef.h>", "long long counts[7];"]
    lines += [f"typedef struct {name} {name};" for name in sorted(opaque)]
    for result, name, types in calls:
        given = ", ".join(f"{kind} a{i}" for i, kind in enumerate(types)) or "void"
        passed = ", ".join(f"a{i}" for i in range(len(types)))
        pointer = f"({result} (*)({', '.join(types) or 'void'}))"
        declared = f"static {result} (*real)({', '.join(types) or 'void'});"
        found = f'{pointer}dlsym(dlopen("{real}", RTLD_NOW), "leveldb_{name}")'
        call = f"{declared} if (!real) real = {found};"
        if result == "void":
            body = f"{call} {COUNTED.get(name, '')} real({passed});"
        else:
            body = f"{call} {result} out = real({passed}); {COUNTED.get(name, '')} return out;"
        lines.append(f"{result} leveldb_{name}({given}) {{ {body} }}")
    return "\n".join(lines)


class Trace:
    """Counts of one thread's calls; a context in which the store calls the library."""

    def __init__(self, folder: Path) -> None:
        (self.real, *_) = native._leveldb_libraries()
        (folder / "trace.c").write_text(source(self.real))
        self.path = str(folder / "trace.so")
        made = ["cc", "-shared", "-fPIC", "-o", self.path, str(folder / "trace.c"), "-ldl"]
        subprocess.run(made, check=True)
        self.numbers = (ctypes.c_longlong * 7).in_dll(ctypes.CDLL(self.path), "counts")

    def read(self) -> dict[str, int]:
        """The counts by name."""
        return dict(zip(NAMES, self.numbers, strict=True))

    def __enter__(self) -> "Trace":
        load(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        load(self.real)


def load(path: str) -> None:
    """Lets the store call LevelDB in a library."""
    error = ctypes.create_string_buffer(native.ERROR_BYTES)
    assert native.with_leveldb().ks_load(path.encode(), error) == native.OK, error.value
