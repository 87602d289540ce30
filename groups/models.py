"""Trained models by column: what the trainer builds and the doors copy into the database."""

import json
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.kernels import Floats
from tuskml.udas.options import Options
from tuskml.udas.plan import Plan

FORMAT = 1
"""Version of the model value; `predict` refuses others."""
HISTORY_POINTS = 200

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Lists:
    """Ragged lists: item i is values[offsets[i]:offsets[i + 1]]; an empty one is SQL NULL."""

    values: Floats
    offsets: Ints

    @classmethod
    def of_rows(cls, rows: Floats, lengths: Ints) -> "Lists":
        """The first lengths[i] values of each row of a matrix."""
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        width = rows.shape[1] if rows.ndim == 2 else 0
        if width and (lengths == width).all():
            return cls(np.ascontiguousarray(rows).ravel(), offsets)
        taken = np.arange(width) < lengths[:, None]
        return cls(np.ascontiguousarray(rows[taken]), offsets)

    def of(self, which: NDArray[np.intp]) -> "Lists":
        """Some of the items."""
        parts = [self.values[self.offsets[i] : self.offsets[i + 1]] for i in which.tolist()]
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return Lists(np.concatenate(parts), offsets)


@dataclass(frozen=True)
class Strings:
    """Strings by dictionary: item i is pool[code[i]], NULL where the code is negative."""

    pool: tuple[str, ...]
    code: NDArray[np.int32]

    @classmethod
    def same(cls, text: str | None, n: int) -> "Strings":
        if text is None:
            return cls((), np.full(n, -1, np.int32))
        return cls((text,), np.zeros(n, np.int32))


@dataclass(frozen=True)
class Models:
    """n models, fields as in design.md section 3; group: which group of the batch each is of."""

    group: Ints
    task: Strings
    coef: Lists
    intercept: Floats
    std_err: Lists
    classes: Lists
    n_rows: Ints
    n_skipped: Ints
    n_features: Ints
    loss: Floats
    history: Lists
    iterations: Ints
    converged: NDArray[np.uint8]
    status: Strings
    plan: Strings
    seconds: Floats
    options: Strings
    store: Strings = field(default_factory=lambda: Strings.same(None, 0))

    def __post_init__(self) -> None:
        if not len(self.store.code):
            object.__setattr__(self, "store", Strings.same(None, len(self.group)))

    def numbered(self, group: Ints) -> "Models":
        """The same models for groups with other numbers."""
        same = copy(self)
        object.__setattr__(same, "group", group)
        return same

    def of(self, which: NDArray[np.intp]) -> "Models":
        """Some of the models, at least one."""

        def some(value: Any) -> Any:
            if isinstance(value, Strings):
                return Strings(value.pool, value.code[which])
            return value.of(which) if isinstance(value, Lists) else value[which]

        return Models(**{f.name: some(getattr(self, f.name)) for f in fields(Models) if f.init})


def thinned(history: list[Floats], n: int) -> Lists:
    """Each group's objectives without the iterations that it rested in, at most 200 of them."""
    if not history:
        return Lists(np.empty(0), np.zeros(n + 1, np.int64))
    table = np.array(history).T
    ran = ~np.isnan(table)
    counts = ran.sum(axis=1)
    if counts.max() > HISTORY_POINTS:
        for row in np.flatnonzero(counts > HISTORY_POINTS):
            places = np.flatnonzero(ran[row])
            kept = np.linspace(0, len(places) - 1, HISTORY_POINTS).round().astype(int)
            ran[row] = False
            ran[row, places[kept]] = True
        counts = ran.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Lists(np.ascontiguousarray(table[ran]), offsets)


def resolved(options: Options, plan: Plan, more: dict[str, Any] | None = None) -> str:
    """The options that were in force, as JSON; the version comes first, where `predict` looks.

    more: members of a stored model.
    """
    shown: dict[str, Any] = {
        "tuskml": FORMAT,
        "algorithm": plan.algorithm,
        "max_iter": plan.max_iter,
        "epsilon": plan.epsilon,
        "converge": plan.converge,
        "l1": options.l1,
        "l2": options.l2,
        "fit_intercept": options.fit_intercept,
        "threads": plan.threads,
        "seed": options.seed,
        "deterministic": options.ordered,
    }
    shown |= dict(plan.own_parts())
    if plan.family not in ("newton", "lbfgs"):
        shown |= {"step": plan.step, "schedule": plan.schedule, "batch_size": plan.batch_size}
    if plan.device is not None:
        shown["device"] = "gpu"
    if plan.estimated is not None:
        iterations, seconds = plan.estimated
        shown["estimated"] = {
            "iterations": round(iterations),
            "seconds": float(f"{seconds:.2g}"),
        }
    if options.class_weight is not None:
        shown["class_weight"] = options.class_weight
    if options.validation:
        shown["validation"] = options.validation
    return json.dumps(shown | (more or {}), separators=(",", ":"))


def by_group(text: str, n: int, more: dict[str, tuple[NDArray[np.bool_], Floats]]) -> Strings:
    """Options as JSON of n groups; more: by name, numbers (n,) and which groups have them."""
    pool, code = [text], np.zeros(n, np.int32)
    for name, (where, numbers) in more.items():
        values, place = np.unique(numbers[where], return_inverse=True)
        code[where] = len(pool) + place
        pool += [f'{text[:-1]},"{name}":{value:.15g}}}' for value in values]
    return Strings(tuple(pool), code)


def joined(parts: list[Models]) -> Models:
    """Several batches of models as one."""

    def together(name: str) -> object:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], Lists):
            lengths = np.concatenate([np.diff(v.offsets) for v in values])
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            return Lists(np.concatenate([v.values for v in values]), offsets)
        if isinstance(values[0], Strings):
            return _joined_strings(values)
        return np.concatenate(values)

    names = [f.name for f in fields(Models) if f.init]
    return Models(**{name: together(name) for name in names})  # type: ignore[arg-type]


def _joined_strings(parts: list[Strings]) -> Strings:
    pool: list[str] = []
    codes = []
    for part in parts:
        codes.append(np.where(part.code < 0, -1, part.code + len(pool)).astype(np.int32))
        pool.extend(part.pool)
    return Strings(tuple(pool), np.concatenate(codes))
