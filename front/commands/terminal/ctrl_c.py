"""Ctrl-C for the command line: it ends a training at any time.

A signal that arrives after the start of a statement and before that of its training is otherwise
lost: Python's handlers run between bytecodes of the main thread, which waits in the database, and
the training does not watch signals yet.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 0.1


@contextmanager
def ends_trainings() -> Iterator[None]:
    """Within it a SIGINT cancels all trainings, later ones too; then restores the handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before, over = signal.set_wakeup_fd(writer, warn_on_full_buffer=False), threading.Event()

    def watch() -> None:
        while received := os.read(reader, 1):
            from tuskml.kernels.passes import cancel  # slow to import

            while received[0] == signal.SIGINT and not over.wait(SECONDS):
                cancel()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writer)
        thread.join()
        os.close(reader)
