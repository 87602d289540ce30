"""Stored models of the lasso and its kin in both databases: as without a store, with ids of any size."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

D = 12
STRIDES = {"narrow": 1, "large": 100_003, "beyond 31 bits": 2**33 + 1, "beyond 2^53": 2**59 - 1}
LARGE = {name: one for name, one in STRIDES.items() if name != "narrow"}


def made() -> tuple[Any, Any]:
    """Dense features with zeros, (120, 12), and labels of which three features matter."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((120, D)) * (rng.random((120, D)) < 0.5)
    return x, x[:, 1] - 2 * x[:, 4] + 0.5 * x[:, 9] + 0.3 * rng.standard_normal(120)


X, Y = made()


class Client:
    """A database with sparse rows: ids are `stride` times the place, or of group 1 one more."""

    def __init__(self, session: tuple[str, Any]) -> None:
        self.name, self.connection = session

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        return found

    def put(self, y: Any, stride: int) -> None:
        temporary = "TEMP " if self.name == "post" else ""
        listed = []
        for i, row in enumerate(X):
            at = np.flatnonzero(row)
            ids = ", ".join(str(int(k) * stride) for k in at)
            values = ", ".join(map(repr, row[at].tolist()))
            listed.append(
                f"({i}, {float(y[i])!r}, CAST(ARRAY[{ids}] AS bigint[]), CAST(ARRAY[{values}] AS double precision[]))"
            )
        self.connection.execute(
            f"CREATE {temporary}TABLE t AS SELECT * FROM (VALUES {', '.join(listed)}) AS v(i, y, ids, vals)"
        )

    def train(self, task: str, **options: Any) -> tuple[Any, ...]:
        """Makes the table m; the model's coef, store, status, loss, n_features and plan."""
        text = json.dumps({"store": "paths", "tol": 1e-12} | options)
        temporary = "TEMP " if self.name == "post" else ""
        self.connection.execute(
            f"CREATE {temporary}TABLE m AS SELECT train_model('{task}', y, sparse(ids, vals), '{text}') AS m FROM t"
        )
        (found,) = self.ask(
            "SELECT (m).coef, (m).store, (m).status, (m).loss, (m).n_features, (m).plan FROM m"
        )
        return found

    def predictions(self, how: str = "predict") -> Any:
        found = self.ask(f"SELECT {how}(m, sparse(ids, vals)) FROM m, t ORDER BY i")
        return np.array(found, float).ravel()


@pytest.fixture
def client(session: tuple[str, Any]) -> Client:
    return Client(session)


@pytest.mark.parametrize("stride", STRIDES.values(), ids=STRIDES)
def test_a_stored_lasso_is_scikit_learn_s(client: Client, stride: int) -> None:
    reference = Lasso(alpha=0.1, tol=1e-12).fit(X, Y)
    client.put(Y, stride)
    coef, store, status, loss, width, plan = client.train("lasso", **{"lambda": 0.1})
    assert (coef, status, width) == (None, "ok", (D - 1) * stride + 1)
    assert store.startswith("paths@")
    assert plan.endswith("trained in memory")
    least = ((Y - reference.predict(X)) ** 2).mean() / 2 + 0.1 * np.abs(reference.coef_).sum()
    assert loss == pytest.approx(least, rel=1e-9)
    assert client.predictions() == pytest.approx(reference.predict(X), abs=1e-5)


def test_the_other_tasks(client: Client) -> None:
    net = ElasticNet(alpha=0.1, l1_ratio=0.5, tol=1e-12).fit(X, Y)
    client.put(Y, STRIDES["beyond 31 bits"])
    client.train("elastic_net", **{"lambda": 0.1})
    assert client.predictions() == pytest.approx(net.predict(X), abs=1e-5)


def test_logistic_models(client: Client) -> None:
    labels = Y > 0
    peer = LogisticRegression(
        l1_ratio=1, C=1 / (0.02 * len(Y)), solver="saga", tol=1e-10, max_iter=100_000
    ).fit(X, labels)
    client.put(labels, STRIDES["beyond 31 bits"])
    client.train("sparse_logistic", **{"lambda": 0.02})
    expected = peer.predict_proba(X)[:, 1]
    assert client.predictions("predict_proba") == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("stride", LARGE.values(), ids=LARGE)
def test_its_path_has_the_ids(client: Client, stride: int) -> None:
    client.put(Y, stride)
    client.train("lasso", path={"length": 4, "ratio": 0.1, "folds": 3})
    found = client.ask(
        "SELECT penalty, features, weights, intercept FROM model_path((SELECT m FROM m))"
    )
    assert len(found) == 4
    for penalty, features, weights, intercept in found[1:]:
        reference = Lasso(alpha=penalty, tol=1e-12).fit(X, Y)
        assert [one - 1 for one in features] == [
            int(k) * stride for k in np.flatnonzero(reference.coef_)
        ]
        assert weights == pytest.approx(reference.coef_[reference.coef_ != 0], abs=1e-6)
        assert intercept == pytest.approx(reference.intercept_, abs=1e-6)


