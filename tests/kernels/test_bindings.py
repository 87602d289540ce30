"""The table of bindings says of each function and structure what the headers say."""

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tuskml.kernels.bindings import FUNCTIONS
from tuskml.kernels.fm.structures import STRUCTURES as MACHINES
from tuskml.kernels.library import library
from tuskml.kernels.nets.structures import STRUCTURES as NETS
from tuskml.kernels.newton.structures import STRUCTURES as NEWTON
from tuskml.kernels.paths.structures import STRUCTURES as PATHS
from tuskml.kernels.rows.structures import STRUCTURES as ROWS
from tuskml.kernels.structures import STRUCTURES as SHARED
from tuskml.kernels.topics.structures import STRUCTURES as TOPICS
from tuskml.kernels.trees.structures import STRUCTURES as TREES

STRUCTURES = SHARED | ROWS | TREES | NETS | PATHS | NEWTON | TOPICS | MACHINES
ROOT = Path(__file__).resolve().parents[2]
HEADERS = sorted((ROOT / "kernels/native").glob("**/api.h"))
MORE = [ROOT / f"udas/rowblock/{name}.h" for name in ("rowblock", "memory")]
MORE += [ROOT / "kvstore/native/frames.h"]
NUMBERS = {
    "int": "int32",
    "int8_t": "int8",
    "int32_t": "int32",
    "uint32_t": "uint32",
    "int64_t": "int64",
    "uint64_t": "uint64",
    "double": "float64",
    "void": "void",
}
"""Types of C by what NumPy calls them."""


def text(path):
    """A header without its comments and what is for the preprocessor."""
    plain = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    return re.sub(r"^#.*$", "", plain, flags=re.MULTILINE)


def kind_in_c(declared):
    """Of a parameter, a member or a result: a number's type, or `pointer` and to what."""
    words = declared.replace("const ", "").replace("struct ", "").split()
    if "*" in declared or "(" in declared:
        return f"pointer to {words[0]}"
    return NUMBERS.get(words[0], f"pointer to {words[0]}")


def kind_in_python(given):
    """The same of a type of ctypes; addresses are pointers to anything."""
    if given is None:
        return "void"
    if given is ctypes.c_void_p:
        return "pointer"
    if issubclass(given, ctypes._Pointer):
        names = {structure: name for name, structure in STRUCTURES.items()}
        return f"pointer to {names[given._type_]}"
    return np.dtype(given).name


def functions():
    """By name what each header's functions return and take."""
    found = {}
    for path in HEADERS:
        pattern = r"TK_API\s+(.*?)\b(tk_\w+)\((.*?)\);"
        for result, name, parameters in re.findall(pattern, text(path), flags=re.DOTALL):
            each = [] if parameters == "void" else re.split(r",(?![^()]*\))", parameters)
            found[name] = [kind_in_c(each) for each in (f"{result} ", *map(str.strip, each))]
    return found


def structures():
    """By name the members of each structure of the headers, in their order."""
    found = {}
    for path in [*HEADERS, *MORE]:
        pattern = r"typedef struct \w+ \{(.*?)\}\s*(\w+);"
        for body, name in re.findall(pattern, text(path), flags=re.DOTALL):
            found[name] = [re.split(r"\W+", member)[-1] for member in members(body)]
    return found


def members(body):
    """`double *a, *b; char error[9];` as `double *a`, `*b` and `char error`."""
    without_sizes = re.sub(r"\[.*?\]", "", body)
    return [each.strip() for each in re.split(r"[,;]", without_sizes) if each.strip()]


def agree(c, python):
    """Whether an argument may be passed so: as its number, its structure, or an address."""
    if python == "pointer":
        return c.startswith("pointer") and c.removeprefix("pointer to ") not in GIVEN
    return c == python


GIVEN = {
    "tk_pass", "tk_open", "tk_system", "tk_chord", "tk_drawn", "tk_epoch", "tk_dual",
    "tk_interior", "tk_cut",
    "tk_chunk", "tk_stored", "tk_ids", "tk_factor_spec", "tk_stored_factors", "tusk_memory_use",
    "tusk_frame", "tk_newton",
}  # fmt: skip
"""Structures that are never passed as a mere address."""


def test_the_table_has_each_function_of_the_headers():
    assert set(functions()) == set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_types_of_a_function(name):
    result, arguments = FUNCTIONS[name]
    declared, wanted = functions()[name], [kind_in_python(each) for each in (result, *arguments)]
    assert len(declared) == len(wanted), declared
    assert all(map(agree, declared, wanted)), (declared, wanted)
    loaded = getattr(library(), name)
    assert (loaded.restype, list(loaded.argtypes)) == (result, arguments)


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_members_of_a_structure(name):
    assert [member for member, _, _ in layout(STRUCTURES[name])[1]] == structures()[name]


def layout(kind):
    """Bytes of a structure; name, place and bytes of each member."""
    if isinstance(kind, np.dtype):
        return kind.itemsize, [(n, at, t.itemsize) for n, (t, at) in kind.fields.items()]
    fields = [(name, getattr(kind, name)) for name, _ in kind._fields_]
    return ctypes.sizeof(kind), [(name, field.offset, field.size) for name, field in fields]


def test_the_compiler_sees_the_same_layout(tmp_path):
    lines = [f'#include "{path}"' for path in [*HEADERS, *MORE]] + ["#include <stddef.h>"]
    for name, kind in STRUCTURES.items():
        size, fields = layout(kind)
        claims = [f"sizeof({name}) == {size}"]
        claims += [f"offsetof({name}, {field}) == {at}" for field, at, _ in fields]
        claims += [f"sizeof((({name} *)0)->{field}) == {n}" for field, _, n in fields]
        lines += [f'_Static_assert({claim}, "{claim}");' for claim in claims]
    source = tmp_path / "layout.c"
    source.write_text("\n".join(lines) + "\n")
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{ROOT / 'udas'}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_type_is_declared_where_a_kernel_is_called():
    folders = ("kernels", "learners", "groups")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    declaring = [
        str(path.relative_to(ROOT))
        for path in paths
        if re.search(r"tk_\w+\.(restype|argtypes)", path.read_text())
    ]
    assert declaring == []
