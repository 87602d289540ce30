"""More than two classes in both databases, against statsmodels' MNLogit and scikit-learn."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(1)
N = 600
X = RANDOM.normal(size=(N, 3)) * [1, 2, 0.5] + [0, 1, 3]
MARGINS = np.c_[np.zeros(N), X @ [-0.6, 0.3, 1.0] + 0.4, X @ [0.5, 0.2, -1.0] + 1]
SHARES = np.exp(MARGINS) / np.exp(MARGINS).sum(axis=1, keepdims=True)
Y = np.array([RANDOM.choice([1, 2, 5], p=share) for share in SHARES])


def blocks(model: SimpleNamespace, classes: int = 3) -> Any:
    """The weights by class, each class's intercept first."""
    return model.coef.reshape(classes, -1)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "bgd"])
def test_without_a_penalty_it_is_statsmodels_mnlogit(
    client: Client, storage: str, algorithm: str
) -> None:
    """The first class is the reference, whose weights are 0 and have no standard errors."""
    model = client.fit("logistic", X, Y, storage, algorithm=algorithm)
    truth = sm.MNLogit(Y, sm.add_constant(X)).fit(disp=0, method="newton", tol=1e-12)
    assert (model.status, model.converged, model.intercept) == ("ok", True, None)
    assert np.array_equal(blocks(model)[0], np.zeros(4))
    tolerance = 5e-4 if algorithm == "bgd" else 2e-5
    assert blocks(model)[1:] == pytest.approx(truth.params.T, abs=tolerance)
    assert model.loss == pytest.approx(-truth.llf / N, rel=1e-9)
    errors = model.std_err = fitted_errors(client, storage)
    assert np.isnan(errors[0]).all()
    assert errors[1:] == pytest.approx(truth.bse.T, rel=1e-5)


def fitted_errors(client: Client, storage: str) -> Any:
    d = "ARRAY[c0, c1, c2]"
    features = d if storage == "dense" else f"sparse(ARRAY[0, 1, 2], {d})"
    source, parameters = client.rows(X, Y)
    sql = f"SELECT (train_model('logistic', y, {features})).std_err FROM {source}"
    (found,) = client.connection.execute(sql, parameters).fetchone()
    return np.array([np.nan if one is None else one for one in found], float).reshape(3, 4)


@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
@pytest.mark.parametrize(
    "weight", [None, "balanced", {"1": 1.0, "2": 3.0, "5": 0.5}, [1.0, 3.0, 0.5]]
)
def test_with_a_penalty_it_is_scikit_learn_s_optimum(
    client: Client, storage: str, weight: Any
) -> None:
    x = X.astype(np.float32).astype(float) if storage == "float" else X
    options = {} if weight is None else {"class_weight": weight}
    model = client.fit("logistic", x, Y, storage, l2=0.01, **options)
    given = weight if isinstance(weight, str | None) else {1: 1.0, 2: 3.0, 5: 0.5}
    truth = LogisticRegression(C=1 / (0.01 * N), tol=1e-10, max_iter=10_000, class_weight=given)
    truth.fit(x, Y)
    assert model.status == "ok"
    assert blocks(model)[:, 1:] == pytest.approx(truth.coef_, abs=1e-5)
    assert blocks(model)[:, 0] == pytest.approx(truth.intercept_, abs=1e-5)


