"""Rows that are of both classes in part: shares of trials, and rows by Firth's penalty.

A row with the share p of w trials is a row of the higher class with the weight w p and one of the
lower class with the weight w (1 - p): the likelihood is the same up to a factor that does not
depend on the coefficients.

Firth's penalty, half the logarithm of the determinant of the information, keeps coefficients of
separable rows finite (Firth, Bias reduction of maximum likelihood estimates, 1993; Heinze and
Schemper, A solution to the problem of separation in logistic regression, 2002). At its optimum a
row of leverage h counts as h / 2 more rows of each class, so that rows with such weights have the
same optimum without a penalty. Standard errors are by the information of the rows themselves.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.kernels.passes import Floats, copy_rows
from tuskml.kernels.segments import chunks, labels_of
from tuskml.kernels.structures import OFFSETS
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS
from tuskml.learners.linear.request import CLASSIC, FREQUENCY, LinearOptions, Request
from tuskml.learners.models import Lists, Models, Strings, with_members

STEPS, HALVINGS = 200, 30
LONGEST = 5.0
"""The longest step of Newton's method, as a change of a margin."""
SETTLED = 1e-11
"""Change of a margin by the last step."""
DEPENDENT = 1e-9
"""Singular value, relative to the largest, up to which a direction is not there."""


@dataclass(frozen=True)
class Part:
    """The rows of a group as rows of the lower and the higher class.

    share (n,): of the higher class; weight (n,): of the rows, high and low (n,): of the copies;
    std_err (d + 1,): the intercept's first; loss: the penalised one; both are None without Firth's
    penalty.
    """

    classes: tuple[float, float]
    share: Floats
    weight: Floats
    high: Floats
    low: Floats
    std_err: Floats | None = None
    loss: float | None = None

    @property
    def times(self) -> NDArray[np.uint8]:
        """How often each row is copied, (n,)."""
        return ((self.high > 0).astype(np.uint8) + (self.low > 0)).astype(np.uint8)

    def write(self, group: np.void) -> None:
        """Writes labels and weights into the copies of the rows."""
        times = self.times
        of_low = np.ones(int(times.sum()), bool)
        of_low[(np.cumsum(times) - times)[self.high > 0]] = False
        both = np.stack([self.high, self.low], axis=1).ravel()
        weights, at = both[both > 0], 0
        for labels, own in labels_of(group):
            here = slice(at, at + len(labels))
            labels[:] = np.where(of_low[here], *self.classes)
            if own is not None:
                own[:] = weights[here]
            at += len(labels)


@dataclass(frozen=True)
class Both:
    """Copies of groups as rows of both classes, the request about them, and the original one."""

    groups: NDArray[np.void]
    request: Request
    parts: list[Part]
    original: Request
    n_rows: NDArray[np.int64]

    def describe(self, models: Models) -> Models:
        """The models as those of the rows that were copied."""
        options, own = self.original.options, [self.parts[g] for g in models.group.tolist()]
        texts = [
            options_of_copies(models.options.pool[code], part, options)
            for code, part in zip(models.options.code.tolist(), own, strict=True)
        ]
        found = replace(
            models,
            n_rows=self.n_rows[models.group],
            options=Strings(tuple(texts), np.arange(len(texts), dtype=np.int32)),
        )
        return with_errors(found, own) if options.firth else found


def options_of_copies(text: str, part: Part, options: LinearOptions) -> str:
    """The options of a model as JSON, with those that copies of rows lack and the fit by rows."""
    name = "firth" if options.firth else "proportions"
    if not options.fit:
        return with_members(text, f'{{"{name}":true}}')
    found = json.loads(text)
    if "deviance" in found:
        saturated, ways = fit_of_shares(part)
        found["deviance"] -= saturated
        found["null_deviance"] -= saturated
        found["log_likelihood"] += ways
        found["weight"] = float(len(part.share))
    return json.dumps(found | {name: True}, separators=(",", ":"))


