"""Models of more than two classes in a store, in both databases: as those that are in none."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(3)
N, CLASSES = 400, [1.0, 2.0, 5.0]
X = RANDOM.normal(size=(N, 3)) * [1, 2, 0.5] + [0, 1, 3]
Y = RANDOM.choice(CLASSES, N) * (X[:, 0] < 1) + 5.0 * (X[:, 0] >= 1)
X[RANDOM.random((N, 3)) < 0.1] = 0
FEATURES = {
    "dense": "ARRAY[c0, c1, c2]",
    "float": "CAST(ARRAY[c0, c1, c2] AS real[])",
    "sparse": "sparse(ARRAY[0, 1, 2], ARRAY[c0, c1, c2])",
    "far": "sparse(ARRAY[7, 90000000, 1999999999], ARRAY[c0, c1, c2])",
}


def model_of(client: Client, features: str, **options: Any) -> str:
    """A query of one row with the model m."""
    call = f"train_model('logistic', y, {features}, '{json.dumps({'l2': 0.01} | options)}')"
    return f"(SELECT {call} AS m FROM {client.rows(X, Y)[0]}) AS t"


def asked(client: Client, what: str, source: str, more: int = 1) -> list[Any]:
    """The answer of a query over as many copies of the rows."""
    parameters = client.rows(X, Y)[1] * more
    return client.connection.execute(f"SELECT {what} FROM {source}", parameters).fetchall()


@pytest.mark.parametrize("kind", FEATURES)
def test_predictions_are_scikit_learn_s(client: Client, kind: str) -> None:
    features = FEATURES[kind]
    source = f"{client.rows(X, Y)[0]}, {model_of(client, features, store='classes')}"
    answers = f"predict(m, {features}), predict_class(m, {features}), predict_probas(m, {features}), predict_proba(m, {features}, 2)"
    found = asked(client, answers, source, 2)
    truth = LogisticRegression(C=1 / (0.01 * N), tol=1e-10, max_iter=10_000).fit(X, Y)
    shares = np.array([[row[2][key] for key in ("1", "2", "5")] for row in found])
    np.testing.assert_allclose(shares, truth.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose([row[3] for row in found], shares[:, 1])
    np.testing.assert_array_equal([row[0] for row in found], truth.predict(X))
    assert [float(row[1]) for row in found] == truth.predict(X).tolist()


@pytest.mark.parametrize("kind", ["dense", "sparse", "far"])
def test_the_model_says_where_its_coefficients_are(client: Client, kind: str) -> None:
    fields = ("coef", "intercept", "std_err", "classes", "n_features", "status", "options", "loss")
    source = model_of(client, FEATURES[kind], store="classes")
    (found,) = asked(client, ", ".join(f"(m).{name}" for name in fields), source)
    about = dict(zip(fields, found, strict=True))
    assert (about["coef"], about["intercept"], about["std_err"]) == (None, None, None)
    assert (about["classes"], about["status"]) == (CLASSES, "ok")
    assert about["n_features"] == (2_000_000_000 if kind == "far" else 3)
    assert json.loads(about["options"])["store"].startswith("classes@")
    plain = client.fit("logistic", X, Y, l2=0.01)
    assert about["loss"] == pytest.approx(plain.loss, rel=1e-8)


def test_ids_that_no_row_had_weigh_nothing(client: Client) -> None:
    trained = model_of(client, FEATURES["far"], store="classes")
    rows = client.rows(X[:1], Y[:1])
    both = "predict_probas(m, sparse(ARRAY[7], ARRAY[c0])), predict_probas(m, sparse(ARRAY[7, 8, 2000000000], ARRAY[c0, 9.0, 9.0]))"
    query = f"SELECT {both} FROM {rows[0]}, {trained}"
    (found,) = client.connection.execute(query, rows[1] + client.rows(X, Y)[1]).fetchall()
    assert found[0] == found[1]


def test_what_cannot_be_is_refused(client: Client) -> None:
    dense = FEATURES["dense"]
    asked(client, "(m).status", model_of(client, dense, store="classes"))
    warm = {"warm_start": {"store": "classes"}}
    in_memory = "algorithm 'hogbatch' is not available with more than two"
    stored = "warm_start is the stored model 'classes' of 3"
    for features, options, why in (
        (dense, {"algorithm": "hogbatch"}, in_memory),
        (dense, warm, stored),
        (FEATURES["sparse"], warm, stored),
    ):
        source = model_of(client, features, store="classes", **options)
        with pytest.raises(Exception, match=why):
            asked(client, "(m).status", source)


@pytest.mark.parametrize("kind", ["sparse", "far"])
@pytest.mark.parametrize("more", [{}, {"validation": 0.2}, {"partition": 0}])
def test_weights_may_lie_in_the_store_while_they_are_trained(
    client: Client, kind: str, more: dict[str, Any]
) -> None:
    features = FEATURES[kind]
    given = {"store": "classes", "algorithm": "hogbatch", "epsilon": 0, "max_iter": 300} | more
    source = f"{client.rows(X, Y)[0]}, {model_of(client, features, **given)}"
    found = asked(client, f"predict_probas(m, {features}), (m).plan, (m).coef", source, 2)
    assert found[0][1].startswith("hogbatch")
    assert found[0][2] is None
    shares = np.array([[row[0][key] for key in ("1", "2", "5")] for row in found])
    truth = LogisticRegression(C=1 / (0.01 * N), tol=1e-10, max_iter=10_000).fit(X, Y)
    own = np.searchsorted(CLASSES, Y)
    loss, least = (
        -np.mean(np.log(p[np.arange(N), own])) for p in (shares, truth.predict_proba(X))
    )
    assert loss < least * (1.1 if "validation" in more else 1.02)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_explanation_is_that_of_memory(client: Client, kind: str) -> None:
    call = f"explain_training('logistic', y, {FEATURES[kind]}, $${json.dumps({'store': 's'})}$$)"
    ((text,),) = asked(client, call, client.rows(X, Y)[0])
    assert "3 classes" in text
