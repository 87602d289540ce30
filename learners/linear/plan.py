"""The plan of a batch of groups: the planner's answer and the algorithms' settings."""

from dataclasses import dataclass

from tuskml.learners.options.kinds import POWERS


@dataclass(frozen=True)
class Plan:
    """All choices of a training; the optimizer makes those that the options leave open.

    canonical: rows are first put in an order that depends on their content alone; shuffle: each
    epoch visits partitions of the rows in random order; lock_free: threads update one shared
    model; smoothing: corners of the hinge to pass through, the last one final ((0.0,): none);
    sample_stride: train on every k-th chunk of rows first (1: no such start); reason: why this
    plan, in words; estimated: iterations and seconds, if any; unmet: the option that leaves too
    little for epsilon, if one does; device: the name of the GPU that trains; base: the built-in
    algorithm of a custom one; sampler, transform: custom ones, if any.
    """

    algorithm: str
    max_iter: int
    epsilon: float
    converge: str
    step: float | str
    schedule: str
    batch_size: int
    canonical: bool
    shuffle: bool
    lock_free: bool
    seed: int
    threads: int
    smoothing: tuple[float, ...]
    sample_stride: int
    reason: str
    estimated: tuple[float, float] | None = None
    unmet: str | None = None
    device: str | None = None
    base: str | None = None
    sampler: str | None = None
    transform: str | None = None
    after: str | None = None

    @property
    def is_plain(self) -> bool:
        """Returns whether all of its operators are built in."""
        return self.base is None and not self.own_parts()

    @property
    def family(self) -> str:
        """The built-in algorithm that this is or is based on."""
        return self.base or self.algorithm

    @property
    def power(self) -> int:
        """The kernels' number for the schedule: the step shrinks with t^(power/2)."""
        return round(2 * POWERS[self.schedule])

    def own_parts(self) -> list[tuple[str, str]]:
        """The custom operators that options name."""
        given = {"sampler": self.sampler, "transform": self.transform}
        if self.converge not in ("gradient", "weights", "loss"):
            given["converge"] = self.converge
        return [(kind, name) for kind, name in given.items() if name is not None]
