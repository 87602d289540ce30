"""Libraries of wheels run with an older C library than the one that they were linked with."""

import ctypes
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = r"""
#include <cmath>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>

extern "C" double length(double x, double y) { return std::hypot(x, y); }
extern "C" long bytes_of(const char *path) {
    struct stat found;
    return stat(path, &found) ? -1 : found.st_size;
}
extern "C" int has(const char *name) { return dlsym(dlopen(nullptr, RTLD_NOW), name) != nullptr; }
extern "C" int from_a_thread(int value) {
    auto kept = std::make_shared<int>(0);
    std::thread([kept, value] {
        try {
            throw std::runtime_error(std::to_string(value));
        } catch (const std::exception &error) {
            *kept = std::stoi(error.what()) + 1;
        }
    }).join();
    return *kept;
}
"""


@pytest.fixture(scope="module")
def portable(root: Path) -> ModuleType:
    sys.path.insert(0, str(root / "scripts" / "build"))
    try:
        module = importlib.import_module("portable")
    finally:
        sys.path.pop(0)
    if not module.is_possible() or shutil.which("c++") is None or shutil.which("objdump") is None:
        pytest.skip("it needs Linux with glibc, a compiler and objdump")
    return module


@pytest.fixture(scope="module")
def linked(portable: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A library linked as ever, and one linked for a wheel."""
    folder = tmp_path_factory.mktemp("linked")
    (folder / "sample.cpp").write_text(SOURCE)
    flags = ["-O2", "-fPIC", "-ffunction-sections"]
    for compiler, source in (("cc", portable.SOURCE), ("c++", folder / "sample.cpp")):
        subprocess.run(
            [compiler, *flags, "-c", source, "-o", folder / f"{source.stem}.o"], check=True
        )
    plain, wheel = folder / "plain.so", folder / "wheel.so"
    objects = [folder / "sample.o", folder / "portable.o"]
    subprocess.run(["c++", "-shared", "-o", plain, objects[0], "-ldl", "-pthread"], check=True)
    subprocess.run(["c++", "-shared", "-o", wheel, *objects, *portable.link_flags()], check=True)
    return {"plain": plain, "wheel": wheel}


def newest(library: Path) -> tuple[int, ...]:
    """The newest version of glibc that a library names."""
    command = ["objdump", "-T", library]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    versions = re.findall(r"\bGLIBC_([\d.]+)", text)
    return max(tuple(map(int, one.split("."))) for one in versions)


def test_it_names_no_newer_c_library_than_the_tag(portable, linked):
    assert newest(linked["wheel"]) <= tuple(map(int, portable.GLIBC.split("_")))
    if tuple(map(int, platform.libc_ver()[1].split("."))) >= (2, 35):
        assert newest(linked["plain"]) > (2, 31), "the sample needs what is new"


@pytest.mark.parametrize("kind", ["plain", "wheel"])
def test_what_is_wrapped_works(linked, kind, tmp_path):
    library = ctypes.CDLL(str(linked[kind]))
    library.length.restype = ctypes.c_double
    library.length.argtypes = [ctypes.c_double, ctypes.c_double]
    library.bytes_of.restype = ctypes.c_long
    path = tmp_path / "five"
    path.write_bytes(b"12345")
    assert library.length(3.0, 4.0) == 5.0
    assert library.length(1e200, 1e200) == pytest.approx(2**0.5 * 1e200, rel=1e-15)
    assert library.bytes_of(os.fsencode(path)) == 5
    assert library.bytes_of(b"/nowhere") == -1
    assert [library.has(b"malloc"), library.has(b"no_such_function")] == [1, 0]
    assert library.from_a_thread(41) == 42


def test_auditwheel_accepts_the_one_and_not_the_other(root, portable, linked, tmp_path):
    pytest.importorskip("auditwheel")
    for kind, library in linked.items():
        path = tmp_path / f"{kind}-1-py3-none-{portable.plat_name()}.whl"
        write_wheel(path, library)
        command = [sys.executable, root / "scripts/build/audit.py", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        new = newest(library) > tuple(map(int, portable.GLIBC.split("_")))
        assert done.returncode == new, done.stdout + done.stderr
        assert f"{path.name}: its libraries need manylinux_" in done.stdout


def write_wheel(path: Path, library: Path) -> None:
    """A wheel with one library."""
    name, number, *tag = path.stem.split("-")
    facts = f"{name}-{number}.dist-info"
    wheel = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {'-'.join(tag)}\n"
    files = {
        f"{name}/library.so": library.read_bytes(),
        f"{facts}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n".encode(),
        f"{facts}/WHEEL": wheel.encode(),
    }
    record = "".join(f"{place},,\n" for place in (*files, f"{facts}/RECORD"))
    with zipfile.ZipFile(path, "w") as opened:
        for place, data in (files | {f"{facts}/RECORD": record.encode()}).items():
            opened.writestr(place, data)
