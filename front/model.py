"""A trained model in Python: the fields of the model value that SQL has."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tuskml.groups.models import Lists, Models, Strings


@dataclass(frozen=True)
class Model:
    """What `tuskml.train` returns for one group; the fields are those of SQL's model value.

    coef: one a feature, None where the model lies in a store; std_err: the intercept's first;
    classes: the two labels in rising order, None for `linear`; n_rows: rows used, n_skipped: rows
    with a NULL; loss: the objective at the result; history: the objective by iteration, at most
    200 points; options: those in force, and the `counters` of trainings that count something.
    """

    task: str
    coef: list[float] | None
    intercept: float
    std_err: list[float | None] | None
    classes: list[float] | None
    n_rows: int
    n_skipped: int
    n_features: int
    loss: float
    history: list[float] | None
    iterations: int
    converged: bool
    status: str
    plan: str
    seconds: float
    options: dict[str, Any]
    store: str | None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Model":
        """The model value of a row; `options` is JSON text there."""
        taken = {name: value[name] for name in FIELDS}
        return cls(**taken | {"options": json.loads(value["options"] or "{}")})

    @classmethod
    def of_batch(cls, models: Models, place: int) -> "Model":
        """One of the models that a trainer returned."""

        def item(column: Any) -> Any:
            if isinstance(column, Lists):
                begin, end = column.offsets[place : place + 2]
                values = column.values[begin:end].tolist()
                return [None if math.isnan(value) else value for value in values] or None
            if isinstance(column, Strings):
                code = column.code[place]
                return None if code < 0 else column.pool[code]
            return column[place].item()

        value = {name: item(getattr(models, name)) for name in FIELDS}
        return cls.of(value | {"converged": bool(value["converged"])})

    def as_dict(self) -> dict[str, Any]:
        """Field by field, for JSON."""
        return asdict(self)


FIELDS = tuple(field.name for field in fields(Model))
