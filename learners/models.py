"""Trained models by column: the trainer builds them and C copies them into the database."""

import ctypes
import functools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Pass, address_of, label_ranges, leaks
from tuskml.kernels.segments import rows_given
from tuskml.schedule import budget
from tuskml.udas.model_fields import MODEL_FIELDS

FORMAT = 1
"""Version of the model value; `predict` refuses others."""
HISTORY_POINTS = 200

Ints = NDArray[np.int64]


def options_text(options: object, names: Iterable[str], **more: Any) -> str:
    """A model's field `options`: those of these names in force, as JSON that starts with the
    version of the format. more: further ones, or replacements.
    """
    values = ((name, getattr(options, name)) for name in names)
    chosen = {name: getattr(value, "as_given", value) for name, value in values} | more
    return json.dumps({"tuskml": FORMAT} | chosen, separators=(",", ":"))


def threads_text(options: Any) -> str:
    """The number of threads of a training, for its plan."""
    threads = budget.threads(options.threads)
    return f"{threads} thread{'s' if threads > 1 else ''}"


def with_members(text: str, more: str) -> str:
    """The JSON text of an object, and behind its members those of another one; both have some."""
    return f"{text[:-1]},{more[1:]}"


@dataclass(frozen=True)
class Lists:
    """Ragged lists: item i is values[offsets[i]:offsets[i + 1]]; an empty one is SQL NULL."""

    values: Floats
    offsets: Ints

    @classmethod
    def none(cls, n: int) -> "Lists":
        """Makes n empty lists."""
        return cls(np.empty(0), np.zeros(n + 1, np.int64))

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
    def of(cls, texts: Iterable[str], pool: tuple[str, ...]) -> "Strings":
        """Encodes texts, all of which are in the pool."""
        return cls(pool, np.array([pool.index(one) for one in texts], np.int32))

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
    covariance: Lists = field(default_factory=lambda: Lists.none(0))
    ratios: Lists = field(default_factory=lambda: Lists.none(0))
    spread: Lists = field(default_factory=lambda: Lists.none(0))
    histogram: Strings = field(default_factory=lambda: Strings.same(None, 0))

    def __post_init__(self) -> None:
        n = len(self.group)
        for name in ("store", "preparation", "trials", "note", "histogram"):
            if not len(getattr(self, name).code):
                object.__setattr__(self, name, Strings.same(None, n))
        for name in ("covariance", "ratios", "spread"):
            if len(getattr(self, name).offsets) != n + 1:
                object.__setattr__(self, name, Lists.none(n))
        for name in ("features", "class_names"):
            if not len(getattr(self, name).code):
                object.__setattr__(self, name, Names.same(None, n))

    @classmethod
    def build(cls, groups: NDArray[np.void], task: str, **given: Any) -> "Models":
        """Makes models of groups (`passes.GROUP`), in their order.

        given: fields by name. A text is the same for all models; missing lists are NULL, counts of
        rows and features are the groups', other numbers 0.
        """
        n = len(groups)
        none = Lists.none(n)
        plain: dict[str, Any] = {
            "group": np.arange(n),
            "task": task,
            "coef": none,
            "intercept": np.zeros(n),
            "std_err": none,
            "classes": none,
            "n_rows": rows_given(groups),
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

    def renumber(self, group: Ints) -> "Models":
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


def seconds_by_group(groups: NDArray[np.void], began: float) -> Floats:
    """The seconds since `began`, divided between groups (GROUP) by their rows, (G,)."""
    n_rows = groups["n_rows"]
    return (time.monotonic() - began) * n_rows / max(int(n_rows.sum()), 1)


def thin_history(history: list[Floats], n: int) -> Lists:
    """Each group's objectives without the iterations in which it was inactive, at most 200 of
    them.
    """
    if not history:
        return Lists.none(n)
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


def by_group(texts: Strings, more: dict[str, tuple[NDArray[np.bool_], Floats]]) -> Strings:
    """Options as JSON of n groups; more: by name, numbers (n,) and which groups have them, where
    they are finite."""
    pool, code = [*texts.pool], texts.code.copy()
    for name, (known, numbers) in more.items():
        where = known & np.isfinite(numbers)
        if not where.any():
            continue
        keys = np.stack([code[where].astype(float), numbers[where]], axis=1)
        pairs, place = np.unique(keys, axis=0, return_inverse=True)
        code[where] = len(pool) + place.reshape(-1)
        pool += [f'{pool[int(before)][:-1]},"{name}":{value:.15g}}}' for before, value in pairs]
    return Strings(tuple(pool), code)


def join_models(parts: list[Models]) -> Models:
    """Several batches of models as one."""

    def together(name: str) -> object:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], Lists):
            lengths = np.concatenate([np.diff(v.offsets) for v in values])
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            return Lists(np.concatenate([v.values for v in values]), offsets)
        if isinstance(values[0], Strings | Names):
            return _join_pools(values)
        return np.concatenate(values)

    names = [f.name for f in fields(Models) if f.init]
    return Models(**{name: together(name) for name in names})  # type: ignore[arg-type]


