"""Trained models by column: the trainer builds them and C copies them into the database."""

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats

FORMAT = 1
"""Version of the model value; `predict` refuses others."""
HISTORY_POINTS = 200

Ints = NDArray[np.int64]


def options_text(options: object, names: Iterable[str], **more: Any) -> str:
    """A model's field `options`: those of these names in force, as JSON that starts with the
    version of the format. more: further ones, or replacements.
    """
    chosen = {name: getattr(options, name) for name in names} | more
    return json.dumps({"tuskml": FORMAT} | chosen, separators=(",", ":"))


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
        """Selects some of the items."""
        places = which.tolist()
        return Lists.of_parts([self.values[self.offsets[i] : self.offsets[i + 1]] for i in places])

    @classmethod
    def of_parts(cls, parts: Sequence[Floats]) -> "Lists":
        """Makes an item of each of the arrays, of shape (length,); there is at least one. Parts
        that together are one contiguous array are not copied.
        """
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        whole = whole_of([part for part in parts if len(part)], int(offsets[-1]))
        return cls(np.concatenate(parts) if whole is None else whole, offsets)


def whole_of(parts: Sequence[Floats], n: int) -> Floats | None:
    """The array of n doubles whose consecutive parts these are; None if there is none."""
    whole = parts[0].base if parts else None
    if not isinstance(whole, np.ndarray) or whole.dtype != np.float64 or whole.shape != (n,):
        return None
    at = whole.__array_interface__["data"][0]
    for part in parts:
        about = part.__array_interface__
        if part.base is not whole or about["data"][0] != at or about["strides"] is not None:
            return None
        at += part.nbytes
    return whole


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
class Names:
    """Lists of strings by dictionary: item i is pool[code[i]], NULL where the code is negative."""

    pool: tuple[tuple[str, ...], ...]
    code: NDArray[np.int32]

    @classmethod
    def same(cls, names: tuple[str, ...] | None, n: int) -> "Names":
        """Makes the same list for n models, or none."""
        return (
            cls((), np.full(n, -1, np.int32))
            if names is None
            else cls((names,), np.zeros(n, np.int32))
        )


@dataclass(frozen=True)
class Models:
    """n models, fields as in design.md section 3; group: which group of the batch each is of.

    covariance: of the coefficients (d, d), and ratios, degrees of freedom and statistic of each
    term's likelihood ratio, (2 T,), are on the way to tests of terms; models do not keep them.
    """

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
    features: Names = field(default_factory=lambda: Names.same(None, 0))
    preparation: Strings = field(default_factory=lambda: Strings.same(None, 0))
    trials: Strings = field(default_factory=lambda: Strings.same(None, 0))
    class_names: Names = field(default_factory=lambda: Names.same(None, 0))
    note: Strings = field(default_factory=lambda: Strings.same(None, 0))
    covariance: Lists = field(default_factory=lambda: Lists(np.empty(0), np.zeros(1, np.int64)))
    ratios: Lists = field(default_factory=lambda: Lists(np.empty(0), np.zeros(1, np.int64)))

    def __post_init__(self) -> None:
        n = len(self.group)
        for name in ("store", "preparation", "trials", "note"):
            if not len(getattr(self, name).code):
                object.__setattr__(self, name, Strings.same(None, n))
        for name in ("covariance", "ratios"):
            if len(getattr(self, name).offsets) != n + 1:
                none = Lists(np.empty(0), np.zeros(n + 1, np.int64))
                object.__setattr__(self, name, none)
        for name in ("features", "class_names"):
            if not len(getattr(self, name).code):
                object.__setattr__(self, name, Names.same(None, n))

    @classmethod
    def built(cls, groups: NDArray[np.void], task: str, **given: Any) -> "Models":
        """Makes models of groups (`passes.GROUP`), in their order.

        given: fields by name. A text is the same for all models; missing lists are NULL, counts of
        rows and features are the groups', other numbers 0.
        """
        n = len(groups)
        none = Lists(np.empty(0), np.zeros(n + 1, np.int64))
        plain: dict[str, Any] = {
            "group": np.arange(n),
            "task": task,
            "coef": none,
            "intercept": np.zeros(n),
            "std_err": none,
            "classes": none,
            "n_rows": groups["n_rows"].copy(),
            "n_skipped": groups["n_skipped"].copy(),
            "n_features": groups["dim"].astype(np.int64),
            "loss": np.zeros(n),
            "history": none,
            "iterations": np.zeros(n, np.int64),
            "converged": np.zeros(n, np.uint8),
            "seconds": np.zeros(n),
        } | given
        texts = {k: Strings.same(v, n) for k, v in plain.items() if isinstance(v, str)}
        return cls(**(plain | texts))

    def numbered(self, group: Ints) -> "Models":
        """Returns the models with other group numbers."""
        same = copy(self)
        object.__setattr__(same, "group", group)
        return same

    def of(self, which: NDArray[np.intp]) -> "Models":
        """Selects some of the models, at least one."""

        def some(value: Any) -> Any:
            if isinstance(value, Strings | Names):
                return replace(value, code=value.code[which])
            return value.of(which) if isinstance(value, Lists) else value[which]

        return Models(**{f.name: some(getattr(self, f.name)) for f in fields(Models) if f.init})


def thinned(history: list[Floats], n: int) -> Lists:
    """Each group's objectives without the iterations in which it was inactive, at most 200 of
    them.
    """
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


def by_group(text: str, n: int, more: dict[str, tuple[NDArray[np.bool_], Floats]]) -> Strings:
    """Options as JSON of n groups; more: by name, numbers (n,) and which groups have them, where
    they are finite."""
    pool, code = [text], np.zeros(n, np.int32)
    for name, (known, numbers) in more.items():
        where = known & np.isfinite(numbers)
        if not where.any():
            continue
        keys = np.stack([code[where].astype(float), numbers[where]], axis=1)
        pairs, place = np.unique(keys, axis=0, return_inverse=True)
        code[where] = len(pool) + place.reshape(-1)
        pool += [f'{pool[int(before)][:-1]},"{name}":{value:.15g}}}' for before, value in pairs]
    return Strings(tuple(pool), code)


def joined(parts: list[Models]) -> Models:
    """Several batches of models as one."""

    def together(name: str) -> object:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], Lists):
            lengths = np.concatenate([np.diff(v.offsets) for v in values])
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            return Lists(np.concatenate([v.values for v in values]), offsets)
        if isinstance(values[0], Strings | Names):
            return _joined_pools(values)
        return np.concatenate(values)

    names = [f.name for f in fields(Models) if f.init]
    return Models(**{name: together(name) for name in names})  # type: ignore[arg-type]


def _joined_pools(parts: list[Any]) -> Any:
    """Strings or Names of several batches as one."""
    pool: list[Any] = []
    codes = []
    for part in parts:
        codes.append(np.where(part.code < 0, -1, part.code + len(pool)).astype(np.int32))
        pool.extend(part.pool)
    return type(parts[0])(tuple(pool), np.concatenate(codes))
