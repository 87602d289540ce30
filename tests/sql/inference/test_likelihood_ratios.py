"""Likelihood-ratio tests of whole terms, in both databases, against statsmodels and R."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.stats import chi2

from tuskml.learners.linear import descent
from tuskml.learners.linear.inference import ratios as term_ratios

sys.path.append(str(Path(__file__).parent))

from columns_by_name import COLUMNS, FAMILIES, LABELS, WEIGHT, A, K, N, frame, terms
from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

REST = {"a": "C(k) + h", "k": "a + h", "h": "a + C(k)"}
BOTH = {"likelihood_ratio": True}


def ratios(client: Client, task: str, y: Any, weight: Any = None, **options: Any) -> Any:
    """The likelihood ratios among the rows of model_terms: term, df, statistic, p."""
    found = terms(client, task, y, weight, **(BOTH | options))
    half = len(found) // 2
    assert [row[2] == "LR" for row in found] == [False] * half + [True] * half
    assert [row[0] for row in found[:half]] == [row[0] for row in found[half:]]
    return [(*row[:2], *row[3:]) for row in found[half:]]


def truth(task: str, y: Any, formula: str, rest: str, weight: Any = None) -> tuple[int, float]:
    """Degrees of freedom and statistic: the difference of deviances, as R's `drop1` has it."""
    data = frame(y)
    if task == "linear":
        data = data if weight is None else data.loc[data.index.repeat(weight)]
        whole, less = (smf.ols(f"y ~ {one}", data).fit() for one in (formula, rest))
        statistic, _, df = whole.compare_lr_test(less)
        return int(df), statistic
    how = {"family": FAMILIES[task], "freq_weights": weight}
    whole, less = (smf.glm(f"y ~ {f}", data, **how).fit(tol=1e-13) for f in (formula, rest))
    scale = whole.scale if task == "gamma" else 1.0
    return int(less.df_resid - whole.df_resid), (less.deviance - whole.deviance) / scale


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", list(LABELS))
def test_ratios_are_statsmodels_s(client: Client, task: str, weighted: bool) -> None:
    weight = WEIGHT if weighted else None
    options = {"dispersion": 0.5} if task == "negative_binomial" else {}
    found = ratios(client, task, LABELS[task], weight, **options)
    assert [row[0] for row in found] == list(REST)
    for term, df, statistic, p in found:
        wanted = truth(task, LABELS[task], "a + C(k) + h", REST[term], weight)
        assert df == wanted[0]
        assert statistic == pytest.approx(wanted[1], rel=1e-6)
        assert p == pytest.approx(chi2.sf(wanted[1], df), rel=1e-5)


def test_an_estimated_dispersion_is_estimated_without_the_term_too(client: Client) -> None:
    data = frame(LABELS["negative_binomial"])
    whole = smf.negativebinomial("y ~ a + C(k) + h", data).fit(disp=False, maxiter=200, gtol=1e-8)
    for term, df, statistic, p in ratios(client, "negative_binomial", data["y"]):
        less = smf.negativebinomial(f"y ~ {REST[term]}", data).fit(disp=False, maxiter=200)
        assert df == whole.df_model - less.df_model
        assert statistic == pytest.approx(2 * (whole.llf - less.llf), rel=1e-4)
        assert p == pytest.approx(chi2.sf(statistic, df), rel=1e-8)


