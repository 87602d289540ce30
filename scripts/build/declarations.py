"""The declarations in the headers of the native libraries, for Python to call them with ctypes.

The build writes them as `_native.json` next to each library: functions by name, with the types of
the result and of the arguments; structures by name, with their fields in order; constants of enums
and macros. A type is written as in C, without `const` and spaces: `double`, `tk_pass*`,
`char[512]`; only `const char*` keeps it, for text arguments; `*` alone is the address of a
function.
"""

import json
import re
from pathlib import Path

HEADERS = {
    "kernels": (
        "kernels/native/**/api.h",
        "kernels/native/linear/links.hpp",
        "kernels/native/linear/losses.hpp",
        "udas/rowblock/rowblock.h",
        "udas/rowblock/memory.h",
        "kvstore/native/frames.h",
    ),
    "kvstore": ("kvstore/native/**/*.h", "kvstore/mapped/sealed_file.h"),
    "partitioner": ("partitioner/native/api.h",),
    "schedule": ("schedule/native/*.h", "udas/scalars/activity/*.h"),
}
"""Headers by the folder whose library they belong to."""
FUNCTION = re.compile(r"(?<=[;}\n])\s*([\w \n]+?[\s*]+)((?:tk|ks|tp|ts)_\w+)\s*\(")
STRUCTURE = re.compile(r"typedef struct \w+ \{([^{}]*)\}\s*(\w+);")
ENUM = re.compile(r"enum (?:class )?(\w*)\s*(?::\s*\w+\s*)?\{([^{}]*)\}")
NOISE = re.compile(r"^#.*$|__attribute__\(\(.*\)\)|\b\w+_API\b|\bTUSK_SHARES\b", re.MULTILINE)
MACRO = re.compile(r"^#define (\w+) (\d+)[ ]*$", re.MULTILINE)


def code(text: str) -> str:
    """The text of a header without its comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def split(text: str, mark: str) -> list[str]:
    """The parts of a text between marks that are outside parentheses."""
    return [part.strip() for part in re.split(rf"{mark}(?![^()]*\))", text) if part.strip()]


def kind(declared: str) -> str:
    """The type of a declaration such as `const double *weights` or `int32_t width[8]`."""
    if "(" in declared:
        return "*"
    plain = re.sub(r"\b(const(?! char)|struct|volatile)\b", "", declared)
    found = re.fullmatch(r"\s*((?:const )?\w+)([\s*]*)(\w*)\s*(\[.*\])?\s*", plain)
    assert found, declared
    base, stars, _, size = found.groups()
    return base + re.sub(r"\s", "", stars) + (size or "")


def fields(body: str) -> list[list[str]]:
    """The names and types of a structure's fields; `double *a, b;` has two of them."""
    found = []
    for line in split(body, ";"):
        base = re.match(r"(?:const |struct )*\w+", line)
        for number, each in enumerate([line] if "(" in line else split(line, ",")):
            declared = each if number == 0 else f"{base and base[0]} {each}"
            name = re.search(r"\(\*(\w+)\)|(\w+)\s*(?:\[.*\])?$", declared)
            assert name, declared
            found.append([name[1] or name[2], kind(declared)])
    return found


def parameters(text: str, begin: int) -> list[str]:
    """The types of the parameters of a function, whose list starts at this index."""
    depth, end = 1, begin
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    inside = text[begin : end - 1].strip()
    return [] if inside == "void" else [kind(each) for each in split(inside, ",")]


def constants(text: str) -> dict[str, int]:
    """The values of enumerators and macros; `LossKind.hinge` is one of an `enum class`."""
    found = {name: int(value) for name, value in MACRO.findall(text)}
    for enum in ENUM.finditer(text):
        value = -1
        for each in split(enum[2], ","):
            name, _, given = (part.strip() for part in each.partition("="))
            value = int(given) if given else value + 1
            found[f"{enum[1]}.{name}" if "enum class" in enum[0] else name] = value
    return found


def read(root: Path, folder: str) -> dict[str, dict[str, object]]:
    """The functions, structures and constants of a folder's library."""
    read: dict[str, dict[str, object]] = {"functions": {}, "structures": {}, "constants": {}}
    for path in sorted(path for pattern in HEADERS[folder] for path in root.glob(pattern)):
        text = code(path.read_text())
        read["constants"].update(constants(text))
        if path.suffix == ".hpp":
            continue
        for body, name in STRUCTURE.findall(text):
            read["structures"][name] = fields(body)
        plain = NOISE.sub("", text)
        for found in FUNCTION.finditer(plain):
            if "typedef" not in found[1] and "static" not in found[1]:
                result = kind(found[1].strip())
                read["functions"][found[2]] = [result, parameters(plain, found.end())]
    return read


def write(root: Path, folder: str, target: Path) -> None:
    """Writes the declarations of a folder's library into a file, if they have changed."""
    text = json.dumps(read(root, folder), separators=(",", ":"))
    if not target.exists() or target.read_text() != text:
        target.write_text(text)
