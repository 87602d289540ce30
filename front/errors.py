"""The exceptions of tuskml. A message is one sentence: what was given and what is allowed."""

import difflib
import errno
import os
import re
from collections.abc import Iterable
from typing import Any


class TuskError(Exception):
    """The base class of tuskml's errors; sqlstate is the SQLSTATE that a database reports."""

    sqlstate = "38000"


class OptionError(TuskError, ValueError):
    """A task or an option that does not exist, has the wrong type or an impossible value."""

    sqlstate = "22023"


class DataError(TuskError, ValueError):
    """Rows that no model can be trained on, such as three classes for a two-class task."""

    sqlstate = "22023"


class RowsError(DataError):
    """Invalid rows of a group; the option `invalid` decides the consequence.

    found: a sentence for each such group by its index, if known.
    """

    def __init__(self, text: str, found: dict[int, str] | None = None) -> None:
        super().__init__(text)
        self.found = found or {}


class OperatorError(TuskError):
    """A custom task, operator or algorithm that failed or returned something invalid."""


class Interrupted(TuskError):
    """A training, or another call, that was cancelled while it ran."""

    sqlstate = "57014"


class ExtensionError(TuskError, RuntimeError):
    """The database cannot load tuskml's extension, or has another version of it."""


class ClusterError(TuskError, RuntimeError):
    """A cluster that cannot be used, or groups that it could not train.

    models: those of the groups that were trained, by key; None where none were begun.
    """

    sqlstate = "58000"
    models: Any = None


class ClusterWarning(UserWarning):
    """An event on a cluster that did not change the models, such as a lost worker."""


class StoreError(TuskError):
    """A stored model that cannot be read or written, or a store that another process has open."""

    sqlstate = "58030"


OF_SYSTEM = {
    errno.EMFILE: ("53000", "raise the limit of open files, ulimit -n"),
    errno.ENFILE: ("53000", "raise the limit of open files, fs.file-max"),
    errno.ENOSPC: ("53100", "free space on the disk"),
    errno.EDQUOT: ("53100", "free space within the quota of the disk"),
    errno.EFBIG: ("53100", "raise the limit of the size of files, ulimit -f"),
    errno.ENOMEM: ("53200", "free memory"),
    errno.EIO: ("58030", "look at the disk"),
    errno.EACCES: ("42501", "give the account of the process rights to it"),
    errno.EPERM: ("42501", "give the account of the process rights to it"),
    errno.EROFS: ("42501", "mount the file system for writing"),
}
"""PostgreSQL's SQLSTATE and advice for errors of the system, by errno."""


def system_errno(error: BaseException) -> int:
    """Returns the errno in OF_SYSTEM if the system refused a file, otherwise 0.

    An import that fails so has it in its text.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno if error.errno in OF_SYSTEM else 0
    if isinstance(error, ImportError | OSError):  # as loading a library fails
        text = str(error)
        if "failed to map segment" in text:
            return errno.ENOMEM
        return next((number for number in OF_SYSTEM if os.strerror(number) in text), 0)
    return 0


def nearest(given: str, allowed: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or an empty string if no allowed name is close."""
    names = {name.lower(): name for name in allowed}
    found = difflib.get_close_matches(given.lower()[:100], list(names), n=1, cutoff=0.6)
    return f"; did you mean '{names[found[0]]}'?" if found else ""


def one_of(names: Iterable[str]) -> str:
    """`'a', 'b' or 'c'`."""
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]


def memory_for(text: str) -> str:
    """The purpose of missing memory, from the text of a MemoryError of NumPy or of this
    project.
    """
    if own := re.match("no memory for ([^:]+)", text):
        return own[1]
    found = re.match(r"Unable to allocate ([\d.]+ \w+) for an array", text)
    return f"an array of {found[1]}" if found else "the training"
