"""Wald tests of whole terms, in both databases, against statsmodels and nested models."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.formula.api as smf

sys.path.append(str(Path(__file__).parent))

from columns_by_name import (
    COLUMNS,
    FAMILIES,
    LABELS,
    MARGIN,
    PRECISE,
    RANDOM,
    WEIGHT,
    A,
    H,
    K,
    N,
    frame,
    terms,
)
from databases import Client, client, here, there

__all__ = ["client", "here", "there"]


def agree(found: Any, fit: Any, names: dict[str, str], rel: float = 1e-5) -> None:
    """Our terms beside those of statsmodels; names: its own for each of ours."""
    assert [row[0] for row in found] == list(names)
    table = fit.wald_test_terms(scalar=True).table
    for name, df, _, statistic, p in found:
        peer = table.loc[names[name]]
        assert df == peer["df_constraint"]
        assert statistic == pytest.approx(peer["statistic"], rel=rel)
        assert p == pytest.approx(peer["pvalue"], rel=1e3 * rel, abs=1e-12)


NAMES = {"a": "a", "k": "C(k)", "h": "h"}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", list(LABELS))
def test_terms_are_statsmodels_s(client: Client, task: str, weighted: bool) -> None:
    y, student = LABELS[task], task in ("linear", "gamma")
    weight = WEIGHT if weighted else None
    options = {"dispersion": 0.5} if task == "negative_binomial" else {}
    found = terms(client, task, y, weight, **options)
    peer = smf.glm("y ~ a + C(k) + h", frame(y), family=FAMILIES[task], freq_weights=weight)
    agree(found, peer.fit(tol=1e-14, use_t=student), NAMES)
    assert {row[2] for row in found} == {"F" if student else "chi2"}


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC3"])
def test_robust_covariances(client: Client, kind: str) -> None:
    found = terms(client, "linear", LABELS["linear"], covariance=kind)
    peer = smf.ols("y ~ a + C(k) + h", frame(LABELS["linear"]))
    agree(found, peer.fit(cov_type=kind, use_t=True), NAMES)


def test_a_linear_term_is_the_f_test_of_nested_models(client: Client) -> None:
    """The increase of the residual sum of squares without the term, by degrees of freedom."""
    data = frame(LABELS["linear"])
    found = {row[0]: row for row in terms(client, "linear", data["y"])}
    whole = smf.ols("y ~ a + C(k) + h", data).fit()
    for name, rest in (("a", "C(k) + h"), ("k", "a + h"), ("h", "a + C(k)")):
        f, p, df = whole.compare_f_test(smf.ols(f"y ~ {rest}", data).fit())
        assert found[name][1] == df
        assert found[name][3:] == (pytest.approx(f, rel=1e-6), pytest.approx(p, rel=1e-5))


def test_many_levels_in_sparse_rows(client: Client) -> None:
    level = np.arange(N) % 60
    y = LABELS["linear"]
    columns = {"a": "c0", "k": "'level ' || CAST(c1 AS integer)"}
    found = terms(client, "linear", y, x=np.column_stack([A, level]), columns=columns)
    whole = smf.ols("y ~ a + C(k)", data := frame(y).assign(k=level)).fit()
    f, p, df = whole.compare_f_test(smf.ols("y ~ a", data).fit())
    assert [row[:3] for row in found] == [("a", 1, "F"), ("k", 59, "F")]
    assert (df, found[1][3:]) == (59, (pytest.approx(f, rel=1e-6), pytest.approx(p, rel=1e-5)))


def test_interactions_and_gaps_are_terms(client: Client) -> None:
    columns = COLUMNS | {"a": "CASE WHEN c0 < 1 THEN c0 END"}
    found = terms(
        client,
        "logistic",
        LABELS["logistic"],
        columns=columns,
        missing="impute",
        interactions=[["k", "h"]],
    )
    data = frame(LABELS["logistic"]).assign(gap=(A >= 1).astype(float))
    data["a"] = np.where(A < 1, A, A[A < 1].mean())
    peer = smf.logit("y ~ a + gap + C(k) * h", data).fit(disp=False, tol=1e-12)
    assert [row[:2] for row in found] == [("a", 2), ("k", 3), ("h", 1), ("k:h", 3)]
    both = peer.wald_test("a = 0, gap = 0", scalar=True)
    assert found[0][3] == pytest.approx(both.statistic, rel=1e-5)
    table = peer.wald_test_terms(scalar=True).table
    for row, name in zip(found[1:], ["C(k)", "h", "C(k):h"], strict=True):
        assert row[3] == pytest.approx(table.loc[name, "statistic"], rel=1e-5)


def test_what_the_rows_do_not_determine_is_not_tested(client: Client) -> None:
    columns = COLUMNS | {"twice": "2 * c0"}
    found = {row[0]: row[1:] for row in terms(client, "linear", LABELS["linear"], columns=columns)}
    truth = {row[0]: row[1:] for row in terms(client, "linear", LABELS["linear"])}
    assert found["a"] == found["twice"] == (1, "F", None, None)
    for name in ("k", "h"):
        assert found[name][2:] == pytest.approx(truth[name][2:], rel=1e-6)


def test_a_feature_of_a_list_is_a_term(client: Client) -> None:
    source, parameters = client.rows(np.column_stack([A, K]), LABELS["poisson"])
    call = (
        f"SELECT train_model('poisson', y, ARRAY[c0, c1], '{json.dumps(PRECISE)}') FROM {source}"
    )
    found, alone = (
        client.connection.execute(f"{query} (({call}))", parameters).fetchall()
        for query in (
            "SELECT term, df, test, statistic, p_value FROM model_terms",
            "SELECT term, statistic * statistic, p_value, feature FROM model_summary",
        )
    )
    wanted = [row for row in alone if row[3]]
    assert [row[:3] for row in found] == [(row[0], 1, "chi2") for row in wanted]
    for row, right in zip(found, wanted, strict=True):
        assert row[3:] == pytest.approx(right[1:3], rel=1e-8)


def test_each_group_has_its_own(here: Client) -> None:
    found = here.connection.execute(
        """CREATE OR REPLACE TEMP TABLE g AS SELECT i % 3 AS g, sin(i) AS a, ['p', 'q', 'r'][1 + i * 7 % 11 % (3 - (i % 3) % 2)] AS k,
           cos(i * i) + a AS y FROM range(200) r(i);
           CREATE OR REPLACE TEMP TABLE gm AS
           SELECT g, train_model('linear', y, {'a': a, 'k': k}, '{"fit": true}') AS m FROM g GROUP BY g;
           SELECT g, json_extract(m.options, '$.terms') FROM gm ORDER BY g"""
    ).fetchall()
    for group, text in found:
        data = here.connection.execute("SELECT a, k, y FROM g WHERE g = ?", [group]).df()
        whole = smf.ols("y ~ a + C(k)", data).fit()
        f, p, df = whole.compare_f_test(smf.ols("y ~ a", data).fit())
        assert json.loads(text)[1] == pytest.approx([df, f, p], rel=1e-5)


def test_models_that_keep_no_tests(client: Client) -> None:
    with pytest.raises(Exception, match=r'model_terms: .* train it with the option "fit": true'):
        terms(client, "linear", LABELS["linear"], fit=False)
    assert client.connection.execute("SELECT * FROM model_terms(NULL)").fetchall() == []
    found = terms(client, "linear", LABELS["linear"], l2=0.1)
    assert [row[0:2] + row[3:] for row in found] == [
        ("a", 1, None, None),
        ("k", 4, None, None),
        ("h", 2, None, None),
    ]


@pytest.mark.parametrize("order", [[1, 0, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]])
def test_the_reference_level_does_not_matter(here: Client, order: list[int]) -> None:
    """The coefficients differ, the hypothesis that the levels do not is the same."""
    y = LABELS["poisson"]
    other = np.column_stack([A, np.array(order)[K], H])
    for row, same in zip(
        terms(here, "poisson", y), terms(here, "poisson", y, x=other), strict=True
    ):
        assert row[:3] == same[:3]
        assert row[3:] == pytest.approx(same[3:], rel=1e-6)


CLASSES = 3
SCORES = (
    np.outer(MARGIN, [0, 1, -0.6]) + np.array([0, 0.2, 0.4]) + RANDOM.gumbel(size=(N, CLASSES))
)
CLASS = SCORES.argmax(axis=1).astype(float)
FORMULAS = {"a": "y ~ C(k) + h", "k": "y ~ a + h", "h": "y ~ a + C(k)"}


def of_classes(formula: str, rows: pd.DataFrame, **given: Any) -> Any:
    return smf.mnlogit(formula, rows).fit(disp=0, method="newton", **given)


@pytest.mark.parametrize("covariance", ["classic", "HC0"])
def test_more_than_two_classes(client: Client, covariance: str) -> None:
    """Of each class but the first a term has its coefficients: b' V^-1 b of all of them, from
    statsmodels' estimates, and twice the gain of the log-likelihood.
    """
    rows = pd.DataFrame({"y": CLASS.astype(int), "a": A, "k": K, "h": H})
    given = {} if covariance == "classic" else {"cov_type": covariance}
    whole = of_classes("y ~ a + C(k) + h", rows, **given)
    found = terms(client, "logistic", CLASS, covariance=covariance, likelihood_ratio=True)
    names, width = list(whole.params.index), len(whole.params)
    for (term, df, test, statistic, p), name in zip(found[:3], FORMULAS, strict=True):
        own = [i for i, one in enumerate(names) if one.startswith("C(k)" if name == "k" else name)]
        at = [c * width + i for c in range(CLASSES - 1) for i in own]
        b = whole.params.to_numpy().T.ravel()[at]
        expected = b @ np.linalg.solve(whole.cov_params().to_numpy()[np.ix_(at, at)], b)
        assert (term, df, test) == (name, len(at), "chi2")
        assert statistic == pytest.approx(expected, rel=1e-4)
        assert p == pytest.approx(scipy.stats.chi2.sf(expected, len(at)), rel=1e-3)
    for (term, df, test, statistic, _), (name, less) in zip(
        found[3:], FORMULAS.items(), strict=True
    ):
        gain = 2 * (whole.llf - of_classes(less, rows).llf)
        assert (term, df, test) == (name, (CLASSES - 1) * (3 if name == "k" else 1), "LR")
        assert statistic == pytest.approx(gain, rel=1e-6)


def test_more_than_two_classes_without_a_test(client: Client) -> None:
    """A penalty leaves no statistic; a column that says nothing new has no direction of its own."""
    found = terms(client, "logistic", CLASS, likelihood_ratio=True, l2=0.1)
    assert [row[1:4] for row in found] == [
        *((df, "chi2", None) for df in (2, 8, 4)),
        *((df, "LR", None) for df in (2, 8, 4)),
    ]
    twice = {"a": "c0", "b": "2 * c0", "h": "c2"}
    found = terms(client, "logistic", CLASS, columns=twice, likelihood_ratio=True)
    assert [row[1] for row in found[3:]] == [0, 0, 2]
    assert [row[3] is None for row in found[3:]] == [True, True, False]
