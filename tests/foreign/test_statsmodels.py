"""Results of R and Stata that statsmodels' own tests compare with, and ship in its package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels
from foreign_databases import Database
from statsmodels import datasets
from statsmodels.discrete.tests.results import results_count_robust_cluster as counts
from statsmodels.discrete.tests.results.results_discrete import Anes, RandHIE, Spector
from statsmodels.genmod.tests.results import glmnet_r_results, results_glm
from statsmodels.regression.tests.results import results_grunfeld_ols_robust_cluster as grunfeld
from statsmodels.regression.tests.results import results_macro_ols_robust as macro
from statsmodels.regression.tests.results import results_quantile_regression as quantiles
from statsmodels.robust.tests.results.results_rlm import Huber
from tally import Number, Tally, printed

PRECISE = {"epsilon": 1e-10, "max_iter": 2000}
FOLDER = Path(statsmodels.__file__).parent
COUNTED = "Stata's correction of robust errors of counts does not take the k parameters off n"
OBSERVED = "Stata takes errors of a negative binomial from the observed information, R does not"
ANALYTIC = "Stata's analytic weights are no counts of rows: robust errors have their squares"
STOPPED = 2e-5
"""R's glm and rlm stop early, and errors are those of the weights before the last step."""


@dataclass(frozen=True)
class Case:
    """A model: its rows, and what R or Stata has for it.

    y: labels; x: features by name; more: columns of a weight and an offset; reasons: why numbers
    may differ whose names begin so; rough: how far numbers may be apart, relative to them.
    """

    name: str
    task: str
    y: Sequence[Any]
    x: Mapping[str, Sequence[Any]]
    estimates: Mapping[str, float]
    errors: Mapping[str, float] = field(default_factory=dict)
    fit: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Sequence[float]] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    rough: float = 1e-6


