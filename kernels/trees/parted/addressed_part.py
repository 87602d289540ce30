"""The part that messages of a training of trees address, kept from message to message."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.trees.parted.trees import Listed

TREES = 4
"""Number of arrays of a message with the grown trees."""
KEPT = "tree"
"""Key of the part in the state kept with the rows."""


class Named(Protocol):
    """A part.

    name: of its training.
    """

    name: str


Kind = TypeVar("Kind", bound=Named)


def addressed_part(
    kind: type[Kind],
    arrays: list[Any],
    given: Mapping[str, Any],
    beside: Beside,
    begin_anew: Callable[[list[Any], Listed], None],
) -> tuple[Kind | None, list[Any], Listed]:
    """The part that a message addresses or None, the message's own arrays, and its trees.

    begin_anew: creates the part from the arrays of a message that sets it up.
    """
    end = given["own"] + TREES
    own, trees = arrays[: given["own"]], Listed(*arrays[given["own"] : end])
    if setup := arrays[end:]:
        begin_anew(setup, trees)
    part = beside.kept.get(KEPT)
    if not isinstance(part, kind) or part.name != given["name"]:
        return None, own, trees
    return part, own, trees


def free_part(beside: Beside) -> None:
    """Frees the part, before another one replaces it."""
    old = beside.kept.pop(KEPT, None)
    if old is not None:
        old.close()
