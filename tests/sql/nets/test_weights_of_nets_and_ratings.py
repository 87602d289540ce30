"""Weights of rows of nets and of ratings in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pytest

ROWS = """
CREATE {temp} TABLE w AS
SELECT i, CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 AS a, 'k' || (i * 31) % 4 AS k,
       CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 * ((i * 31) % 4) - (i * 17) % 3 AS y,
       (i * 11) % 7 % 2 AS two, (i * 31) % 4 % 3 AS three, CAST((i * 13) % 23 AS DOUBLE PRECISION) AS u,
       CAST((i * 7) % 17 AS DOUBLE PRECISION) AS f, (i * 7919) % 1009 % 4 AS weight
FROM generate_series(1, 400) AS s(i)
"""
ROW = {"duck": "{'a': a, 'k': k}", "post": "(SELECT r FROM (SELECT a, k) AS r)"}
ONE_BATCH = {"batch_size": 4096, "layers": [8], "max_iter": 30, "learning_rate": 0.02}
NETS = {
    "squared": ("mlp", "y", "ARRAY[a, u]", {}),
    "logistic": ("mlp", "two", "ARRAY[a, u]", {"objective": "logistic"}),
    "softmax": ("mlp", "three", "ARRAY[a, u]", {"objective": "logistic"}),
    "embedded": ("mlp", "y", "{row}", {}),
    "embedded softmax": ("mlp", "three", "{row}", {"objective": "logistic"}),
}


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def model(self, task: str, label: str, features: str, source: str, weight: str, **options: Any) -> Any:  # fmt: skip
        """coef, n_rows, loss, status, intercept, and the predictions of all rows."""
        features = features.replace("{row}", ROW[self.name])
        call = f"train_model('{task}', {label}, {features}, '{json.dumps(options)}'{weight})"
        self.session.execute("DROP TABLE IF EXISTS m")
        self.session.execute(f"CREATE TABLE m AS SELECT {call} AS m FROM {source}")
        about = "(m).coef, (m).n_rows, (m).loss, (m).status, (m).intercept"
        (found,) = self.session.execute(f"SELECT {about} FROM m").fetchall()
        names = [*"cnlsi"]
        asked = f"SELECT predict(m, {features}) FROM w, m ORDER BY i"
        told = np.array(self.session.execute(asked).fetchall(), float)[:, 0]
        return dict(zip(names, found, strict=True)) | {"p": told}


@pytest.fixture(params=["duck", "post"])
def db(request: pytest.FixtureRequest) -> Database:
    if request.param == "duck":
        return Database("duck", request.getfixturevalue("con"))
    return Database("post", request.getfixturevalue("connect")())


REPEATED = "(SELECT w.* FROM w, generate_series(1, 3) AS n(k2) WHERE k2 <= weight) AS t"


@pytest.mark.parametrize("kind", list(NETS))
def test_a_row_of_weight_two_is_two_rows_of_a_net(db: Database, kind: str) -> None:
    """Where each step sees all rows. A weight of 0 is no row."""
    *call, options = NETS[kind]
    options = options | ONE_BATCH
    weighted = db.model(*call, "w", ", weight", **options)
    repeated = db.model(*call, REPEATED, "", **options)
    # the levels of k tell two of three classes
    expected = "label among features" if kind == "embedded softmax" else "ok"
    assert weighted["s"] == repeated["s"] == expected
    assert weighted["n"] < repeated["n"]
    assert weighted["l"] == pytest.approx(repeated["l"], rel=1e-3)
    np.testing.assert_allclose(weighted["c"], repeated["c"], rtol=5e-3, atol=5e-3)
    plain = db.model(*call, "w", "", **options)
    assert np.abs(np.array(plain["c"]) - np.array(repeated["c"])).max() > 0.02


def test_equal_weights_change_nothing_of_a_net(db: Database) -> None:
    *call, options = NETS["squared"]
    plain = db.model(*call, "w", "", max_iter=5, **options)
    equal = db.model(*call, "w", ", 0.25", max_iter=5, **options)
    assert plain["c"] == equal["c"]


def test_weights_of_rows_that_are_those_of_their_classes(db: Database) -> None:
    """On a feature that does not vary, whose units are the same either way."""
    given = {"objective": "logistic", "layers": [2], "max_iter": 200, "learning_rate": 0.05}
    given |= {"batch_size": 4096}
    rows = db.model("mlp", "two", "ARRAY[0.5]", "w", ", 1 + 2 * two", **given)
    classes = db.model("mlp", "two", "ARRAY[0.5]", "w", "", class_weight=[1, 3], **given)
    np.testing.assert_allclose(rows["c"], classes["c"], atol=1e-4)


def test_a_training_that_diverges_leaves_the_weighted_constant(db: Database) -> None:
    given = {"layers": [8], "algorithm": "sgd", "learning_rate": 1e6, "max_iter": 5}
    model = db.model("mlp", "y", "ARRAY[a]", "w", ", weight", **given)
    ((mean,),) = db.session.execute("SELECT sum(weight * y) / sum(weight) FROM w").fetchall()
    assert model["s"] == "diverged"
    assert model["p"] == pytest.approx(float(mean), rel=1e-9)


def test_ratings_have_weights(db: Database) -> None:
    """The loss is that of NumPy's weighted objective, and the mean rating is weighted."""
    given = {"rank": 2, "l2": 0.1, "max_iter": 30, "epsilon": 0}
    weighted = db.model("matrix_factorization", "y", "ARRAY[u, f]", "w", ", 2.5 * weight", **given)
    listed = db.session.execute("SELECT u, f, y, weight FROM w ORDER BY i").fetchall()
    u, f, y, weight = np.array(listed, float).T
    coef = np.array(weighted["c"]).reshape(23 + 17, 3)
    p, q = coef[u.astype(int)], coef[23 + f.astype(int)]
    m = weighted["i"] + p[:, 0] + q[:, 0] + (p[:, 1:] * q[:, 1:]).sum(axis=1)
    each = (m - y) ** 2 / 2 + 0.05 * ((p**2).sum(axis=1) + (q**2).sum(axis=1))
    assert weighted["l"] == pytest.approx(np.average(each, weights=weight), rel=1e-5)
    assert weighted["i"] == pytest.approx(np.average(y, weights=weight), rel=1e-6)
    np.testing.assert_allclose(weighted["p"], m, atol=1e-9)


