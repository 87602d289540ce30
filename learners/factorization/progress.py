"""The progress of a stored factorization, as its checkpoints record it."""

from dataclasses import asdict, dataclass, field, replace

from tuskml.kernels.factorization import Shape
from tuskml.learners.stored.progress import Facts, refuse_others


def facts_of(n_rows: int, shape: Shape, mean: float) -> Facts:
    """Facts that identify a training's ratings and vectors, in any order of rows."""
    return {
        "task": "matrix_factorization",
        "n_rows": n_rows,
        "n_users": shape.n_users,
        "n_items": shape.n_items,
        "mean": f"{mean:.6g}",
        "rank": shape.rank,
        "biases": shape.biases,
    }


def _describe(facts: Facts) -> str:
    return (
        f"task '{facts.get('task')}', rank {facts.get('rank')}, "
        f"{'with' if facts.get('biases') else 'no'} biases, over {facts.get('n_rows')} rows of "
        f"{facts.get('n_users')} users and {facts.get('n_items')} items, mean {facts.get('mean')}"
    )


@dataclass
class Progress:
    """step: of the first epoch; per_key: vectors that share a key; history: the objectives of the
    epochs that are done.
    """

    step: float
    per_key: int
    history: list[float] = field(default_factory=list)

    def further(self, history: list[float]) -> "Progress":
        """Returns a copy with a longer history."""
        return replace(self, history=history)

    def as_record(self, facts: Facts) -> Facts:
        """The record for a checkpoint's metadata."""
        return asdict(self) | {"of": facts}

    @classmethod
    def from_record(cls, record: Facts, facts: Facts) -> "Progress":
        """Restores a record of `as_record`; raises StoreError if it is of other ratings or another
        task.
        """
        refuse_others(record, facts, _describe)
        return cls(**{name: value for name, value in record.items() if name != "of"})
