"""Links the libraries of a wheel so that they run on systems older than the one that built them.

The C++ library is linked in, and names of the C library are bound to the versions that glibc 2.31
has (`portable.c`). So a wheel built on a newer system carries the tag manylinux_2_31.
"""

import platform
import re
from pathlib import Path

import footer

SOURCE = Path(__file__).with_suffix(".c")
GLIBC = "2_31"


def is_possible() -> bool:
    """Returns whether this system has the functions of `portable.c`: glibc 2.31 or later on
    Linux.
    """
    name, version = platform.libc_ver()
    found = tuple(map(int, version.split("."))) if name == "glibc" else (0,)
    return found >= tuple(map(int, GLIBC.split("_")))


def plat_name() -> str:
    """The wheel's tag, such as `manylinux_2_31_x86_64`."""
    return f"manylinux_{GLIBC}_{footer.MACHINE}"


def wrapped() -> list[str]:
    """The names that `portable.c` defines for `--wrap`."""
    text = SOURCE.read_text()
    return sorted(
        {*re.findall(r"^EARLIER\((\w+),", text, re.M), *re.findall(r"__wrap_(\w+)[(;]", text)}
    )


def link_flags() -> list[str]:
    """Flags for the linker, after the objects."""
    return [
        "-static-libstdc++",
        "-Wl,--exclude-libs,ALL",
        "-Wl,-s,--gc-sections",  # without wrappers that nothing calls
        *(f"-Wl,--wrap={name}" for name in wrapped()),
        "-Wl,--push-state,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--pop-state",
    ]
