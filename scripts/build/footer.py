"""The 534 bytes that DuckDB reads at the end of an extension file.

They form a WebAssembly custom section: its id and sizes, its name, eight fields of 32 bytes in
reverse order, and room for a signature (`signing.py`), which is empty here.
"""

import os
import platform
import sys
import sysconfig

MACHINE = os.environ.get("TUSKML_MACHINE") or platform.machine()
"""The processors to build for: `TUSKML_MACHINE`, with `CC` and `CXX` that compile for them, or
this machine's."""
API_VERSION = "v1.2.0"
MAGIC = "4"
ABI = "C_STRUCT"
SECTION = b"\x00\x93\x04\x10duckdb_signature\x80\x04"
FIELD_BYTES = 32
FIELDS = 8
SIGNATURE_BYTES = 256


def duckdb_platform() -> str:
    """The machine in DuckDB's words, such as `linux_amd64`."""
    system = {"linux": "linux", "darwin": "osx", "win32": "windows"}[sys.platform]
    machine = MACHINE.lower()
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    musl = "_musl" if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "") else ""
    return f"{system}_{arch}{musl}"


def footer(extension_version: str) -> bytes:
    """The footer of a C extension built for the stable API on this machine."""
    used = [MAGIC, duckdb_platform(), API_VERSION, extension_version, ABI]
    fields = used + [""] * (FIELDS - len(used))
    packed = b"".join(
        field.encode("ascii").ljust(FIELD_BYTES, b"\0") for field in reversed(fields)
    )
    return SECTION + packed + bytes(SIGNATURE_BYTES)
