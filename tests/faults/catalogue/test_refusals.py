"""What the system refuses anywhere in a training is a sentence with PostgreSQL's SQLSTATE."""

import errno
import os

import pytest

from tuskml.groups.contract.attachment import sentence, state

pytestmark = pytest.mark.fault(family="open files")

STATES = {
    errno.EMFILE: "53000",
    errno.ENFILE: "53000",
    errno.ENOSPC: "53100",
    errno.ENOMEM: "53200",
    errno.EIO: "58030",
    errno.EDQUOT: "53100",
    errno.EFBIG: "53100",
    errno.EACCES: "42501",
    errno.EPERM: "42501",
    errno.EROFS: "42501",
}


@pytest.mark.parametrize("number", STATES)
@pytest.mark.parametrize("kind", [OSError, ImportError])
def test_sentence_and_state(number: int, kind: type[Exception]) -> None:
    text = os.strerror(number)
    error = OSError(number, text, "a.py") if kind is OSError else ImportError(f"a.so: {text}")
    assert state(error) == STATES[number]
    assert text in sentence(error)
    assert "internal error" not in sentence(error)


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "no"), ImportError("no"), OSError()])
def test_others_are_internal(error: Exception) -> None:
    assert state(error) == "38000"
    assert sentence(error).startswith("internal error")