def test_with_l1_it_is_scikit_learn_s_optimum(client: Client) -> None:
    model = client.fit("logistic", X, Y, l1=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        truth = LogisticRegression(
            l1_ratio=1, C=1 / (0.02 * N), solver="saga", tol=1e-9, max_iter=10_000
        )
        truth.fit(X, Y)
    assert blocks(model)[:, 1:] == pytest.approx(truth.coef_, abs=1e-4)
    assert np.array_equal(blocks(model)[:, 1:] == 0, truth.coef_ == 0)


def test_groups_have_their_own_classes(client: Client) -> None:
    """One of three classes, one of two, one of one; each as it is alone."""
    y = np.where(np.arange(N) % 3 == 0, Y, np.where(np.arange(N) % 3 == 1, Y > 1, 1)).astype(float)
    columns = np.c_[X, np.arange(N) % 3]
    source, parameters = client.rows(columns, y)
    sql = (
        f"""SELECT (m).coef, (m).classes, (m).class_names, (m).status, (m).intercept FROM (SELECT c3, train_model('logistic', y, """
        f"""ARRAY[c0, c1, c2], '{{"l2": 0.01}}') AS m FROM {source} GROUP BY c3) AS t ORDER BY c3"""
    )
    three, two, one = client.connection.execute(sql, parameters).fetchall()
    some = np.arange(N) % 3 == 0
    alone = client.fit("logistic", X[some], y[some], l2=0.01)
    assert three[0] == pytest.approx(list(alone.coef), abs=1e-9)
    assert (list(three[1]), list(three[2])) == ([1, 2, 5], ["1", "2", "5"])
    assert (list(two[1]), two[4] is None) == ([0, 1], False)
    assert one[3] == "one class"


TRAINED = """SELECT train_model('logistic', y, ARRAY[c0, c1, c2], '{"l2": 0.01}') AS m FROM """


def test_predictions_are_scikit_learn_s(client: Client) -> None:
    source, parameters = client.rows(X, Y)
    x = "ARRAY[c0, c1, c2]"
    ids = f"sparse(ARRAY[0, 1, 2], {x})"
    sql = (
        f"SELECT predict(m, {x}), predict_class(m, {x}), predict_proba(m, {x}, '5'), predict_proba(m, {x}, 2), "
        f"CAST(predict_probas(m, {x}) AS varchar), predict(m, {ids}), predict_proba(m, {ids}, '5') "
        f"FROM {source}, ({TRAINED} {source}) AS t"
    )
    found = client.connection.execute(sql, parameters * 2).fetchall()
    truth = LogisticRegression(C=1 / (0.01 * N), tol=1e-10, max_iter=10_000).fit(X, Y)
    shares = truth.predict_proba(X)
    assert [row[0] for row in found] == truth.predict(X).tolist()
    assert [row[1] for row in found] == [str(one) for one in truth.predict(X)]
    assert [row[5] for row in found] == truth.predict(X).tolist()
    assert np.array([row[2] for row in found]) == pytest.approx(shares[:, 2], abs=1e-6)
    assert np.array([row[6] for row in found]) == pytest.approx(shares[:, 2], abs=1e-6)
    assert np.array([row[3] for row in found]) == pytest.approx(shares[:, 1], abs=1e-6)
    first = found[0][4].replace("'", '"').replace("=", ":")
    named = {str(k): v for k, v in json.loads(quoted(first)).items()}
    assert named == pytest.approx(dict(zip("125", shares[0], strict=True)), abs=1e-6)


def quoted(text: str) -> str:
    """A MAP as DuckDB shows it, as JSON."""
    if '"' in text:
        return text
    pairs = (pair.split(":") for pair in text.strip("{}").split(","))
    return json.dumps({key.strip(): float(value) for key, value in pairs})


def test_two_classes_have_names_and_probabilities_too(client: Client) -> None:
    source, parameters = client.rows(X, Y > 1)
    x = "ARRAY[c0, c1, c2]"
    sql = (
        f"SELECT predict_class(m, {x}), predict_proba(m, {x}), predict_proba(m, {x}, 1), predict_proba(m, {x}, '0') "
        f"FROM {source}, ({TRAINED} {source}) AS t"
    )
    for name, higher, one, zero in client.connection.execute(sql, parameters * 2).fetchall():
        assert name == ("1" if higher >= 0.5 else "0")
        assert (one, zero) == (
            pytest.approx(higher, rel=1e-12),
            pytest.approx(1 - higher, abs=1e-12),
        )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("predict_proba(m, ARRAY[1, 2, 3])", "the model has more than two classes, expected predict_proba(model, features, class)"),
        ("decision(m, ARRAY[1, 2, 3])", "the model has more than two classes"),
        ("predict(m, ARRAY[1, 2])", "the model has 3 features, row has 2"),
        ("predict_class(l, ARRAY[1, 2, 3])", "predict_class: model is 'linear', which has no classes"),
        ("predict_probas(l, ARRAY[1, 2, 3])", "predict_probas: model is 'linear', which gives no probabilities"),
    ],
)  # fmt: skip
def test_answers_that_there_are_not(client: Client, call: str, sentence: str) -> None:
    source, parameters = client.rows(X, Y)
    linear = f"SELECT train_model('linear', y, ARRAY[c0, c1, c2]) AS l FROM {source}"
    sql = f"SELECT {call} FROM ({TRAINED} {source}) AS t, ({linear}) AS u"
    with pytest.raises(Exception, match=r"predict|decision") as raised:
        client.connection.execute(sql, parameters * 2).fetchall()
    assert sentence in " ".join(str(raised.value).split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"algorithm": "svrg"},
            "algorithm 'svrg' is not available with more than two classes, expected",
        ),
        ({"class_weight": [1, 2]}, "option 'class_weight' has 2 weights and a group 3 classes"),
        (
            {"class_weight": {"1": 1, "2": 2}, "invalid": "error"},
            "of the group, expected 1 or 2 as option 'class_weight' has",
        ),
        (
            {"classes": [1, 2], "invalid": "error"},
            "of the group, expected 1 or 2 as option 'classes' has",
        ),
        (
            {"warm_start": {"coef": [1, 2, 3], "intercept": 0}},
            "warm_start is a model of two classes, expected one with coefficients and the 3 classes",
        ),
        (
            {"warm_start": {"coef": [1.0] * 12, "classes": [1, 2, 6]}},
            "warm_start has other classes than the labels, expected 1, 2, 5",
        ),
        (
            {"warm_start": {"coef": [1.0] * 9, "classes": [1, 2, 5]}},
            "warm_start has 9 coefficients, expected 12: of each class an intercept and one for",
        ),
    ],
)
def test_options_that_are_for_two_classes(
    client: Client, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Exception, match="train_model") as raised:
        client.fit("logistic", X, Y, **options)
    assert sentence in " ".join(str(raised.value).split())


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_a_training_continues_where_a_model_ended(client: Client, storage: str, l2: float) -> None:
    """From the optimum there is no step to take, and from a rough model fewer."""
    cold = client.fit("logistic", X, Y, storage, l2=l2, algorithm="lbfgs")
    start = {"coef": cold.coef.tolist(), "classes": [1, 2, 5]}
    warm = client.fit("logistic", X, Y, storage, l2=l2, algorithm="lbfgs", warm_start=start)
    assert warm.coef == pytest.approx(cold.coef, abs=1e-4)
    assert iterations(client, storage, l2, start) <= 1 < iterations(client, storage, l2, None)
    moved = blocks(cold) + np.array([0.5, -0.3, 0.2, 0.1])  # the same to all classes
    again = start | {"coef": moved.ravel().tolist()}
    if l2 == 0:
        assert iterations(client, storage, l2, again) <= 1


