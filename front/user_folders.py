"""The user's folders in which files of tuskml are kept.

The build reads this file too, before anything is installed: it imports the standard library alone.
"""

import os
import sys
from pathlib import Path

IS_MAC = sys.platform == "darwin"


def cache_folder() -> Path:
    """Returns the folder for what can be made or fetched again: `tuskml` in the system's caches.

    `XDG_CACHE_HOME` names the system's caches where it is an absolute path. Raises RuntimeError
    where the user has no home directory.
    """
    return base("XDG_CACHE_HOME", "Library/Caches" if IS_MAC else ".cache") / "tuskml"


def data_folder() -> Path:
    """Returns the folder for what the user installed: `tuskml` in `XDG_DATA_HOME` or its default.

    `kvstore/mapped/default_root.c` finds the same one in C.
    """
    return base("XDG_DATA_HOME", ".local/share") / "tuskml"


def base(variable: str, default: str) -> Path:
    """Returns the folder that a variable names, or one in the home directory."""
    named = Path(os.environ.get(variable, ""))
    return named if named.is_absolute() else Path.home() / default
