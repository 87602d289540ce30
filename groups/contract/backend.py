"""The trainer inside a PostgreSQL backend, reached through one PL/Python function.

That function takes no arguments: it asks `udas/postgres/training/trainer.c` for the current batch
by name, so that a direct call finds none, and no caller can make up pointers.
"""

import ctypes
import importlib
import json
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuskml.errors import ExtensionError, StoreError
from tuskml.groups import records
from tuskml.groups.contract.attachment import BATCH, refuse
from tuskml.groups.contract.trainer import answer
from tuskml.kernels import passes
from tuskml.kernels.open_rows import error_text
from tuskml.kvstore import access
from tuskml.learners import events

NOTICE_SECONDS = 1.0


class Progress:
    """Tells the client at most once a second how far the batch is, nothing of short trainings."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._told = time.monotonic()
        self._groups = 0

    def __call__(self, event: events.Event) -> None:
        self._groups += event.groups
        if event.groups or time.monotonic() - self._told < NOTICE_SECONDS:
            return
        self._told = time.monotonic()
        done = f"{self._groups} models done, " if self._groups else ""
        text = f"{done}iteration {event.iteration}, objective {event.objective:.6g}"
        self._library.tuskml_tell(text.encode())


class Roles:
    """The role that this backend trains for, and what that role may read
    (`udas/postgres/owners.c`).
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.tuskml_store_owner.restype = ctypes.c_char_p
        library.tuskml_store_roots.restype = ctypes.c_char_p

    def _note(self) -> dict[str, Any]:
        text = self._library.tuskml_store_owner()
        if text is None:
            raise StoreError("a store belongs to the role that trains, and no training is running")
        noted: dict[str, Any] = json.loads(text.decode(errors="replace"))
        return noted

    def owner(self) -> access.Owner:
        """The current user, and the database."""
        return access.Owner(**{k: v for k, v in self._note().items() if k != "training"})

    def training(self) -> str:
        """The identifier of this statement's trainings."""
        return str(self._note()["training"])

    def roots(self, name: str) -> list[Path]:
        """The folders of other roles whose stores of this name the current user may read."""
        text = self._library.tuskml_store_roots(name.encode())
        if text is None:
            raise StoreError("looking for stores failed")
        return [Path(line) for line in os.fsdecode(text).splitlines()]


class ServerLog(logging.Handler):
    """Writes lines to the server's log."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__()
        self._library = library

    def emit(self, record: logging.LogRecord) -> None:
        """Hands it one."""
        self._library.tuskml_log(record.getMessage().encode(errors="replace"))


def trainer(version: str) -> Callable[[], None]:
    """The function that PL/Python calls, which trains the current batch. version: the
    package's.
    """
    library = ctypes.CDLL(None)  # the server and the extension, whose names are visible to all
    library.tuskml_current_batch.restype = BATCH
    library.tuskml_version.restype = ctypes.c_char_p
    library.tuskml_batch_bytes.restype = ctypes.c_int64
    library.tuskml_modules_now.restype = ctypes.c_char_p
    library.tuskml_log_level_now.restype = ctypes.c_char_p
    records.to_handler(ServerLog(library))
    access.serve(Roles(library))
    passes.library().tk_watch_host(ctypes.cast(library.tuskml_interrupted, ctypes.c_void_p))

    def call() -> None:
        pointer = library.tuskml_current_batch()
        if not pointer:
            raise ExtensionError(
                "there is nothing to train: only train_model may call this function"
            )
        try:
            check_version(library, version)
            records.set_level(library.tuskml_log_level_now().decode(), "tuskml.log_level")
            load_modules(os.fsdecode(library.tuskml_modules_now() or b""))
            with events.listening(Progress(library)):
                answer(library, pointer)
        except BaseException as error:
            refuse(pointer.contents, error)
        else:
            library.tuskml_answered()

    return call


_loaded: set[str] = set()


def load_modules(setting: str) -> None:
    """Imports the modules that the setting `tuskml.modules` names, each once a session.

    They register tasks and operators; their threads leave the server's signals alone.
    """
    for name in filter(None, (part.strip() for part in setting.split(","))):
        if name in _loaded:
            continue
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            importlib.import_module(name)
        except Exception as error:
            raise ExtensionError(
                f"tuskml.modules names '{name}', which {error_text(error)}, expected a module in "
                "a folder of tuskml.python_path"
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _loaded.add(name)


def check_version(library: ctypes.CDLL, version: str) -> None:
    """Checks that the extension's library and the package are of one build."""
    found = library.tuskml_version().decode()
    if found != version or library.tuskml_batch_bytes() != ctypes.sizeof(BATCH._type_):
        raise ExtensionError(
            f"the extension is version {found} and the Python package is version {version}, "
            "expected the same: run tuskml postgres install, then reconnect"
        )
