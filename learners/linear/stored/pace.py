"""How many threads the epochs of a stored model run on: all, or one where that is faster.

Where all weights fit into a core's cache, threads that write to the same lines may take longer
together than one alone (Niu, Recht, Re, Wright, Hogwild!, NIPS 2011, section 6, tells of the same
for dense data). Short epochs are tried both ways, as no rule tells on every machine.
"""

LONGEST = 0.25
"""Seconds of an epoch that is tried on one thread, so that trials cost little."""
TRIALS = 2
"""Epochs of either kind; the faster of them counts."""
LEAST_EPOCHS = 8
"""Epochs that a training may take, so that the faster way is worth trials."""


class Pace:
    """The threads of the next epoch, by the seconds of those before."""

    def __init__(self, most: int, epochs: int) -> None:
        """most: threads, 1 at least; epochs: that the training may take."""
        self.most = most
        self._seconds: dict[int, list[float]] = {most: [], 1: []}
        self._chosen = None if most > 1 and epochs >= LEAST_EPOCHS else most

    @property
    def threads(self) -> int:
        """For the next epoch."""
        if self._chosen is not None:
            return self._chosen
        return self.most if len(self._seconds[self.most]) < TRIALS else 1

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
        if seconds > LONGEST:
            self._chosen = self.most
        elif len(self._seconds[1]) == TRIALS:
            self._chosen = min((self.most, 1), key=lambda n: min(self._seconds[n]))