def named(terms: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Values by term, of which statsmodels has the intercept last."""
    return dict(zip((*terms, "intercept"), map(float, values), strict=True))


def columns_of(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Its columns, named as SQL names them without quotes."""
    return {
        str(name).lower(): frame[name].astype(float).tolist()
        for name in frame.columns
        if str(name) != "const"
    }


FITS = {"deviance": "deviance", "llf": "log_likelihood", "null_deviance": "null_deviance"}


def general(name: str, task: str, y: Any, frame: pd.DataFrame, result: Any, **more: Any) -> Case:
    """A generalised linear model of `results_glm`."""
    x = columns_of(frame)
    fit = {ours: float(getattr(result, key)) for key, ours in FITS.items() if hasattr(result, key)}
    terms = list(x)
    found = {"estimates": named(terms, result.params), "errors": named(terms, result.bse)}
    return Case(
        name, task, list(map(float, y)), x, **{"fit": fit, "rough": STOPPED, **found, **more}
    )


def generals() -> Iterator[Case]:
    """Linear, logistic, gamma and Poisson models of Stata and R."""
    longley = datasets.longley.load_pandas()
    yield general("Longley", "linear", longley.endog, longley.exog, results_glm.Longley(), fit={})
    low = results_glm.Lbw()
    yield general("birth weights", "logistic", low.endog, low.exog, low)
    cancer = results_glm.CancerLog()
    frame = pd.DataFrame(cancer.exog[:, :-1], columns=["age", "drug2", "drug3"])
    yield general("cancer", "gamma", cancer.endog, frame, cancer, fit={}, rough=5e-5)
    punished = datasets.cpunish.load_pandas()
    frame = punished.exog.copy()
    frame.iloc[:, 3] = np.log(frame.iloc[:, 3])
    result = results_glm.Cpunish()
    yield general("capital punishment", "poisson", punished.endog, frame, result)
    terms = [str(name).lower() for name in frame.columns]
    offset = results_glm.Cpunish_offset()
    first, *others = map(float, offset.params)
    estimates = named(terms, (*others, first))
    n = len(punished.endog)
    yield general(
        "capital punishment, exposure 100",
        "poisson",
        punished.endog,
        frame,
        result,
        fit={},
        estimates=estimates,
        more={"w": [1.0] * n, "o": [float(np.log(100))] * n},
    )
    fair = datasets.fair.load_pandas().data
    features = columns_of(fair[["rate_marriage", "age", "yrs_married"]])
    tweedie = results_glm.FairTweedieLog15()
    yield Case(
        "affairs",
        "tweedie",
        fair["affairs"].tolist(),
        features,
        dict(zip(features, map(float, tweedie.params), strict=True)),
        dict(zip(features, map(float, tweedie.bse), strict=True)),
        {"deviance": float(tweedie.deviance)},
        {"power": 1.5, "fit_intercept": False},
        rough=1e-4,
    )


def discrete() -> Iterator[Case]:
    """Stata's and R's models of classes and counts."""
    spector, logit = datasets.spector.load_pandas(), Spector.logit
    x = columns_of(spector.exog)
    found = named(list(x), logit.params), named(list(x), logit.bse)
    yield Case(
        "Spector", "logistic", spector.endog.tolist(), x, *found, {"log_likelihood": logit.llf}
    )
    anes, several = datasets.anes96.load_pandas(), Anes.mnlogit_basezero
    x = columns_of(anes.exog)
    estimates, errors = {}, {}
    for k, (values, sizes) in enumerate(zip(several.params.T, several.bse.T, strict=True), 1):
        for out, some in ((estimates, values), (errors, sizes)):
            out |= {f"{k}: {term}": v for term, v in named(list(x), some).items()}
    labels = [f"{int(one)}" for one in anes.endog]
    yield Case(
        "parties", "logistic", labels, x, estimates, errors, {"log_likelihood": several.llf}
    )
    visits = datasets.randhie.load_pandas()
    x, y = columns_of(visits.exog), visits.endog.astype(float).tolist()
    poisson, negative = RandHIE.poisson, RandHIE.negativebinomial_nb2_bfgs
    terms, fit = list(x), {"log_likelihood": float(poisson.llf)}
    yield Case(
        "doctors", "poisson", y, x, named(terms, poisson.params), named(terms, poisson.bse), fit
    )
    estimates, errors = named(terms, negative.params[:-1]), named(terms, negative.bse[:-1])
    fit = {"log_likelihood": negative.llf, "dispersion": float(np.exp(negative.lnalpha))}
    # MASS's glm.nb and Stata differ from each other beyond these digits.
    yield Case("doctors", "negative_binomial", y, x, estimates, errors, fit, rough=2e-4)


def robust() -> Iterator[Case]:
    """Stata's robust and clustered errors."""
    path = FOLDER / "discrete" / "tests" / "results" / "ships.csv"
    ships = pd.read_csv(path).dropna()
    ship = [f"{int(one)}" for one in ships["ship"]]
    x, y = columns_of(ships[["yr_con", "op_75_79"]]), ships["accident"].astype(float).tolist()
    for task, short in (("poisson", "poisson"), ("negative_binomial", "negbin")):
        for exposure, kind in [
            (e, k) for e in ("", "exposure_") for k in ("nonrobust", "hc1", "clu")
        ]:
            result = getattr(counts, f"results_{short}_{exposure}{kind}", None)
            if result is None:
                continue
            fit = {"log_likelihood": float(result.ll)}
            if short == "negbin":
                fit["dispersion"] = float(result.params[-1])
            offset = np.log(ships["service"].astype(float)).tolist()
            more = {"w": [1.0] * len(y), "o": offset} if exposure else {}
            options = {"hc1": {"covariance": "HC1"}, "clu": {"cluster": "ship"}}.get(kind, {})
            reason = COUNTED if short == "poisson" else OBSERVED
            yield Case(
                f"ships, {exposure}{kind}",
                task,
                y,
                x | ({"ship": ship} if kind == "clu" else {}),
                named(list(x), result.params[:3]),
                named(list(x), result.bse[:3]),
                fit,
                options,
                more,
                {} if (short, kind) == ("poisson", "nonrobust") else {"std_err": reason},
                1e-6 if short == "poisson" else 2e-5,
            )
    data = datasets.macrodata.load_pandas().data
    growth = 400 * np.diff(np.log(data[["realinv", "realgdp"]].to_numpy()), axis=0)
    x = {"growth": growth[:, 1].tolist(), "rate": data["realint"].to_numpy()[:-1].tolist()}
    result = macro.results_hc0
    yield Case(
        "investment", "linear", growth[:, 0].tolist(), x, named(list(x), result.params),
        named(list(x), result.bse), options={"covariance": "HC1"},
    )  # fmt: skip
    firms = datasets.grunfeld.load_pandas().data[:200]  # Stata's table has no eleventh firm
    x = columns_of(firms[["value", "capital"]])
    y = firms["invest"].tolist()
    for kind in ("cluster", "hc1_wls_small", "cluster_wls_small"):
        result = getattr(grunfeld, f"results_{kind}")
        clustered = "cluster" in kind
        options = {"cluster": "firm"} if clustered else {"covariance": "HC1"}
        weight = 1 / firms["value"]
        more = {"w": (weight / weight.mean()).tolist()} if "wls" in kind else {}
        rows = x | ({"firm": firms["firm"].astype(str).tolist()} if clustered else {})
        yield Case(
            f"Grunfeld, {kind}", "linear", y, rows, named(list(x), result.params),
            named(list(x), result.bse), options=options, more=more,
            reasons={"std_err": ANALYTIC} if kind == "hc1_wls_small" else {},
        )  # fmt: skip


def others() -> Iterator[Case]:
    """Stata's quantiles, R's robust and penalised models."""
    engel = datasets.engel.load_pandas().data
    x, y = columns_of(engel[["income"]]), engel["foodexp"].tolist()
    for result in (quantiles.epanechnikov_hsheather_q75, quantiles.biweight_hsheather):
        estimates = named(["income"], result.table[:, 0])
        deviations = {"loss": result.sum_adev / 2 / len(y) * 2}
        options = {"quantile": float(result.q)}
        yield Case(
            f"Engel at {result.q}",
            "quantile",
            y,
            x,
            estimates,
            {},
            deviations,
            options,
            rough=2e-6,
        )
    stack = datasets.stackloss.load_pandas()
    x, y = columns_of(stack.exog), stack.endog.tolist()
    yield Case("stack loss", "huber", y, x, named(list(x), Huber().params), rough=1e-4)
    for task, kind in (("logistic", "binomial"), ("poisson", "poisson")):
        rows = pd.read_csv(FOLDER / "genmod" / "tests" / "results" / f"enet_{kind}.csv").to_numpy()
        features = (rows[:, 1:] - rows[:, 1:].mean(axis=0)) / rows[:, 1:].std(axis=0, ddof=1)
        x = {f"x{k}": features[:, k].tolist() for k in range(features.shape[1])}
        for j in range(9):
            share, penalty, *values = getattr(glmnet_r_results, f"rslt_{kind}_{j}")
            options = {"l1": share * penalty, "l2": (1 - share) * penalty, "fit_intercept": False}
            estimates = dict(zip(x, map(float, values), strict=True))
            y = rows[:, 0].tolist()
            # glmnet ends at a deviance that is 1e-7 off.
            yield Case(f"glmnet, {kind} {j}", task, y, x, estimates, options=options, rough=2e-3)


LEFT_OUT = {
    "a link that tuskml does not have": "GaussianLog GaussianInverse Scotvote CancerIdentity "
    "InvGauss InvGaussLog InvGaussIdentity CpunishTweediePower15 CpunishTweediePower2 probit",
    "responses are counts of trials": "Star98",
    "a dispersion of R's quasi families": "Committee CpunishTweedieLog1",
    "its rows are not in the package": "Wfs",
    "a distribution of counts that tuskml does not have": "nb1 geometric gp2 zip_logit zip_probit "
    "zip_offset zigp zinb truncated_poisson zero_truncated_poisson zero_truncated_nbp",
}
"""Results by the reason why they are left out."""
SOURCES: Mapping[str, Callable[[], Iterator[Case]]] = {
    "general": generals,
    "discrete": discrete,
    "robust": robust,
    "others": others,
}


def numbers_of(database: Database, case: Case) -> Iterator[Number]:
    """Trains the case and compares."""
    database.create("suite", {"y": case.y, **case.x, **case.more})
    options = {**PRECISE, **case.options}
    penalised = "l1" in options
    likely = case.task not in ("huber", "quantile") and not penalised
    if likely and case.fit:
        options["fit"] = True
    database.train("suite", case.task, "y", list(case.x), options, list(case.more))
    summary = database.summary()
    size = max(map(abs, case.estimates.values()))
    for term, value in case.estimates.items():
        ours = summary[term][0]
        if penalised:
            yield Number(f"estimate {term}", value, ours, case.rough, size)
        else:
            yield printed(f"estimate {term}", value, ours, case.rough)
    for term, value in case.errors.items():
        yield printed(f"std_err {term}", value, summary[term][1], max(case.rough, 1e-6))
    if likely and case.fit:
        fit = database.row_of(", ".join(case.fit), "model_fit")
        for name, value in case.fit.items():
            yield printed(name, value, fit[name], case.rough)


@pytest.mark.parametrize("source", SOURCES)
def test_statsmodels_results_are_ours(both: Database, tally: Tally, source: str) -> None:
    unexplained = []
    for case in SOURCES[source]():
        numbers = list(numbers_of(both, case))
        found = tally.compare("statsmodels", source, both.name, numbers, case.reasons)
        unexplained += [f"{case.name}, {case.task}: {one}" for one in found]
    if source == "others":
        left_out = tally.line("statsmodels", source, both.name).left_out
        left_out.update({reason: len(names.split()) for reason, names in LEFT_OUT.items()})
    assert unexplained == [], "\n".join(chain(["these differ:"], unexplained))