def fit_of_shares(part: Part) -> tuple[float, float]:
    """The deviance of a parameter per row, and the logarithm of the binomial coefficients."""
    from scipy.special import entr, gammaln  # slow to import, seldom needed

    n, k = part.weight, part.weight * part.share
    saturated = 2 * float(np.sum(n * (entr(part.share) + entr(1 - part.share))))
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return saturated, float(ways.sum())


def with_errors(models: Models, parts: list[Part]) -> Models:
    """The models with the standard errors and the objective by Firth's penalty."""
    before = [
        models.std_err.values[a:b]
        for a, b in zip(models.std_err.offsets[:-1], models.std_err.offsets[1:], strict=True)
    ]
    lists = [
        old if part.std_err is None else part.std_err
        for old, part in zip(before, parts, strict=True)
    ]
    loss = [
        old if part.loss is None else part.loss
        for old, part in zip(models.loss.tolist(), parts, strict=True)
    ]
    return replace(models, std_err=Lists.of_parts(lists), loss=np.array(loss))


def refuse(groups: NDArray[np.void], options: LinearOptions) -> None:
    """Raises OptionError for what may not go together."""
    name = "firth" if options.firth else "proportions"
    if options.weight_kind != FREQUENCY:
        raise OptionError(f"options '{name}' and 'weight_kind' are both given, expected one")
    if not options.firth:
        return
    beside = {
        "l1": options.l1 > 0,
        "l2": options.l2 > 0,
        "class_weight": options.class_weight is not None,
        "covariance": options.covariance != CLASSIC,
        "cluster": options.cluster is not None,
        "fit": options.fit,
        "validation": bool(options.validation),
        "link": options.link not in (None, "logit"),
    }
    for other, given in beside.items():
        if given:
            raise OptionError(
                f"options 'firth' and '{other}' are both given, expected one of them"
            )
    if (groups["extras"] & OFFSETS).any():
        raise OptionError("option 'firth' is not available with offset, expected one of them")
    if (groups["dim"] >= MOST_WEIGHTS).any():
        raise OptionError(
            f"option 'firth' is not available with {int(groups['dim'].max())} features, expected "
            f"at most {MOST_WEIGHTS - 1}"
        )


@contextmanager
def of_both_classes(groups: NDArray[np.void], request: Request, memory: int) -> Iterator[Both]:
    """Copies of groups (passes.GROUP), by options `proportions` and `firth`, in a context.

    memory: address of the account that copies are charged to. Raises OptionError and DataError.
    """
    options = request.options
    refuse(groups, options)
    parts = [part_of(group, options) for group in groups]
    epsilon = min(options.epsilon, 1e-10) if options.firth else options.epsilon
    given = options.given - {"proportions", "firth"}
    plain = replace(options, proportions=False, firth=False, epsilon=epsilon, given=given)
    with copy_rows(groups, [part.times for part in parts], memory) as copies:
        copies["n_skipped"] = groups["n_skipped"]
        for group, part in zip(copies, parts, strict=True):
            part.write(group)
        own = replace(request, options=plain, near=None, parted=None, common=False)
        yield Both(copies, own, parts, request, groups["n_rows"].copy())


def part_of(group: np.void, options: LinearOptions) -> Part:
    """The rows of a group as rows of both classes."""
    pairs = list(labels_of(group))
    label = np.concatenate([labels for labels, _ in pairs])
    weight = np.concatenate([np.ones(len(y)) if w is None else w for y, w in pairs])
    if options.proportions:
        low, high, share = 0.0, 1.0, label
    else:
        low, high = float(label.min()), float(label.max())
        share = (label == high).astype(float)
        if not np.isin(label, (low, high)).all():
            raise OptionError(
                "option 'firth' is not available with more than two classes, expected two classes"
            )
        if low == high:  # of one class, which is not known to be the higher one
            return Part((low, high), share, weight, weight, np.zeros(len(label)))
    if not options.firth:
        return Part((low, high), share, weight, weight * share, weight * (1 - share))
    x = design(group, options.fit_intercept)
    leverage, std_err, loss = penalised_fit(x, share, weight, options.fit_intercept)
    both = weight * share + leverage / 2, weight * (1 - share) + leverage / 2
    return Part((low, high), share, weight, *both, std_err, loss)


