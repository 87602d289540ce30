"""The package's version; the extension built with it must say the same."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def read_version() -> str:
    """That of the installed package, or of a checkout that is on the path without it."""
    try:
        return version("tuskml")
    except PackageNotFoundError:
        project = Path(__file__).resolve().parent.parent / "pyproject.toml"
        found: str = tomllib.loads(project.read_text())["project"]["version"]
        return found


VERSION = read_version()