def _join_pools(parts: list[Any]) -> Any:
    """Strings or Names of several batches as one."""
    pool: list[Any] = []
    codes = []
    for part in parts:
        codes.append(np.where(part.code < 0, -1, part.code + len(pool)).astype(np.int32))
        pool.extend(part.pool)
    return type(parts[0])(tuple(pool), np.concatenate(codes))


# What each status of a model means, for the trainer and for the manual.


INVALID, LEAK, UNLIKE = "invalid rows", "label among features", "level per row"
ROUNDED, FAILED = "rounded feature", "fit failed"
MEANINGS = {
    "ok": (
        "the optimality condition holds to `epsilon` (or `epsilon` is 0); `kmeans`: no row "
        "changes its centre, or the loss falls by less than `epsilon`"
    ),
    "constant feature": "converged; a feature that never varies got coefficient 0",
    "collinear features": (
        "converged; features determine each other, and of the weights that fit equally well these"
        " are the smallest, without standard errors where rows do not determine them; looked for "
        "up to 512 features"
    ),
    "rounded feature": (
        "converged; a `FLOAT` feature beyond 16,777,216 varies by only a few of its steps: cast "
        "it to `DOUBLE`; or features or labels are so far from 0 that they or predictions lose "
        "their digits: subtract a constant"
    ),
    "not converged": (
        "`max_iter` was reached, or no better weights were found, before `epsilon`; `mlp`, `fm`, "
        "`matrix_factorization`: no better than the best constant, which is the model"
    ),
    "early stop": (
        "the loss of the rows held out by `validation` stopped falling; the best weights are kept"
    ),
    "not compared": (
        "a search could judge no candidate (`model_trials` says why) and took the simplest; or "
        "`fold_by`, `time_by` or `gap` left `validation` no row to hold out or to train on: the "
        "model is of all rows, without early stopping"
    ),
    "worse than start": (
        "`mlp` with `warm_start`: training raised the loss, and the model is the one it started "
        "from; try a lower `learning_rate` or more epochs"
    ),
    "time limit": "the training or its search reached the limit `time`",
    "diverged": (
        "lower `learning_rate` or `step`; `gbdt`: the loss rose by more than half of what the "
        "trees had lowered it by, and the trees up to its lowest value are kept; `mlp`, `fm`, "
        "`matrix_factorization`: weights or losses overflowed, or the loss is far above that of "
        "the best constant, which is the model; linear models: the loss is far above that of the "
        "start, which is the model"
    ),
    "too few rows": (
        "fewer rows than weights and no penalty: many solutions fit; `mlp`, `fm`: a single row: a"
        " constant model"
    ),
    "separable": (
        "ever larger weights separate rows of one class, or rows whose count is 0, from the "
        "others, so there is no optimum without a penalty; coefficients that run away have no "
        "standard error, the others those of a fit without these rows; `options` have "
        "`l2_standardized` where a small ridge was used; option `firth` of `logistic` makes all "
        "coefficients finite"
    ),
    "no split": "trees: no split of the rows lowers the loss: a constant model",
    UNLIKE: (
        "levels of a category, or classes, hardly repeat in 10 or more rows, as ids do, or "
        "numbers that were read as text; `note` names the column: cast numbers to `DOUBLE` and "
        "dates to `DATE`, and leave ids out"
    ),
    "out of range": (
        "weights or sums of squares do not fit into doubles, as with labels beyond 1e150: a "
        "constant model; `kmeans`: a feature is beyond 1e150, or all are below 1e-140: "
        "predictions are NULL"
    ),
    "no feedback": (
        "`matrix_factorization` with implicit feedback: no label is above 0, or with loss `bpr` "
        "each user has feedback on all items: all scores are 0"
    ),
    "no words": "`lda`: no document has a word",
    "fewer centres": (
        "`kmeans`: the group has fewer different rows than `clusters`: each of them is a centre"
    ),
    FAILED: (
        "a learner of your own raised an exception, or predicts what no model of tuskml does: "
        "predictions are NULL, and `plan` says why"
    ),
    LEAK: (
        "in a group of at least 10 rows a feature equals the label, is a multiple of it plus a "
        "constant (with two features or more), or has a level for each of a few labels, and that "
        "is no chance (p < 1e-4): leave it out, as `* EXCLUDE (label)` does"
    ),
    "one class": (
        "all labels are the same: a constant model, whose class has the probability 1; "
        "`intercept` and `predict_proba(model, x)` are NULL unless option `classes`, or a label "
        "0, -1, `false` or `true`, says whether that is the higher class"
    ),
    INVALID: (
        "a row has NaN, an infinite number, a label that the task does not have or, without "
        "option `store`, a feature id above 2147483646, or rows differ in length: predictions are"
        " NULL, and `plan` says why; option `invalid` has `skip`"
    ),
}
"""From the least to the most important: a model gets the last that applies."""