def design(group: np.void, intercept: bool) -> Floats:
    """The features of a group's rows, (n, d + 1), behind a column of ones, or zeros."""
    n, d = int(group["n_rows"]), int(group["dim"])
    out = np.zeros((n, d + 1))
    out[:, 0] = intercept
    for first, features, labels in chunks(group):
        here = out[first : first + len(labels), 1:]
        if group["kind"] < 2:
            here[:] = features
            continue
        starts, ids, values = features
        row = np.repeat(np.arange(len(labels)), np.diff(starts))
        np.add.at(here, (row, ids[: len(row)]), values[: len(row)])
    if not np.isfinite(out).all():
        raise DataError("a feature is not a finite number, expected one with option 'firth'")
    return out


def penalised_fit(
    x: Floats, share: Floats, weight: Floats, intercept: bool
) -> tuple[Floats, Floats, float]:
    """Leverages (n,), standard errors (d + 1,) and mean loss at the optimum with the penalty.

    Newton's method goes by the span of the columns, in which leverages are the same.
    """
    used = np.ptp(x, axis=0) > 0
    used[0] = intercept
    columns = x[:, used]
    centre = columns.mean(axis=0) if intercept else np.zeros(columns.shape[1])
    centre[:1] *= not intercept
    spread = np.sqrt(np.mean((columns - centre) ** 2, axis=0))
    left, size, _ = np.linalg.svd((columns - centre) / spread, full_matrices=False)
    left = left[:, size > DEPENDENT * size[:1]]
    at, value = np.zeros(left.shape[1]), -np.inf
    inverse, slope, leverage = np.eye(len(at)), np.zeros(len(at)), np.zeros(len(x))
    for _ in range(STEPS):
        value, inverse, slope, leverage = state(left, share, weight, at)
        step = inverse @ slope
        longest = np.abs(left @ step).max()
        if longest < SETTLED:
            break
        step *= min(1.0, LONGEST / longest)
        for _ in range(HALVINGS):
            if state(left, share, weight, at + step)[0] >= value - 1e-12 * abs(value):
                break
            step /= 2
        at = at + step
    mean = 1 / (1 + np.exp(-(left @ at)))
    std_err = np.full(x.shape[1], np.nan)
    if left.shape[1] == columns.shape[1]:
        unit = columns / np.maximum(np.abs(columns).max(axis=0), np.finfo(float).tiny)
        bent = unit.T @ ((weight * mean * (1 - mean))[:, None] * unit)
        by = np.abs(columns).max(axis=0)
        std_err[used] = np.sqrt(np.diag(np.linalg.pinv(bent, rcond=1e-15))) / by
    return leverage, std_err, float(-value / weight.sum())


def state(
    left: Floats, share: Floats, weight: Floats, at: Floats
) -> tuple[float, Floats, Floats, Floats]:
    """The penalised log-likelihood, the inverse information, the slope, and leverages (n,)."""
    margin = left @ at
    mean = 1 / (1 + np.exp(-np.clip(margin, -700, 700)))
    bend = weight * mean * (1 - mean)
    information = left.T @ (bend[:, None] * left)
    sign, logarithm = np.linalg.slogdet(information)
    if sign <= 0 or not np.isfinite(logarithm):
        return -np.inf, np.eye(len(at)), np.zeros(len(at)), np.zeros(len(left))
    inverse: Floats = np.linalg.inv(information).astype(float)
    leverage = bend * np.einsum("nj,jk,nk->n", left, inverse, left)
    likely = np.sum(weight * (share * margin - np.logaddexp(0.0, margin)))
    slope = left.T @ (weight * (share - mean) + leverage * (0.5 - mean))
    return float(likely + logarithm / 2), inverse, slope, leverage