def iterations(client: Client, storage: str, l2: float, start: Any) -> int:
    d = "ARRAY[c0, c1, c2]"
    features = d if storage == "dense" else f"sparse(ARRAY[0, 1, 2], {d})"
    given = {"l2": l2, "algorithm": "lbfgs"} | ({"warm_start": start} if start else {})
    source, parameters = client.rows(X, Y)
    call = f"train_model('logistic', y, {features}, '{json.dumps(given)}')"
    ((found,),) = client.connection.execute(
        f"SELECT ({call}).iterations FROM {source}", parameters
    ).fetchall()
    return int(found)


def test_a_start_of_few_and_large_ids(client: Client) -> None:
    """Ids that are numbered anew find their coefficients."""
    source, parameters = client.rows(X, Y)
    ids = "sparse(ARRAY[7, 100000, 250000], ARRAY[c0, c1, c2])"
    cold = f"SELECT train_model('logistic', y, {ids}, '{{\"l2\": 0.01}}') AS m FROM {source}"
    ((coef,),) = client.connection.execute(
        f"SELECT (m).coef FROM ({cold}) AS t", parameters
    ).fetchall()
    short = np.array(coef).reshape(3, -1)[:, :20]
    given = {"l2": 0.01, "warm_start": {"coef": short.ravel().tolist(), "classes": [1, 2, 5]}}
    warm = f"SELECT train_model('logistic', y, {ids}, '{json.dumps(given)}') AS m FROM {source}"
    ((found,),) = client.connection.execute(
        f"SELECT (m).coef FROM ({warm}) AS t", parameters
    ).fetchall()
    np.testing.assert_allclose(found, coef, rtol=0, atol=1e-4)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_rows_are_held_out(client: Client, storage: str) -> None:
    """Of features that are noise, held-out rows end the training before it fits them."""
    random = np.random.default_rng(7)
    x = random.normal(size=(150, 40))
    y = (x[:, 0] * 2 + random.gumbel(size=150)).clip(-1, 1).round()
    whole = client.fit("logistic", x, y, storage, algorithm="lbfgs", l2=1e-6)
    model = client.fit(
        "logistic", x, y, storage, algorithm="lbfgs", l2=1e-6, validation=0.3, epsilon=0
    )
    assert model.status == "early stop"
    assert model.n_rows == 150
    assert not model.converged
    assert np.linalg.norm(model.coef) < np.linalg.norm(whole.coef) / 2