def test_the_randomised_trial_of_r_s_manual(client: Client) -> None:
    """Dobson, An introduction to generalized linear models, 1990; R's ?glm, anova(test = "Chisq").

    R prints for outcome: 2, 5.4523, 0.06547; for treatment: 2, 0.0000, 1.00000.
    """
    y = [18, 17, 15, 20, 10, 20, 25, 13, 12]
    x = np.column_stack([np.arange(9) % 3, np.arange(9) // 3])
    columns = {
        "outcome": "'outcome ' || CAST(c0 AS integer)",
        "treatment": "'treatment ' || CAST(c1 AS integer)",
    }
    found = terms(client, "poisson", y, x=x, columns=columns, **BOTH)[2:]
    assert [row[:3] for row in found] == [("outcome", 2, "LR"), ("treatment", 2, "LR")]
    assert found[0][3:] == (pytest.approx(5.4523, abs=5e-5), pytest.approx(0.06547, abs=5e-6))
    assert found[1][3:] == (pytest.approx(0.0, abs=1e-9), pytest.approx(1.0, abs=1e-9))


@pytest.mark.parametrize("algorithm", ["newton", "lbfgs", "bgd"])
def test_any_algorithm_finds_the_same(here: Client, algorithm: str) -> None:
    how = {"algorithm": algorithm, "max_iter": 5000}
    for row in ratios(here, "logistic", LABELS["logistic"], **how):
        wanted = truth("logistic", LABELS["logistic"], "a + C(k) + h", REST[row[0]])
        assert row[1:3] == (wanted[0], pytest.approx(wanted[1], rel=1e-6))


def test_many_levels_in_sparse_rows(client: Client) -> None:
    level = np.arange(N) % 60
    columns = {"a": "c0", "k": "'level ' || CAST(c1 AS integer)"}
    x = np.column_stack([A, level])
    found = terms(client, "linear", LABELS["linear"], x=x, columns=columns, **BOTH)[2:]
    whole = smf.ols("y ~ a + C(k)", frame(LABELS["linear"]).assign(k=level)).fit()
    for term, df, _, statistic, p in found:
        rest = {"a": "C(k)", "k": "a"}[term]
        data = frame(LABELS["linear"]).assign(k=level)
        right, chance, freedom = whole.compare_lr_test(smf.ols(f"y ~ {rest}", data).fit())
        assert (df, statistic) == (freedom, pytest.approx(right, rel=1e-6))
        assert p == pytest.approx(chance, rel=1e-5)


def test_interactions_and_gaps(client: Client) -> None:
    columns = COLUMNS | {"a": "CASE WHEN c0 < 1 THEN c0 END"}
    more = {"columns": columns, "missing": "impute", "interactions": [["k", "h"]]}
    found = ratios(client, "logistic", LABELS["logistic"], **more)
    data = frame(LABELS["logistic"]).assign(gap=(A >= 1).astype(float))
    data["a"] = np.where(A < 1, A, A[A < 1].mean())
    whole = smf.logit("y ~ a + gap + C(k) * h", data).fit(disp=False, tol=1e-12)
    assert [row[:2] for row in found] == [("a", 2), ("k", 3), ("h", 1), ("k:h", 3)]
    for row, rest in ((found[0], "C(k) * h"), (found[3], "a + gap + C(k) + h")):
        less = smf.logit(f"y ~ {rest}", data).fit(disp=False, tol=1e-12)
        assert row[2] == pytest.approx(2 * (whole.llf - less.llf), rel=1e-6)


def test_directions_that_other_terms_have_too_are_not_counted(client: Client) -> None:
    """What two columns say alike is lost with neither of them; Wald's test knows nothing here."""
    columns = COLUMNS | {"same": "c1 = 0"}
    found = ratios(client, "linear", LABELS["linear"], columns=columns)
    wanted = {row[0]: row for row in ratios(client, "linear", LABELS["linear"])}
    assert {row[0]: row[1] for row in found} == {"a": 1, "k": 2, "h": 1, "same": 0}
    by_name = {row[0]: row for row in found}
    assert by_name["same"][2:] == (None, None)
    for name in ("a", "h"):
        assert by_name[name][2:] == pytest.approx(wanted[name][2:], rel=1e-6)
    data = frame(LABELS["linear"]).assign(same=(K == 0).astype(float))
    right = smf.ols("y ~ a + C(k) + h", data).fit()
    statistic, p, _ = right.compare_lr_test(smf.ols("y ~ a + h + same", data).fit())
    assert by_name["k"][2:] == (pytest.approx(statistic, rel=1e-6), pytest.approx(p, rel=1e-5))


def test_each_group_has_its_own_levels(client: Client) -> None:
    """Groups of 2, 3 and 3 levels, two of whose columns differ in width."""
    group, level = np.arange(N) % 3, K % (2 + (np.arange(N) % 3 > 0))
    features, source = client.by_name({"a": "c0", "k": "'l' || CAST(c1 AS integer)"}, "")
    values, parameters = client.rows(np.column_stack([A, level, group]), LABELS["poisson"])
    call = f"train_model('poisson', y, {features}, '{json.dumps({'fit': True, 'epsilon': 1e-10} | BOTH)}')"
    found = client.connection.execute(
        f"SELECT c2, (m).options "
        f"FROM (SELECT c2, {call} AS m FROM {values}{source} GROUP BY c2) AS t ORDER BY c2",
        parameters,
    ).fetchall()
    assert len(found) == 3
    for g, options in found:
        data = frame(LABELS["poisson"]).assign(k=level)[group == g]
        whole, less = (
            smf.poisson(f"y ~ {f}", data).fit(disp=False, tol=1e-12) for f in ("a + C(k)", "a")
        )
        df, statistic, p = json.loads(options)["ratios"][1]
        assert df == (1 if g == 0 else 2)
        assert statistic == pytest.approx(2 * (whole.llf - less.llf), rel=1e-6)
        assert p == pytest.approx(chi2.sf(statistic, df), rel=1e-8)


def test_features_of_a_list_are_terms(client: Client) -> None:
    values, parameters = client.rows(np.column_stack([A, K]), LABELS["logistic"])
    options = json.dumps({"fit": True, "epsilon": 1e-10} | BOTH)
    call = f"SELECT train_model('logistic', y, ARRAY[c0, c1], '{options}') FROM {values}"
    found = client.connection.execute(
        f"SELECT * FROM model_terms(({call}))", parameters
    ).fetchall()
    x = sm.add_constant(np.column_stack([A, K]))
    whole = sm.Logit(LABELS["logistic"], x).fit(disp=False, tol=1e-12)
    for place, row in enumerate(found[2:]):
        less = sm.Logit(LABELS["logistic"], np.delete(x, 1 + place, axis=1)).fit(disp=False)
        assert row[:3] == (f"x{place + 1}", 1, "LR")
        assert row[3] == pytest.approx(2 * (whole.llf - less.llf), rel=1e-6)


@pytest.mark.parametrize("more", [{"l2": 0.1}, {"class_weight": "balanced"}, {"max_iter": 1}])
def test_what_is_not_the_greatest_likelihood_has_no_ratio(
    client: Client, more: dict[str, Any]
) -> None:
    assert {row[2:] for row in ratios(client, "logistic", LABELS["logistic"], **more)} == {
        (None, None)
    }


def test_it_takes_the_option_fit(client: Client) -> None:
    with pytest.raises(Exception, match="option 'likelihood_ratio' needs option 'fit' beside it"):
        terms(client, "linear", LABELS["linear"], fit=False, **BOTH)
    assert {row[2] for row in terms(client, "linear", LABELS["linear"])} == {"F"}


def test_held_out_rows_stop_no_model_without_a_term(con: duckdb.DuckDBPyConnection) -> None:
    """Also where one of several groups stopped early, and has no ratios."""
    random = np.random.default_rng(1)
    x = random.normal(size=(4000, 5))
    y = x[:, 0] + random.logistic(size=len(x)) > 0
    con.register("given", pd.DataFrame({"g": np.arange(len(x)) % 3, "y": y, "x": list(x)}))
    options = json.dumps({"fit": True, "likelihood_ratio": True, "validation": 0.2})
    sql = f"SELECT (train_model('logistic', y, x, '{options}')).status FROM given GROUP BY g"
    assert {status for (status,) in con.execute(sql).fetchall()} <= {"ok", "early stop"}


def test_no_model_is_trained_when_time_is_over(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []
    monkeypatch.setattr(descent.Run, "is_over", lambda _: True)
    monkeypatch.setattr(term_ratios, "statistics", lambda *_: trained.append(1))
    options = json.dumps({"fit": True, "likelihood_ratio": True})
    rows = "SELECT i % 7 < 3 AS y, [i % 5, i % 11] AS x FROM range(500) r(i)"
    sql = f"SELECT (train_model('logistic', y, x, '{options}')).status FROM ({rows})"
    assert con.execute(sql).fetchall() == [("ok",)]
    assert not trained