def test_ratings_repeated_have_the_same_optimum(db: Database) -> None:
    """With a penalty that leaves the biases alone, whose optimum is unique."""
    given = {"rank": 1, "l2": 3, "max_iter": 60, "epsilon": 0}
    call = ("matrix_factorization", "y", "ARRAY[u, f]")
    weighted = db.model(*call, "w", ", weight", **given)
    repeated = db.model(*call, REPEATED, "", **given)
    plain = db.model(*call, "w", "", **given)
    np.testing.assert_allclose(weighted["p"], repeated["p"], atol=1e-4)
    assert np.abs(plain["p"] - repeated["p"]).max() > 0.01


@pytest.mark.parametrize("algorithm", ["sgd", "hogwild", "als"])
def test_ratings_that_are_held_out(db: Database, algorithm: str) -> None:
    given = {"rank": 2, "algorithm": algorithm, "validation": 0.25, "max_iter": 40}
    model = db.model("matrix_factorization", "y", "ARRAY[u, f]", "w", ", weight", **given)
    assert model["s"] in ("ok", "early stop", "not converged")
    assert np.isfinite(model["p"]).all()


@pytest.mark.parametrize("given", [{}, {"validation": 0.25}, {"biases": False}])
def test_ratings_whose_squares_are_no_double_are_out_of_range(
    db: Database, given: dict[str, Any]
) -> None:
    model = db.model("matrix_factorization", "y * 1e200 + 1e201", "ARRAY[u, f]", "w", "", **given)
    assert (model["s"], model["i"]) == ("out of range", 0)
    assert (model["p"] == 0).all()


@pytest.mark.parametrize("task", ["mlp", "matrix_factorization"])
@pytest.mark.parametrize(
    ("weight", "shown"),
    [("CAST('nan' AS DOUBLE PRECISION)", "NaN"), ("CASE WHEN i = 3 THEN -2 ELSE 1 END", "-2")],
)
def test_weights_that_are_none(db: Database, task: str, weight: str, shown: str) -> None:
    with pytest.raises(Exception, match=f"weight is {shown} in row .*, expected"):
        db.model(task, "y", "ARRAY[u, f]", "w", f", {weight}", invalid="error")


@pytest.mark.parametrize("task", ["mlp", "matrix_factorization"])
def test_offsets_are_refused(db: Database, task: str) -> None:
    with pytest.raises(Exception, match=f"offset is not available with task '{task}', expected"):
        db.model(task, "y", "ARRAY[u, f]", "w", ", weight, 0.5")


def test_a_store_takes_no_weights(db: Database) -> None:
    with pytest.raises(Exception, match="option 'store' is not available with weight"):
        db.model("matrix_factorization", "y", "ARRAY[u, f]", "w", ", weight", store="s")