@pytest.mark.parametrize("stride", LARGE.values(), ids=LARGE)
def test_options_name_features_by_their_ids(client: Client, stride: int) -> None:
    """Without a penalty and together, as the same rows with small ids."""
    options = {"lambda": 0.2, "unpenalized": [1], "groups": [[3, 5], [2, 7, 8]]}
    client.put(Y, 1)
    plain = client.train("lasso", **options)[3]
    expected = client.predictions()
    client.connection.execute("DROP TABLE t")
    client.connection.execute("DROP TABLE m")
    client.put(Y, stride)
    large = {
        "unpenalized": [1],
        "groups": [[(one - 1) * stride + 1 for one in block] for block in options["groups"]],
    }
    assert client.train("lasso", **options | large)[3] == pytest.approx(plain, rel=1e-9)
    assert client.predictions() == pytest.approx(expected, abs=1e-5)
    ((kept,),) = client.ask("SELECT (m).options FROM m")
    assert json.loads(kept)["groups"] == large["groups"]


def test_a_feature_that_does_not_occur_counts_in_its_block(client: Client) -> None:
    """The penalty of a block has the root of its size. Beyond 31 bits such blocks are refused."""
    client.put(Y, STRIDES["large"])
    first = STRIDES["large"] + 1
    alone = client.train("lasso", **{"lambda": 0.2})[3]
    client.connection.execute("DROP TABLE m")
    block = client.train("lasso", **{"lambda": 0.2, "groups": [[first, 7]]})[3]
    assert block > alone + 1e-3
    client.connection.execute("DROP TABLE t")
    client.connection.execute("DROP TABLE m")
    client.put(Y, STRIDES["beyond 31 bits"])
    with pytest.raises(
        Exception, match="'groups' has feature 7, which does not occur in the rows"
    ):
        client.train("lasso", **{"lambda": 0.2, "groups": [[1, 7]]})


def test_a_group_of_one_class_is_a_value(client: Client) -> None:
    client.put(np.ones(len(Y)), STRIDES["large"])
    coef, store, status, _, width, _ = client.train("sparse_logistic", **{"lambda": 0.1})
    assert (coef, store, status) == ([0.0], None, "one class")
    assert width == (D - 1) * STRIDES["large"] + 1
    assert (client.predictions() == 1).all()


def test_sentences(client: Client) -> None:
    client.put(Y, 1)
    with pytest.raises(Exception, match="option 'cache' is not available with task 'lasso'"):
        client.train("lasso", cache="16MB")
    with pytest.raises(
        Exception, match="option 'unpenalized' has 99, expected places from 1 to 12"
    ):
        client.train("lasso", unpenalized=[99])


def test_the_largest_id_has_a_weight_and_no_place_in_a_path(client: Client) -> None:
    client.put(Y, 1)
    last = (
        "CASE WHEN ids[1] IS NULL THEN ids ELSE CAST(ARRAY[9223372036854775807] AS bigint[]) END"
    )
    client.connection.execute(f"UPDATE t SET ids = {last}, vals = vals[1:1]")
    reference = Lasso(alpha=0.1, tol=1e-12)
    first = np.array([row[np.flatnonzero(row)[0]] if row.any() else 0.0 for row in X])[:, None]
    told = reference.fit(first, Y).predict(first)
    *_, status, _, width, _ = client.train("lasso", **{"lambda": 0.1})
    assert (status, width) == ("ok", 2**63 - 1)
    assert client.predictions() == pytest.approx(told, rel=1e-9)
    client.connection.execute("DROP TABLE m")
    with pytest.raises(Exception, match="a path of 'lasso' takes ids up to 9223372036854775806"):
        client.train("lasso")


def test_each_group_has_its_own_names(con: Any) -> None:
    """The levels of a category differ from group to group, and so do the places of features."""
    con.execute(
        """CREATE TABLE named AS SELECT i % 2 AS g, sin(i * 1.7) AS b, cos(i) AS y,
        CASE WHEN i % 2 = 0 THEN ['a', 'b'][1 + i % 4 // 2] ELSE ['c', 'd', 'e', 'f'][1 + (hash(i) % 4)::INTEGER] END AS k
        FROM range(80) AS r(i)"""
    )
    options = {"lambda": 0.01, "tol": 1e-12, "groups": [["k", "b"]]}
    plain, kept = (
        f"train_model('lasso', y, {{'k': k, 'b': b}}, '{json.dumps(options | more)}')"
        for more in ({}, {"store": "named"})
    )
    found = con.execute(
        f"SELECT (a).loss, (s).loss, (a).n_features FROM (SELECT g, {plain} AS a, {kept} AS s FROM named GROUP BY g) ORDER BY g"
    ).fetchall()
    assert [width for *_, width in found] == [3, 5]
    for loss, again, _ in found:
        assert again == pytest.approx(loss, rel=1e-12)
