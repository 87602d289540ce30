"""Answers of finished units in a folder, so that the same training again need not compute them.

A file has the unit's key as its name, and contains the answer's SHA-256 and the answer. The key is
a digest of the query, the options, the shards and the version of tuskml: changed units are trained
again.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from tuskml.cluster.parts.groups import PartedGroups
from tuskml.errors import DataError
from tuskml.groups.execution.choosing import Executor
from tuskml.groups.execution.executor import Outcome, Unit

Wrong = Callable[[str, bytes], str | None]
"""A function to the fault of an answer, by the unit's key; None if it is correct."""
DIGEST = hashlib.sha256().digest_size


class UnitFolder:
    """The folder of finished units; without one nothing is kept."""

    def __init__(self, folder: str | PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            try:
                self.folder.mkdir(exist_ok=True)
            except OSError as error:
                raise DataError(
                    f"finished is {str(folder)!r}, which cannot be made: {error.strerror}"
                ) from error

    def outcomes(
        self, executor: Executor, work: str, units: Sequence[Unit], led: PartedGroups, wrong: Wrong
    ) -> Iterator[Outcome]:
        """Yields the outcomes of finished units and groups first, then those of the others as
        they come.

        led: groups that leaders train.
        """
        left, keys = [], []
        for key in led.keys:
            answer = self.read(key)
            if answer is None or wrong(key, answer):
                keys.append(key)
            else:
                yield Outcome(key, answer)
        for unit in units:
            answer = self.read(unit.key)
            if answer is None or wrong(unit.key, answer):
                left.append(unit)
            else:
                yield Outcome(unit.key, answer)
        if not left and not keys:
            return
        with led.leaders(keys) as leaders:
            for outcome in executor.run(work, left, leaders):
                why = outcome.answer and wrong(outcome.key, outcome.answer)
                if why:
                    yield Outcome(outcome.key, None, str(why))
                    continue
                if outcome.answer is not None:
                    self.write(outcome.key, outcome.answer)
                yield outcome

    def read(self, key: str) -> bytes | None:
        """A unit's answer; None if there is none, or a damaged one."""
        if self.folder is None:
            return None
        try:
            data = (self.folder / f"{key}.unit").read_bytes()
        except OSError:
            return None
        answer = data[DIGEST:]
        return answer if hashlib.sha256(answer).digest() == data[:DIGEST] else None

    def write(self, key: str, answer: bytes) -> None:
        """Stores an answer; the file appears when it is complete."""
        if self.folder is None:
            return
        partial = self.folder / f".{key[:16]}-{secrets.token_hex(8)}"
        try:
            partial.write_bytes(hashlib.sha256(answer).digest() + answer)
            partial.replace(self.folder / f"{key}.unit")
        except OSError as error:
            raise DataError(
                f"the folder {str(self.folder)!r} of finished groups cannot be written: "
                f"{error.strerror}"
            ) from error
        finally:
            partial.unlink(missing_ok=True)