def with_status(models: Models, status: str, which: NDArray[np.bool_]) -> Models:
    """The models, of which some have a status, (n,). A status that matters more stays."""
    if not which.any():
        return models
    pool, code = models.status.pool, models.status.code.copy()
    order = list(MEANINGS)
    lesser = np.isin(pool, order[: order.index(status)])
    code[which & lesser[code]] = len(pool)
    return replace(models, status=Strings((*pool, status), code))


LEAST_ROWS = 10
"""With fewer rows a feature may easily equal the label by chance."""


def with_leaks(models: Models, groups: NDArray[np.void]) -> Models:
    """The models of groups (kernels.GROUP), whose status says if a feature is the label; models
    carry their groups' indices in `groups`.
    """
    return with_status(models, LEAK, leaks(groups[models.group], LEAST_ROWS) > 0)


LOST = 1e-3
"""Share of the labels' variation at which the rounding of predictions is reported."""


def labels_lost(labels: NDArray[np.void], rounded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tests which groups' numeric labels (LABELS) lost their digits, (G,): doubles differ by more
    than LOST of the labels' variation, or they are one double and were more numbers. rounded:
    whether numbers were rounded to these doubles.
    """
    low, high = labels["low"], labels["high"]
    size = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(over="ignore"):
        spread = high / 2 - low / 2
    deviation = np.where(labels["variance"] > 0, np.sqrt(labels["variance"]), spread)
    known = np.isfinite(size)
    steps = np.spacing(np.where(known, size, 1.0))
    lost: NDArray[np.bool_] = known & np.where(low == high, rounded, steps > LOST * deviation)
    return lost


def labels_lost_of(groups: NDArray[np.void], rounded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """As `labels_lost`, for groups (kernels.GROUP)."""
    return labels_lost(label_ranges(groups), rounded)


def with_lost_labels(models: Models, lost: NDArray[np.bool_]) -> Models:
    """The models, of which those of numbers say that their labels are lost; lost: (n,)."""
    return with_status(models, ROUNDED, lost & (models.class_names.code < 0))


SAMPLE = 4096
"""Rows of each group from which the means of features are estimated."""


def far_from_zero(rows: Pass, most: float) -> NDArray[np.bool_]:
    """Marks groups with a feature that all rows have and whose mean is beyond `most` deviations,
    (G,)."""
    if rows.sparse:
        if type(rows) is not Pass:  # the rows are in parts or on a device
            return np.zeros(rows.n_groups, bool)
        return np.asarray(rows.far_means(most)[0].any(axis=1))
    mean, deviation = rows.feature_moments(SAMPLE)
    with np.errstate(over="ignore"):
        far = (deviation > 0) & (np.abs(mean) > most * deviation)
    return np.asarray(far.any(axis=1))


# Models as the database's C reads them (`tusk_models` in `udas/rowblock/batch.h`).


MEMBERS: dict[str, tuple[str, ...]] = {
    "TEXT": ("pool", "code"),
    "TEXTS": ("pool", "begin", "code"),
    "NUMBER": ("values",),
    "NUMBERS": ("values", "offsets"),
    "COUNT": ("values",),
    "TRUTH": ("values",),
}
"""The pointers that C has of a field, by its kind."""
ARRAYS = {"NUMBER": np.float64, "COUNT": np.int64, "TRUTH": np.uint8}
"""The type of an array of numbers, by kind."""
FIELDS = [field for field in MODEL_FIELDS if field.kind in MEMBERS]
"""The fields that the trainer fills; C makes the payload of them."""


class _Models(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_int64),
        ("group", ctypes.c_void_p),
        *(
            (f"{field.name}_{member}", ctypes.c_void_p)
            for field in FIELDS
            for member in MEMBERS[field.kind]
        ),
    ]


class Emission:
    """A `Models` in the layout that the database's C reads; keeps the pointers' targets alive."""

    def __init__(self, models: Models) -> None:
        self.columns = list(columns_of(models))
        self.struct = _Models(len(models.group), *map(address_of, self.columns))


def columns_of(models: Models) -> Iterator[NDArray[Any]]:
    """Yields the arrays of `_Models`' pointers, in their order."""
    yield np.ascontiguousarray(models.group, np.int64)
    for one in FIELDS:
        value = getattr(models, one.name)
        if isinstance(value, Lists):
            yield np.ascontiguousarray(value.values, np.float64)
            yield np.ascontiguousarray(value.offsets, np.int64)
        elif isinstance(value, Strings):
            yield encode_strings(value.pool)
            yield np.ascontiguousarray(value.code, np.int32)
        elif isinstance(value, Names):
            yield encode_strings(tuple(name for names in value.pool for name in names))
            yield np.cumsum([0, *map(len, value.pool)], dtype=np.int64)
            yield np.ascontiguousarray(value.code, np.int32)
        else:
            yield np.ascontiguousarray(value, ARRAYS[one.kind])


@functools.lru_cache(256)
def encode_strings(pool: tuple[str, ...]) -> NDArray[np.uintp]:
    """Pointers to strings for C, which live as long as the array."""
    strings: Any = (ctypes.c_char_p * max(1, len(pool)))(*(text.encode() for text in pool))
    return np.frombuffer(strings, np.uintp)
