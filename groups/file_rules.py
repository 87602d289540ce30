"""Whether the database lets its statements use files: asked before a store is opened.

Stores are files that the database does not open itself, so nobody else looks at its settings.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tuskml.errors import StoreError

Rule = Callable[[int, str], str | None]
"""The database by its account, and a directory; a sentence where it may not be used."""

_asking = threading.local()
_rules: list[Rule] = []


class FilesRefused(StoreError):
    """The database's settings keep its statements from files."""

    sqlstate = "42501"


def follow(rule: Rule) -> None:
    """From here on this rule is asked."""
    _rules[:] = [rule]


@contextmanager
def statement_of(account: int) -> Iterator[None]:
    """Within it this thread works for a statement of the database that has this account."""
    before = getattr(_asking, "account", None)
    _asking.account = account
    try:
        yield
    finally:
        _asking.account = before


def check(path: "Path | str") -> None:
    """FilesRefused where the statement's database does not let it use a directory."""
    account = getattr(_asking, "account", None)
    refused = _rules[0](account, str(path)) if _rules and account is not None else None
    if refused is not None:
        raise FilesRefused(refused)
