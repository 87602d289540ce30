"""What a training of a stored model asked of its store: exact counts and seconds by phase, kept
with the model.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from tuskml.kvstore.working.frames import FrameCounters


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time of the context."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - began)

    def add(self, name: str, seconds: float) -> None:
        """Adds to a phase."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def spent(self, *names: str) -> float:
        """Seconds of some phases so far."""
        return sum(self.seconds.get(name, 0.0) for name in names)


@dataclass(frozen=True)
class Counters:
    """Of one training, since it began or was resumed; trials of steps have memory of their own.

    Every distinct feature of a chunk of rows, in every epoch, is either saved by partitioning,
    saved by pushing, a cache hit or a request: these four add up to `features`.

    features: distinct features of the chunks, summed over chunks and epochs: the requests of a
    store with a key per feature and without a cache (Qin, Torres, Rusu, VLDB 2017, fig. 4d); with
    l1 or l2 also the keys that are brought up to date at checkpoints and at the end;
    saved_by_partitioning: features less the keys that hold them; saved_by_pushing: keys that
    another worker read and handed to this one before it asked for them, with option 'sharing' of
    'push'; cache_hits: keys that were in memory otherwise, or that another worker was reading;
    requests: keys read from the store;
    found: of them, those it had; writes: keys written; bytes_read, bytes_written: of payloads;
    seconds: by phase; of the phases that workers share, summed over the workers.
    """

    features: int
    saved_by_partitioning: int
    saved_by_pushing: int
    cache_hits: int
    requests: int
    found: int
    writes: int
    bytes_read: int
    bytes_written: int
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_frames(cls, counted: FrameCounters, features: int, saved: int, clock: Clock) -> Self:
        """What the cache counted, and the phases of the clock with its own.

        features, saved: as `features` and `saved_by_partitioning`.
        """
        waits = {"read": counted.reading, "write": counted.writing, "wait": counted.waiting}
        return cls(
            features=features,
            saved_by_partitioning=saved,
            saved_by_pushing=counted.pushed,
            cache_hits=counted.hits,
            requests=counted.requests,
            found=counted.found,
            writes=counted.written,
            bytes_read=counted.bytes_read,
            bytes_written=counted.bytes_written,
            seconds=clock.seconds | {name: ns / 1e9 for name, ns in waits.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON; seconds to the microsecond."""
        shown = asdict(self)
        shown["seconds"] = {name: round(value, 6) for name, value in self.seconds.items()}
        return shown
