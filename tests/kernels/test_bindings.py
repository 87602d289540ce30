"""What the build reads from the headers is what a compiler reads there."""

import ctypes
import json
import re
import runpy
import subprocess
import weakref
from pathlib import Path

import numpy as np
import pytest

from tuskml.kernels.library import library, pointer
from tuskml.kernels.structures import KERNELS
from tuskml.kvstore import native as store
from tuskml.partitioner import native as partitioner
from tuskml.schedule import budget, pool
from tuskml.schedule.declared import NUMBERS, Interface

ROOT = Path(__file__).resolve().parents[2]
declarations = runpy.run_path(str(ROOT / "scripts/build/declarations.py"))
INTERFACES = {
    "kernels": KERNELS,
    "kvstore": store.STORE,
    "partitioner": partitioner.PARTITIONER,
    "schedule": Interface(Path(budget.__file__).parent),
}
LIBRARIES = {
    "kernels": library,
    "kvstore": store.library,
    "partitioner": partitioner.library,
    "schedule": pool.library,
}
FOLDERS = sorted(INTERFACES)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_build_is_of_these_headers(folder):
    assert INTERFACES[folder].declarations == json.loads(
        json.dumps(declarations["read"](ROOT, folder))
    ), "the headers have changed since the build: make native"


def test_each_exported_function_is_declared():
    for folder, load in LIBRARIES.items():
        listed = subprocess.run(
            ["nm", "-D", "--defined-only", load()._name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        exported = set(re.findall(r" T ((?:tk|ks|tp|ts)_\w+)$", listed, re.MULTILINE))
        assert exported == set(INTERFACES[folder].declarations["functions"]), folder


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_compiler_sees_the_same_types_and_layout(folder, tmp_path):
    """Calls with arguments of the types that were read, and sizes and offsets of each field."""
    interface, lines = INTERFACES[folder], ["#include <stddef.h>"]
    lines.append(f'#include "{ROOT}/schedule/native/progress.h"')
    for pattern in declarations["HEADERS"][folder]:
        headers = sorted(ROOT.glob(pattern))
        lines += [f'#include "{path}"' for path in headers if path.suffix == ".h"]
    for name in interface.declarations["structures"]:
        size, fields = layout(interface, name)
        claims = [f"sizeof({name}) == {size}"]
        claims += [f"offsetof({name}, {field}) == {at}" for field, at, _ in fields]
        claims += [f"sizeof((({name} *)0)->{field}) == {n}" for field, _, n in fields]
        lines += [f'_Static_assert({claim}, "{claim}");' for claim in claims]
    for name, (result, arguments) in interface.declarations["functions"].items():
        given = ", ".join(zero(kind) for kind in arguments)
        lines.append(f"void call_{name}(void) {{ {name}({given}); }}")
        if result in NUMBERS:
            claim = f"__builtin_types_compatible_p(__typeof__({name}({given})), {result})"
            lines.append(f'_Static_assert({claim}, "{name}");')
    source = tmp_path / "declared.c"
    source.write_text("\n".join(lines) + "\n")
    command = ["cc", "-std=gnu11", "-fsyntax-only", "-Werror", "-Wno-discarded-qualifiers"]
    command += [f"-I{ROOT / 'udas'}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def zero(kind):
    """An argument of a type; constness within pointers to pointers is not what was read."""
    return "0" if kind == "*" or kind.endswith("**") else f"({kind})0"


def layout(interface, name):
    """Bytes of a structure; name, offset and bytes of each field: of its class, or of items."""
    if name in interface.classes:
        made = interface.classes[name]
        fields = [(field, getattr(made, field)) for field, _ in made._fields_]
        return ctypes.sizeof(made), [(field, at.offset, at.size) for field, at in fields]
    item = interface.dtype(name)
    return item.itemsize, [(n, at, t.itemsize) for n, (t, at) in item.fields.items()]


def test_structures_are_checked_where_they_are_passed():
    wrong = KERNELS.classes["tk_epoch"]()
    with pytest.raises(ctypes.ArgumentError):
        library().tk_labels(ctypes.byref(wrong), None)


def test_kinds_of_declarations():
    kind, fields = declarations["kind"], declarations["fields"]
    kinds = ["const double *weights", "tusk_frame *const *held", "const char *text", "char *error"]
    kinds += ["int32_t width[8]", "struct tk_a **out", "int (*stop)(void *)", "int64_t"]
    found = ["double*", "tusk_frame**", "const char*", "char*", "int32_t[8]", "tk_a**", "*"]
    assert list(map(kind, kinds)) == [*found, "int64_t"]
    assert fields("const double *a, *b; int c; void (*call)(int, int); char d[9];") == [
        ["a", "double*"], ["b", "double*"], ["c", "int"], ["call", "*"], ["d", "char[9]"]
    ]  # fmt: skip


def test_constants_are_those_of_the_headers():
    assert KERNELS.constant("TK_OUT_OF_TIME") == 5
    assert KERNELS.constant("LossKind.expected_gamma") == 9
    assert KERNELS.constant("TK_DATES_CYCLES") == 2  # counted from the one without a number


def test_no_type_is_declared_where_a_function_is_called():
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    declaring = [
        str(path.relative_to(ROOT))
        for path in paths
        if re.search(r"\b(tk|ks|tp|ts)_\w+\.(restype|argtypes)", path.read_text())
    ]
    assert declaring == []


def test_items_of_arrays_are_as_in_c():
    assert KERNELS.dtype("tk_side") == np.dtype([("bin", "i2"), ("also", "i2"), ("set", "i4")])


def test_an_address_keeps_an_array_that_is_made_for_a_call() -> None:
    made = np.arange(3.0)
    reference, address = weakref.ref(made), pointer(made)
    del made
    assert reference() is not None
    del address
    assert reference() is None
