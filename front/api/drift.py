"""How far the columns of new rows have drifted from those of reference rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuskml.api.prediction import Scoring
from tuskml.databases.database import kind_of
from tuskml.databases.sources import Scope
from tuskml.errors import DataError

NUMBERS = ("number", "boolean")
LEAST_SHARE = 1e-4
"""An empty bin's share in the index, as in SQL's `psi`."""


@dataclass(frozen=True)
class Drift:
    """One column. psi: the population stability index, over deciles of the reference's numbers, or
    over the values of text and dates; ks: the largest distance between the distributions of
    numbers, or the least that it may be where `ks_high` is the most; missing: the shares of NULL
    in the reference and in the new rows. None where there are no values.
    """

    name: str
    psi: float | None
    ks: float | None
    missing: tuple[float | None, float | None]
    ks_high: float | None = None


def drifts(new: Scope, reference: Scope, texts: Sequence[str]) -> list[Drift]:
    """Compares columns or SQL expressions of two sources of one database, the furthest first.

    Raises DataError for a column that a source lacks, and for arrays.
    """
    kinds = [kind_of(kind) for kind in new.types([new.sql(t, "features") for t in texts], "rows")]
    for text, kind in zip(texts, kinds, strict=True):
        if kind not in (*NUMBERS, "category", "date"):
            raise DataError(f"feature {text!r} is an array, expected columns that can be compared")
    pairs = list(zip(texts, kinds, strict=True))
    both = " UNION ALL ".join(
        f"SELECT {old} AS tusk_new, {columns(scope, pairs)} FROM {scope.source.sql}"
        for scope, old in ((reference, "false"), (new, "true"))
    )
    measures = [name for k, (_, kind) in enumerate(pairs) for name in measures_of(new, k, kind)]
    (row,) = new.database.fetch(f"SELECT {', '.join(measures)} FROM ({both}) AS both_rows")
    values = iter(row)
    found = []
    for k, (text, kind) in enumerate(pairs):
        missing = share(next(values)), share(next(values))
        is_number = kind in NUMBERS
        psi, ks = (next(values), next(values)) if is_number else (index_in(new, k, both), None)
        found.append(Drift(text, psi, ks, missing))
    return sorted(found, key=lambda one: -(one.psi or 0.0))


def drifts_from_models(scoring: Scoring) -> list[Drift]:
    """How far rows are from the histograms of their models, the furthest first: a line for each
    feature, and for each group that has a model with a histogram.
    """
    database, models = scoring.database, scoring.models
    ((_, kind),) = database.columns(f"SELECT models.tusk_model FROM {models.sql}")
    if kind.startswith("STRUCT") and "histogram VARCHAR" not in kind.replace('"', ""):
        return []  # models of an older version
    keys = "".join(f"rows.tusk_g{k}, " for k in range(len(scoring.keys)))
    call = f"{database.function('drift')}(models.tusk_model, rows.tusk_x)"
    names = ("feature", "psi", "ks_low", "nulls_before", "nulls_now", "ks_high")
    rows = database.fetch(
        f"SELECT {keys.replace('rows.', '')}{', '.join(f'(line).{name}' for name in names)} FROM ("
        f"SELECT {keys}unnest({call}) AS line FROM {scoring.join_query([])} "
        "WHERE (models.tusk_model).histogram IS NOT NULL"
        f"{f' GROUP BY {keys[:-2]}' if keys else ''}) AS lines"
    )
    found = []
    for row in rows:
        group, (name, psi, ks, before, now, high) = row[: -len(names)], row[-len(names) :]
        where = f" ({', '.join(map(str, group))})" if group else ""
        found.append(Drift(f"{name}{where}", psi, ks, (before, now), high))
    return sorted(found, key=lambda one: -(one.psi or 0.0))


def share(found: Any) -> float | None:
    """A mean as a number; of no rows it is None."""
    return None if found is None else float(found)


def columns(scope: Scope, pairs: Sequence[tuple[str, str]]) -> str:
    """SQL of the columns, as doubles and texts."""
    shown = []
    for k, (text, kind) in enumerate(pairs):
        sql = scope.sql(text, "features")
        number = f"CAST({sql} AS int)" if kind == "boolean" else sql
        cast = f"CAST({number} AS double precision)" if kind in NUMBERS else f"CAST({sql} AS text)"
        shown.append(f"{cast} AS tusk_x{k}")
    return ", ".join(shown)


def measures_of(scope: Scope, k: int, kind: str) -> list[str]:
    """SQL of the shares of NULL of column k in both sources, and of numbers its two distances."""
    missing = [
        f"avg(CASE WHEN tusk_x{k} IS NULL THEN 1.0 ELSE 0.0 END) FILTER (WHERE tusk_new = {new})"
        for new in ("false", "true")
    ]
    names = ("psi", "ks") if kind in NUMBERS else ()
    return [*missing, *(f"{scope.database.function(name)}(tusk_new, tusk_x{k})" for name in names)]


def index_in(scope: Scope, k: int, both: str) -> float | None:
    """The index of column k, of text or dates."""
    counts = scope.database.fetch(
        f"SELECT count(*) FILTER (WHERE NOT tusk_new), count(*) FILTER (WHERE tusk_new) "
        f"FROM ({both}) AS both_rows WHERE tusk_x{k} IS NOT NULL GROUP BY tusk_x{k}"
    )
    return index_of([(int(a), int(b)) for a, b in counts])


def index_of(counts: Sequence[tuple[int, int]]) -> float | None:
    """The population stability index of values' counts; None where one side has none."""
    old, new = (sum(side) for side in zip(*counts, strict=True)) if counts else (0, 0)
    if not old or not new:
        return None
    shares = [(max(a / old, LEAST_SHARE), max(b / new, LEAST_SHARE)) for a, b in counts]
    return math.fsum((b - a) * math.log(b / a) for a, b in shares)