def test_classes_that_are_apart_have_no_optimum(client: Client) -> None:
    x = np.arange(60.0)[:, None]
    model = client.fit("logistic", x, x[:, 0] // 20)
    assert (model.status, model.converged) == ("separable", False)
    assert client.fit("logistic", x, x[:, 0] // 20, l2=0.01).status == "ok"


def test_numbers_are_no_classes(client: Client) -> None:
    with pytest.raises(Exception, match="more than 1,000 distinct values"):
        client.fit("logistic", np.c_[np.arange(2000.0)], np.arange(2000.0), invalid="error")


def test_iris(client: Client) -> None:
    """Fisher's flowers, whose first class the others are apart from."""
    x, y = load_iris(return_X_y=True)
    truth = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(x, y)
    model = client.fit("logistic", x, y, l2=1 / 150)
    assert blocks(model)[:, 1:] == pytest.approx(truth.coef_, abs=1e-5)
    assert model.loss > 0


def test_summaries_name_the_classes(client: Client) -> None:
    source, parameters = client.rows(X, Y)
    sql = (
        "SELECT feature, term, std_err IS NULL, p_value, note FROM model_summary((SELECT train_model("
        f"'logistic', y, ARRAY[c0, c1, c2]) FROM {source}))"
    )
    found = client.connection.execute(sql, parameters).fetchall()
    names = ["intercept", "x1", "x2", "x3"]
    assert [row[1] for row in found] == [f"{k}: {name}" for k in (1, 2, 5) for name in names]
    assert [row[0] for row in found] == [0, 1, 2, 3] * 3
    assert [row[2] for row in found] == [True] * 4 + [False] * 8
    assert {row[4] for row in found[:4]} == {
        "the weights of the first class, the reference, are 0"
    }
    truth = sm.MNLogit(Y, sm.add_constant(X)).fit(disp=0, method="newton", tol=1e-12)
    assert [row[3] for row in found[4:]] == pytest.approx(truth.pvalues.T.ravel(), rel=1e-3)


def test_large_ids_are_where_they_belong(client: Client) -> None:
    """A group whose ids are few and large is trained on those that occur."""
    source, parameters = client.rows(X, Y)
    options = '{"l2": 0.01}'
    near, far = (
        client.connection.execute(
            f"SELECT (train_model('logistic', y, sparse(ARRAY[{ids}], ARRAY[c0, c1, c2]), '{options}')).coef FROM {source}",
            parameters,
        ).fetchone()[0]
        for ids in ("0, 1, 2", "7, 100000, 250000")
    )
    found = np.array(far).reshape(3, -1)
    assert found.shape == (3, 250_002)
    assert found[:, [0, 8, 100_001, 250_001]] == pytest.approx(
        np.array(near).reshape(3, 4), abs=1e-6
    )
    assert np.count_nonzero(found) == 12


def test_an_explanation_says_how_many_classes_there_are(client: Client) -> None:
    source, parameters = client.rows(X, Y)
    sql = f"SELECT explain_training('logistic', y, ARRAY[c0, c1, c2]) FROM {source}"
    (text,) = client.connection.execute(sql, parameters).fetchone()
    assert "3 classes" in text


def test_multinomial_is_another_name_of_logistic(client: Client) -> None:
    """In the call itself and in a list of tasks; a model says `logistic`."""
    source, parameters = client.rows(X, Y)
    ask = "SELECT (m).task, (m).coef FROM (SELECT train_model('{}', y, ARRAY[c0, c1, c2]{}) AS m FROM {}) AS t"
    found = []
    for task, options in [
        ("multinomial", ""),
        ("logistic", ""),
        ("auto", """, '{"tasks": ["multinomial"], "folds": 2}'"""),
    ]:
        sql = ask.format(task, options, source)
        found.append(client.connection.execute(sql, parameters).fetchone())
    assert [task for task, _ in found] == ["logistic"] * 3
    assert found[0] == found[1]
