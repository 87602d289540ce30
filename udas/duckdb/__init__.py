"""The interface to DuckDB: a C extension that packs rows and returns models."""

from pathlib import Path

from tuskml.errors import ExtensionError


def extension_path() -> Path:
    """The extension's file: DuckDB and Python must open the same one."""
    path = Path(__file__).parent / "tuskml.duckdb_extension"
    if not path.exists():
        raise ExtensionError(f"the DuckDB extension is not built: no {path}, reinstall tuskml")
    return path


def public_key_path() -> Path:
    """The public key in PEM that signed the extension's file."""
    return extension_path().with_suffix(".pem")
