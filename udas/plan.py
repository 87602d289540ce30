"""How one batch of groups is trained: the planner's answer and the algorithms' settings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Every choice made; the optimizer fills what the caller left open.

    canonical: rows are first put in an order that depends on their content alone; shuffle: each
    epoch visits partitions of the rows in random order; lock_free: threads update one shared
    model; smoothing: corners of the hinge to pass
    through, the last one final ((0.0,): none); sample_stride: train on every so-maniest chunk of
    rows first (1: no such start); reason: why this plan, in words; estimated: iterations and
    seconds, where they were; unmet: the option that leaves too little for epsilon, if one does;
    device: the name of the GPU that trains.
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

    @property
    def power(self) -> int:
        """The kernels' number for the schedule: the step shrinks with t^(power/2)."""
        return {"constant": 0, "1/sqrt(i)": 1, "1/i": 2, "1/i^2": 4}[self.schedule]

    def describe(self) -> str:
        """One line for the model's `plan`."""
        parts = [self.algorithm]
        if self.algorithm in ("mgd", "hogbatch", "svrg"):
            parts.append(f"batches of {self.batch_size}")
        if self.algorithm in ("bgd", "mgd", "sgd", "hogwild", "hogbatch"):
            parts.append(f"step {self.schedule}")
        if self.sample_stride > 1:
            parts.append(f"started on 1/{self.sample_stride} of the rows")
        if len(self.smoothing) > 1:
            parts.append(f"hinge smoothed down to {self.smoothing[-1]:g}")
        parts.append("1 thread" if self.threads == 1 else f"{self.threads} threads")
        if self.device is not None:
            parts.append(f"on {self.device}")
        if self.estimated is not None:
            iterations, seconds = self.estimated
            parts.append(f"estimated {iterations:.0f} iterations, {shown_seconds(seconds)}")
        if self.unmet is not None:
            parts.append(f"{self.unmet} is too little for epsilon {self.epsilon:g}")
        return ", ".join(parts)


def shown_seconds(seconds: float) -> str:
    """Two digits and a unit: 0.46 ms, 12 ms, 3.4 s, 25 min, 4.1 h."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size * (1 if unit == "s" else 2):
            return f"{two_digits(seconds / size)} {unit}"
    return f"{two_digits(seconds * 1e3)} ms"


def two_digits(number: float) -> str:
    """Rounded to two digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.15g}"
