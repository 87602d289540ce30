"""The trainer in a process that is not Python's: DuckDB's command line, Node, Java and others.

The extension starts Python when the first training needs it (`udas/duckdb/hosting/python.c`): in
the client's process, where it calls `start`, or in a helper process, which calls `serve`. Python
has no connection to the database: DuckDB's settings are those that the extension read when it was
loaded.
"""

import contextlib
import ctypes
import os
import sys

from tuskml.errors import ExtensionError
from tuskml.groups.contract.attachment import attach
from tuskml.version import VERSION

ROOM = 1024


class _Request(ctypes.Structure):
    _fields_ = [("extension", ctypes.c_char_p), ("error", ctypes.c_char * ROOM)]


def start(address: int) -> None:
    """Gives the extension the trainer, or stores the reason why there is none in the request.

    address: of the extension's request, which stays valid during the call.
    """
    request = _Request.from_address(address)
    try:
        path = os.fsdecode(request.extension)
        if not hasattr(sys, "argv"):
            sys.argv = [""]  # an embedded interpreter has none, and libraries read it
        attach_trainer(path)
    except Exception as error:
        request.error = str(error).encode(errors="replace")[: ROOM - 1]


def serve(channel: int, path: str) -> None:
    """Trains the requests of another process until that ends, which ends this process too.

    channel: a descriptor, which the extension's library reads
    (`udas/duckdb/hosting/helper/channel.h`); path: of the extension that the other process has
    loaded. If this package cannot train for it, the other process gets the reason.
    """
    close_above(channel)
    try:
        library = attach_trainer(path)
    except Exception as error:
        os.write(channel, str(error).encode(errors="replace")[: ROOM - 1])
    else:
        library.tusk_serve(ctypes.c_int(channel))


def attach_trainer(path: str) -> ctypes.CDLL:
    """The extension's library, which has the trainer now. Raises ExtensionError for another
    version.
    """
    library = ctypes.CDLL(path)
    check_version(library, f"run tuskml install in the environment of {path}")
    attach(library, path)
    return library


def close_above(descriptor: int) -> None:
    """Closes the descriptors inherited from the other process; a range up to the limit may be
    a billion long.
    """
    for other in map(int, os.listdir("/dev/fd")):
        if other > descriptor:
            with contextlib.suppress(OSError):  # the listing's own is closed already
                os.close(other)


def check_version(library: ctypes.CDLL, mend: str) -> None:
    """Raises an error unless the extension and the package are of one build; mend: the remedy."""
    library.tusk_version.restype = ctypes.c_char_p
    found = library.tusk_version().decode()
    if found != VERSION:
        raise ExtensionError(
            f"the extension is version {found} and the package is version {VERSION}, expected the "
            f"same: {mend}"
        )
