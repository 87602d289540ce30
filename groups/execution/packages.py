"""Packages that an executor needs and tuskml does not."""

import importlib
from typing import Any

from tuskml.errors import ExtensionError


def imported(name: str, executor: str, install: str) -> Any:
    """The package. ExtensionError where it is missing; install: what the sentence advises."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExtensionError(
            f"executor={executor!r} needs the package {error.name or name}, which is not "
            f"installed: {install}"
        ) from error
