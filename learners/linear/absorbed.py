"""Regressions with the effects of categories of many levels, which the option `absorb` names.

The label and the other features become their residuals of a regression on the levels, and these
rows are trained as usual, without an intercept: the coefficients are those of the regression with
a feature for each level (Frisch and Waugh 1933; Lovell 1963). The effects of the levels are those
on the label less the coefficients times those on the features.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError, RowsError, one_of
from tuskml.kernels.passes import Pass, cancel_mark
from tuskml.kernels.rows.absorb import RowsWithoutEffects, remove_effects
from tuskml.kernels.structures import CLUSTERS, WEIGHTS
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS
from tuskml.learners.linear.request import CLASSIC, FREQUENCY, LinearOptions, Request
from tuskml.learners.models import Lists, Models, Strings
from tuskml.learners.validation import shuffle_rows
from tuskml.schedule import budget

COUNTED = (CLASSIC, "HC1")
"""Covariances that are divided by the degrees of freedom."""


def blocks_of(place: int, width: int, request: Request) -> list[range]:
    """The features of each category to absorb, in the order of the option; width: the number of
    features of the group. Raises OptionError, and RowsError for a group with too many others.
    """
    known = request.features_by_category(place)
    for name in request.options.absorb or ():
        if name not in known:
            raise OptionError(
                f"option 'absorb' names '{name}', which became no category, expected "
                f"{one_of(known)}"
            )
    blocks = [known[name] for name in request.options.absorb or ()]
    others = width - sum(map(len, blocks))
    if not others:
        raise OptionError(
            "option 'absorb' names all columns of the rows, expected a feature beside them"
        )
    if others >= MOST_WEIGHTS:
        raise RowsError(
            f"option 'absorb' leaves {others:,} features, at most {MOST_WEIGHTS - 1} are allowed: "
            "absorb more categories, or give option 'max_categories'"
        )
    return blocks


@dataclass(frozen=True)
class Residuals:
    """A group whose rows lack the effects, and the request of their training.

    whole: the request of the group as it is; blocks: the features of its absorbed categories.
    """

    rows: RowsWithoutEffects
    request: Request
    whole: Request
    blocks: list[range]

    @property
    def groups(self) -> NDArray[np.void]:
        """The group to train, GROUP, (1,)."""
        return self.rows.groups

    @property
    def others(self) -> NDArray[np.intp]:
        """The places of the other features among all features."""
        absorbed = {at for block in self.blocks for at in block}
        width = int(self.groups["dim"][0]) + len(absorbed)
        return np.array([at for at in range(width) if at not in absorbed], np.intp)

    def describe(self, models: Models) -> Models:
        """The model of the group as it is, from that of its residuals."""
        inner = json.loads(models.options.pool[int(models.options.code[0])])
        beta, others = models.coef.values, self.others
        coef = np.zeros(len(others) + sum(map(len, self.blocks)))
        coef[others] = beta
        mean = self.rows.columns["mean"]
        intercept = float(mean[-1] - beta @ mean[:-1])
        effects, at = self.rows.effects[-1] - beta @ self.rows.effects[:-1], 0
        for block in self.blocks:
            own = effects[at : at + len(block) + 1]
            occurs = self.rows.weights[at : at + len(block) + 1] > 0
            coef[block.start : block.stop] = np.where(occurs[1:], own[1:] - own[0], 0.0)
            intercept += float(own[0])
            at += len(own)
        factor, spare = self._factor(models, inner)
        errors = np.full(len(coef) + 1, math.nan)
        if len(models.std_err.values):
            errors[1 + others] = factor * models.std_err.values[1:]
        known = bool(np.isfinite(errors).any())
        freedom = float(inner["freedom"]) if self.by_cluster and spare > 0 else spare
        none = Lists.none(1)
        return replace(
            models,
            coef=Lists.of_parts([coef]),
            intercept=np.array([intercept]),
            std_err=Lists.of_parts([errors]) if known else none,
            spread=times(models.spread, factor) if known else none,
            covariance=times(models.covariance, factor**2),
            n_features=np.array([len(coef)]),
            status=self._status(models, freedom),
            options=Strings.same(self._options(models, inner | self._fit(inner), freedom), 1),
        )

    def _fit(self, inner: Mapping[str, Any]) -> dict[str, float]:
        """The members of the options on the fit that count the effects, if there are some."""
        if "deviance" not in inner:
            return {}
        null = float(self.rows.columns["squares"][-1])
        return {"parameters": inner["parameters"] + self.rows.rank, "null_deviance": null}

    @property
    def by_cluster(self) -> bool:
        """Returns whether errors are by cluster."""
        return bool(self.groups["extras"][0] & CLUSTERS) and self.whole.options.cluster is not None

    def _ranks(self, models: Models, inner: Mapping[str, Any]) -> tuple[float, float]:
        """The number of rows for errors, and of the other features that are determined."""
        n = float(self.groups["n_rows"][0])
        if self.whole.options.weight_kind == FREQUENCY and self.groups["extras"][0] & WEIGHTS:
            n = float(Pass(self.groups).weight[0])
        if not self.by_cluster and "freedom" in inner:
            return n, n - inner["freedom"]
        return n, float(np.isfinite(models.std_err.values[1:]).sum())

    def _factor(self, models: Models, inner: Mapping[str, Any]) -> tuple[float, float]:
        """The factor of standard errors, whose training counts no effects, and the degrees of
        freedom of the residuals, of errors by cluster without the effects that are nested in them.
        """
        n, rank = self._ranks(models, inner)
        spare = n - rank - (max(self.rows.rank_apart, 1) if self.by_cluster else self.rows.rank)
        if spare <= 0:
            return math.nan, spare
        counted = self.by_cluster or self.whole.options.covariance in COUNTED
        return math.sqrt((n - rank) / spare) if counted else 1.0, spare

    def _status(self, models: Models, freedom: float) -> Strings:
        """The status of the model, where features without residuals depend on the levels."""
        status = models.status.pool[int(models.status.code[0])]
        if not self.rows.columns["converged"].all():
            models.converged[:] = 0
            status = "not converged"
        elif freedom <= 0 and status in ("ok", "constant feature", "collinear features"):
            status = "too few rows"
        elif status == "constant feature":
            status = "collinear features"
        return Strings.same(status, 1)

    def _options(self, models: Models, inner: dict[str, Any], freedom: float) -> str:
        """The options as JSON, with what was absorbed: `absorbed`, the levels that occur by
        category; `absorbed_features`, the first of their features, from 1 on, and their number;
        `within_r2`, the share of the residual variance that the other features explain.
        """
        options, levels, at = self.whole.options, {}, 0
        for name, block in zip(options.absorb or (), self.blocks, strict=True):
            weights = self.rows.weights[at : at + len(block) + 1]
            levels[name] = int((weights > 0).sum())
            at += len(block) + 1
        places = [at for block in self.blocks for at in block]
        rest = (
            2 * float(models.loss[0]) * float(self.rows.weights[: len(self.blocks[0]) + 1].sum())
        )
        before = float(self.rows.columns["rest"][-1])
        found = inner | {"fit_intercept": True, "freedom": freedom, "absorbed": levels}
        found["absorbed_features"] = [min(places, default=0) + 1, len(places)]
        if before > 0:
            found["within_r2"] = round(1 - rest / before, 12) + 0.0  # no -0
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def times(lists: Lists, factor: float) -> Lists:
    """The numbers times a factor."""
    return replace(lists, values=lists.values * factor)


@contextmanager
def without_effects(
    group: NDArray[np.void], place: int, request: Request, memory: int
) -> Iterator[Residuals]:
    """A group (GROUP), (1,), without the effects of the categories that `absorb` names.

    place: of the group in the request; memory: address of the account that copies of rows are
    charged to.
    """
    options = request.options
    names, threads = options.absorb or (), budget.threads(options.threads)
    blocks = blocks_of(place, int(group["dim"][0]), request)
    with ExitStack() as stack:
        if options.keeps_order:
            whole = Pass(group, threads=threads, cancel_mark=cancel_mark())
            kept, held = shuffle_rows(whole, request, memory)
            stack.enter_context(held)
            group = stack.enter_context(kept)
        cluster = names.index(options.cluster) if options.cluster in names else None
        rows = stack.enter_context(remove_effects(group, blocks, cluster, threads, memory))
        inner = replace(options, absorb=None, fit_intercept=False, given=given(options))
        asked = replace(
            request,
            options=inner,
            categories=None,
            feature_names=None,
            preparation=None,
            terms=None,
            by_level=None,
        )
        yield Residuals(rows, asked, request, blocks)


def given(options: LinearOptions) -> frozenset[str]:
    """The options of the call that the training of residuals has too."""
    return options.given - {"absorb", "fit_intercept", "reference"}
