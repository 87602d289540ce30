"""What trainings report while they run, for progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """groups: finished just now (0 within a training); rows: of those; iteration: of the batch."""

    groups: int
    rows: int
    iteration: int
    objective: float


Listener = Callable[[Event], None]
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Calls listener with each event while the context lasts, from whatever thread trains."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def anyone() -> bool:
    """Whether someone listens."""
    return bool(_listeners)


def tell(event: Event) -> None:
    """Hands the event to all listeners."""
    for listener in tuple(_listeners):
        listener(event)
