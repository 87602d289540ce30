"""How many threads the epochs of a stored model run on: all, or one where that is faster.

Where all weights fit into a core's cache, threads that write to the same lines may take longer
together than one alone (Niu, Recht, Re, Wright, Hogwild!, NIPS 2011, section 6, tells of the same
for dense data). Short epochs are tried both ways, as no rule tells on every machine: by one
thread, by all, and once more by one if all were faster, as the first epoch finds nothing in the
caches. So where threads are in each other's way, one epoch alone is slower for the trial.
"""

MOST_ENTRIES = 1 << 24
"""Of the rows, where an epoch is tried on one thread, so that trials cost little."""
LONGEST = 0.25
"""Seconds of an epoch on one thread after which there is no other trial."""
LEAST_EPOCHS = 8
"""Epochs that a training may take, so that the faster way is worth trials."""
LEAST_ALONE = 2
"""Epochs by one thread before all threads are said to be faster."""


class Pace:
    """The threads of the next epoch, by the seconds of those before."""

    def __init__(self, most: int, epochs: int, entries: int = 0) -> None:
        """most: threads, 1 at least; epochs: that the training may take; entries: of its rows."""
        self.most = most
        self._seconds: dict[int, list[float]] = {most: [], 1: []}
        tried = most > 1 and epochs >= LEAST_EPOCHS and entries <= MOST_ENTRIES
        self._chosen = None if tried else most

    @property
    def threads(self) -> int:
        """For the next epoch."""
        if self._chosen is not None:
            return self._chosen
        return self.most if len(self._seconds[1]) > len(self._seconds[self.most]) else 1

    @property
    def told(self) -> str:
        """In words, for the model's `plan`."""
        alone = self.most > 1 and self._chosen == 1
        return f", by 1 of {self.most} threads, which is faster" if alone else ""

    def took(self, seconds: float) -> None:
        """The seconds of an epoch on `threads`."""
        if self._chosen is not None:
            return
        self._seconds[self.threads].append(seconds)
        alone, together = self._seconds[1], self._seconds[self.most]
        if min(alone) > LONGEST:
            self._chosen = self.most
        elif together:
            faster = min(together) < min(alone)
            if not faster or len(alone) == LEAST_ALONE:
                self._chosen = self.most if faster else 1
