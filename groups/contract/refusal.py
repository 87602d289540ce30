"""Errors for a database: a sentence and an SQLSTATE for any exception.

A callback from C has no caller that an exception could reach: an uncaught one is lost, and the
answer is an arbitrary register. So the functions here must not fail, whatever the error is.
"""

from typing import Any

from tuskml.errors import OF_SYSTEM, TuskError, memory_for, system_errno

ROOM = 1000
"""Bytes of a sentence."""
FAILED, NO_MEMORY, INTERRUPTED = "38000", "53200", "57014"
LAST_RESORT = b"the training failed, and so did saying why"


def sentence(error: BaseException) -> str:
    """The message for a person: our own errors unchanged, others with their type."""
    if isinstance(error, KeyboardInterrupt):
        return "the training was interrupted"
    if _is_of_memory(error):
        return _of_memory(_text(error))
    if isinstance(error, TuskError):
        return _text(error)
    if number := _error_code(error):
        return f"{_text(error)}: {OF_SYSTEM[number][1]}"
    return f"internal error, {type(error).__name__}: {_text(error)}"


def _is_of_memory(error: BaseException) -> bool:
    """Returns whether there was no memory: for Python, or for DuckDB, which this side does not
    import.
    """
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException"


def _error_code(error: BaseException) -> int:
    try:
        return system_errno(error)
    except Exception:  # of an error that cannot be shown
        return 0


def _of_memory(text: str) -> str:
    """Adds advice to errors of NumPy and Python on memory."""
    if "memory_limit" in text:
        return text
    return f"no memory for {memory_for(text)}: raise memory_limit"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "it cannot be shown"


def state(error: BaseException) -> str:
    """The SQLSTATE of an error: five characters."""
    if _is_of_memory(error):
        return NO_MEMORY
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if number := _error_code(error):
        return OF_SYSTEM[number][0]
    found = getattr(error, "sqlstate", FAILED) if isinstance(error, TuskError) else FAILED
    fits = isinstance(found, str) and len(found) == 5 and found.isascii() and found.isalnum()
    return found if fits else FAILED


def one_line(text: str) -> str:
    """The text in one line of characters that every terminal and encoding has."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def cut(text: str) -> bytes:
    """The text cut to the buffer's size, in whole characters."""
    line = one_line(text[: 4 * ROOM]).encode(errors="backslashreplace")
    return line[:ROOM].decode(errors="ignore").encode()


def refuse(batch: Any, error: BaseException) -> None:
    """Stores the error and its SQLSTATE in the batch. Raises nothing."""
    try:
        batch.error, batch.sqlstate = LAST_RESORT, FAILED.encode()
        batch.sqlstate = state(error).encode()
        batch.error = cut(sentence(error)) or LAST_RESORT
    except BaseException:  # of an error that cannot be formatted: the first values stay
        return
