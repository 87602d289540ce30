"""Tests of whole terms: of all coefficients that a column of a named row became.

For the coefficients b of a term and their covariance V, W = b' V^-1 b is asymptotically
chi-squared with as many degrees of freedom as coefficients, if all are 0 (Wald, Tests of
statistical hypotheses concerning several parameters, 1943). If a coefficient's own test is
Student's t, W / df is tested as F. The training provides V; models keep [df, statistic, p] of each
term as the member `terms` of their options, and as `ratios` those of likelihood ratios, if the
training provides these (`learners/linear/inference/ratios.py`).
"""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.models import Lists, Models, Strings, with_members
from tuskml.learners.registry import task_named
from tuskml.learners.tasks import has_levels

Tested = list[float | None]


def with_terms(models: Models) -> Models:
    """The models with their tests, where the training left covariances, which end here."""
    if not len(models.covariance.values):
        return models
    texts = [_with_tests(models, place) for place in range(len(models.group))]
    pool = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    options = Strings(tuple(pool), np.array([pool[text] for text in texts], np.int32))
    none = Lists.none(len(texts))
    return replace(models, options=options, covariance=none, ratios=none)


def _with_tests(models: Models, place: int) -> str:
    """The options of a model as JSON, with the tests."""
    options: str = models.options.pool[models.options.code[place]]
    errors, known = of_list(models.std_err, place), test_coefficients(models, place)
    if known is None:
        return options
    coef, covariance = known
    levels = absorbed_in(options)
    task = task_named(models.task.pool[models.task.code[place]])
    freedom = math.inf
    if task.test == "t":
        usual = models.n_rows[place] - np.isfinite(errors).sum()
        freedom = float(json.loads(options).get("freedom", usual))
    tests: list[Tested] = []
    feature = first = 0
    for width in widths(models, place, coef.shape[1]):
        feature += width
        if feature - 1 in levels:  # they have no standard errors
            tests.append([width, None, None])
            continue
        own = slice(first, first + width)
        term = coef[:, own].ravel()
        spread = covariance[:, own, :, own].reshape(len(term), len(term))
        tests.append(wald(term, spread, freedom))
        first += width
    text = json.dumps(tests, separators=(",", ":"))
    found = of_list(models.ratios, place).reshape(-1, 2)
    if not len(found):
        return with_members(options, f'{{"terms":{text}}}')
    also = json.dumps([ratio(*one) for one in found.tolist()], separators=(",", ":"))
    return with_members(options, f'{{"terms":{text},"ratios":{also}}}')


def test_coefficients(models: Models, place: int) -> tuple[Floats, Floats] | None:
    """Coefficients (C, d) of a model and their covariance (C, d, C, d): C is 1, or of K > 2
    classes without an order K - 1, against the first one. None where the training left no
    covariance.
    """
    covariance, coef = of_list(models.covariance, place), of_list(models.coef, place)
    if not len(covariance):
        return None
    levels = absorbed_in(models.options.pool[models.options.code[place]])
    coef = np.delete(coef, np.arange(levels.start, levels.stop))
    classes = len(of_list(models.classes, place))
    if has_levels(models.task.pool[models.task.code[place]]):
        coef = coef[None, classes - 1 :]
    else:
        coef = coef.reshape(classes, -1)[1:, 1:] if classes > 2 else coef[None]
    if len(covariance) != coef.size**2:
        return None
    return coef, covariance.reshape(coef.shape * 2)


def absorbed_in(options: str) -> range:
    """The features that are levels of absorbed categories, which have no standard errors."""
    first, n = json.loads(options).get("absorbed_features", (1, 0))
    return range(first - 1, first - 1 + n)


def of_list(lists: Lists, place: int) -> Floats:
    """One of the lists, by its index."""
    return lists.values[lists.offsets[place] : lists.offsets[place + 1]]


def widths(models: Models, place: int, d: int) -> list[int]:
    """Counts the features of each term: by column of the rows, or one each of d features."""
    code = models.preparation.code[place]
    return [1] * d if code < 0 else widths_of(models.preparation.pool[code])


def widths_of(preparation: str) -> list[int]:
    """Counts the features of each column of a preparation (JSON)."""
    return [width_of(column) for column in json.loads(preparation)["columns"]]


def width_of(column: dict[str, Any]) -> int:
    """The number of features of a column in a preparation, as in
    `udas/scalars/named/preparation.c`.
    """
    kind = column["kind"]
    if kind == "category":
        own = len(column["levels"]) - bool(column.get("reference"))
    else:
        own = {"number": 1, "cycle": 2}.get(kind, len(column.get("keys", ())))
    return own + sum(bool(column.get(name)) for name in ("other", "missing", "indicator"))


def ratio(df: float, statistic: float) -> Tested:
    """[df, statistic, p] of a likelihood ratio; the last two are None where it is not known."""
    from scipy.special import chdtrc  # slow to import, seldom needed

    if not math.isfinite(statistic):
        return [int(df), None, None]
    return [int(df), statistic, float(chdtrc(df, statistic))]


def wald(coef: Floats, covariance: NDArray[np.float64], freedom: float) -> Tested:
    """[df, statistic, p] of k coefficients and their covariance (k, k): chi-squared where freedom
    is infinite, else F. The last two are None where the covariance is not known or not regular.
    """
    from scipy.special import chdtrc, fdtrc  # slow to import, seldom needed

    k = len(coef)
    unit = np.sqrt(np.diag(covariance))
    known = k and np.isfinite(covariance).all() and (unit > 0).all() and freedom > 0
    if not known:
        return [k, None, None]
    try:
        ratio = coef / unit
        statistic = float(ratio @ np.linalg.solve(covariance / np.outer(unit, unit), ratio))
    except np.linalg.LinAlgError:
        return [k, None, None]
    if math.isinf(freedom):
        p = float(chdtrc(k, statistic))
    else:
        statistic /= k
        p = float(fdtrc(k, freedom, statistic))
    return [k, *(one if math.isfinite(one) else None for one in (statistic, p))]
