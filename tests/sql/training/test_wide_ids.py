"""Feature ids up to 2^63 - 1 in stored models, in both databases: as the same rows with small ids."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuskml

pytestmark = pytest.mark.native

TOP = 2**63 - 1
EDGES = [2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**62, TOP - 4096, TOP - 1, TOP]
few = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@dataclass
class Client:
    """A database with a root of stores."""

    run: Callable[[str], list[tuple]]
    errors: type[Exception]

    def sentence(self, statement: str) -> str:
        """What a person is told; the next statement works."""
        with pytest.raises(self.errors) as caught:
            self.run(statement)
        assert self.run("SELECT 1") == [(1,)]
        told = getattr(caught.value, "diag", None)
        text = str(caught.value) if told is None else str(told.message_primary)
        return re.sub(r"^[\w ]*Error: ", "", text).splitlines()[0]


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with tuskml.connect(store_root=tmp_path_factory.mktemp("stores"), threads=2) as connection:
        yield Client(lambda sql: connection.execute(sql).fetchall(), duckdb.Error)


@pytest.fixture(scope="module")
def post(file_session: Any) -> Client:
    import psycopg

    def run(sql: str) -> list[tuple]:
        done = file_session.execute(sql)
        return done.fetchall() if done.description else []

    return Client(run, psycopg.Error)


@pytest.fixture(params=["duck", "post"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found


def made(n_ids: int, classes: int = 2, n: int = 120) -> tuple[Any, Any, Any]:
    """Labels, and places and values of each row's features."""
    rng = np.random.default_rng(n_ids)
    places = rng.integers(0, n_ids, (n, 4))
    values = rng.standard_normal((n, 4))
    margin = (values * np.cos(places)).sum(axis=1) + rng.logistic(size=n) / 4
    return np.digitize(margin, [-0.5, 0.5]) if classes == 3 else margin > 0, places, values


def rows(labels: Any, ids: Any, values: Any) -> str:
    """A query of the columns i, y, ids and vals."""
    listed = ", ".join(
        f"({i}, {int(y)}, CAST(ARRAY[{', '.join(map(str, k))}] AS bigint[]), CAST(ARRAY[{', '.join(map(repr, v))}] AS double precision[]))"
        for i, (y, k, v) in enumerate(zip(labels.tolist(), ids, values.tolist(), strict=True))
    )
    return f"(VALUES {listed}) AS t(i, y, ids, vals)"


def trained(client: Client, source: str, name: str, task: str = "logistic", **options: Any) -> Any:
    """Loss, intercept, number of features, status and reference of a model; then all margins."""
    text = json.dumps({"store": name, "l2": 0.01, "deterministic": True, "max_iter": 20} | options)
    client.run("DROP TABLE IF EXISTS m")
    client.run(
        f"CREATE TABLE m AS SELECT train_model('{task}', y, sparse(ids, vals), '{text}') AS m FROM {source}"
    )
    about = client.run(
        "SELECT (m).loss, (m).intercept, (m).n_features, (m).status, (m).store FROM m"
    )
    return about[0]


def predictions(client: Client, source: str, how: str = "decision") -> list[float]:
    found = client.run(f"SELECT {how}(m, sparse(ids, vals)) FROM m, {source} ORDER BY i")
    return [value for (value,) in found]


@pytest.mark.sample(1)
@few
@given(
    st.sets(st.sampled_from(EDGES) | st.integers(0, TOP), min_size=12, max_size=40).filter(
        lambda ids: max(ids) > 2**31
    )
)
def test_a_model_is_that_of_small_ids(client: Client, ids: set[int]) -> None:
    y, places, values = made(len(ids))
    known = sorted(ids)
    wide = rows(y, [[known[k] for k in row] for row in places.tolist()], values)
    small = rows(y, places.tolist(), values)
    first = trained(client, wide, "wide")
    scores = predictions(client, wide)
    again = trained(client, small, "small")
    assert first[:2] == again[:2]
    used = known[int(places.max())]
    assert (first[2], first[3]) == (min(used + 1, TOP), again[3])
    np.testing.assert_array_equal(scores, predictions(client, small))


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("logistic", {"algorithm": "lbfgs"}),
        ("linear", {"l1": 0.01}),
        ("svm", {}),
        ("linear", {"cache": "16MB", "partition": 0}),
        ("poisson", {}),
    ],
)
def test_any_task_and_algorithm(client: Client, task: str, options: dict[str, Any]) -> None:
    y, places, values = made(30)
    known = [TOP - 7919**4 * k**2 for k in range(30)][::-1]
    wide = rows(y, [[known[k] for k in row] for row in places.tolist()], values)
    first, scores = trained(client, wide, "wide", task, **options), predictions(client, wide)
    small = rows(y, places.tolist(), values)
    again = trained(client, small, "small", task, **options)
    assert first[2] == TOP
    np.testing.assert_allclose(first[:2], again[:2], rtol=1e-9)
    np.testing.assert_allclose(scores, predictions(client, small), rtol=1e-6, atol=1e-9)


def test_three_classes(client: Client) -> None:
    y, places, values = made(30, classes=3)
    known = [2**61 + 3**20 * k for k in range(30)]
    wide = rows(y, [[known[k] for k in row] for row in places.tolist()], values)
    first = trained(client, wide, "wide")
    scores = predictions(client, wide, "predict")
    again = trained(client, rows(y, places.tolist(), values), "small")
    assert first[:2] == again[:2]
    assert scores == predictions(client, rows(y, places.tolist(), values), "predict")
    assert first[2] == known[-1] + 1
    far = rows(y, [[TOP - k for k in row] for row in places.tolist()], values)
    text = client.sentence(
        f"SELECT train_model('logistic', y, sparse(ids, vals), '{{\"store\": \"far\"}}') FROM {far}"
    )
    assert text == (
        f"train_model: the largest feature id is {TOP}, expected at most {TOP // 3 - 2} for a stored model of 3 classes"
    )


def test_a_training_starts_from_wide_ids(client: Client) -> None:
    """Weights of ids that the rows lack stay as they were."""
    y, places, values = made(20)
    ids = [[TOP - k for k in row] for row in places.tolist()]
    first = trained(client, rows(y, ids, values), "warm", max_iter=60, l2=0)
    other = rows(y, (places + 100).tolist(), values)
    warm = {"store": first[4]}
    second = trained(client, other, "warm", warm_start=warm, max_iter=60, l2=0)
    assert second[2] == TOP
    lone = f"sparse(CAST(ARRAY[{TOP}] AS bigint[]), CAST(ARRAY[1] AS double precision[]))"
    kept = client.run(f"SELECT decision(m, {lone}) - (m).intercept FROM m")[0][0]
    trained(client, rows(y, ids, values), "warm", max_iter=60, l2=0)
    was = client.run(f"SELECT decision(m, {lone}) - (m).intercept FROM m")[0][0]
    assert kept == pytest.approx(was, abs=1e-6)
    assert was != 0


def test_features_are_counted_and_partitioned(client: Client) -> None:
    client.run("DROP TABLE IF EXISTS sites")
    client.run(
        f"CREATE TABLE sites AS SELECT i, CAST(i % 2 AS double precision) AS y, ARRAY[{TOP} - i % 3, {TOP} - 5000, 4000000000 + i % 7] AS ids, CAST(ARRAY[1, i % 5, 1] AS double precision[]) AS vals FROM generate_series(1, 600) AS s(i)"
    )
    counted = client.run("SELECT to_json(feature_frequencies(ids, '{\"top\": 4}')) FROM sites")[0][
        0
    ]
    found = json.loads(counted) if isinstance(counted, str) else counted
    assert [(one["feature"], one["estimate"]) for one in found] == [
        (TOP - 5000, 600), (TOP - 2, 200), (TOP - 1, 200), (TOP, 200)
    ]  # fmt: skip
    client.run(
        'CREATE TABLE kept AS SELECT partition_model(ids, \'{"top": 4, "name": "mine"}\') AS p FROM sites'
    )
    assert client.run("SELECT (p).features FROM kept") == [(4,)]
    model = trained(client, "sites", "sites", "linear", partition="mine")
    assert (model[2], model[3]) == (TOP, "ok")
    client.run("DROP TABLE kept")
    text = client.sentence('SELECT partition_model(ids, \'{"layout": "affinity"}\') FROM sites')
    assert "option 'layout': 'affinity'" in text


def test_other_models_say_what_to_do(client: Client) -> None:
    source = rows(*(made(5)[0], (made(5)[1] + 2**40).tolist(), made(5)[2]))
    ended = '{"invalid": "error"}'
    call = f"train_model('logistic', y, sparse(ids, vals), '{ended}') FROM {source}"
    advice = (
        "a group has a feature id above 2147483646, the largest of a model that is not stored: give "
        "option 'store', which keeps weights of the ids that occur, or smaller ids, as hash_features "
        "makes them"
    )
    assert client.sentence(f"SELECT {call}") == f"train_model: {advice}"
    explained = call.replace("train_model", "explain_training")
    assert client.sentence(f"SELECT {explained}") == f"explain_training: {advice}"
    assert client.run(f"SELECT {explained.replace(ended, '{}')}") == [(advice,)]
    stored = explained.replace(ended, '{"store": "x"}')
    assert "120 x" in client.run(f"SELECT {stored}")[0][0]


def test_ids_that_a_model_does_not_know_weigh_nothing(client: Client) -> None:
    values = "(1, ARRAY[1, 2]), (2, ARRAY[3, 5]), (4, ARRAY[2, 9])"
    client.run("DROP TABLE IF EXISTS plain")
    client.run(
        f"CREATE TABLE plain AS SELECT train_model('linear', y, sparse(ARRAY[0, 1], x)) AS m FROM (VALUES {values}) AS t(y, x)"
    )
    one = "CAST(ARRAY[1] AS double precision[])"
    told = client.run(
        f"SELECT decision(m, sparse(CAST(ARRAY[{TOP}] AS bigint[]), {one})), (m).intercept FROM plain"
    )
    assert told[0][0] == told[0][1]
    text = client.sentence(
        f"SELECT decision(m, sparse(CAST(ARRAY[-{TOP}] AS bigint[]), {one})) FROM plain"
    )
    assert text == f"decision: feature id -{TOP} is negative, ids start at 0"


@pytest.mark.nightly
def test_parallel_workers_pass_wide_rows_on(post: Client) -> None:
    """In a file for one large group, in the message for small ones."""
    post.run(
        f"CREATE TABLE large AS SELECT i, CAST(sin(i) > 0 AS integer) AS y, i % 40 AS g, CASE WHEN i % 3 = 0 THEN ARRAY[7, i % 50] ELSE ARRAY[{TOP} - i % 50, i % 50] END AS ids, CAST(ARRAY[sin(i), cos(i)] AS double precision[]) AS vals FROM generate_series(1, 20000) AS s(i)"
    )
    options = '{"store": "parallel", "deterministic": true, "max_iter": 5}'
    call = f"train_model('logistic', y, sparse(ids, vals), '{options}')"
    one = (
        f"SELECT (m).loss, (m).intercept, (m).n_features FROM (SELECT {call} AS m FROM large) AS t"
    )
    several = f"SELECT (m).loss, (m).intercept, (m).n_features FROM (SELECT g, {call} AS m FROM large WHERE g < 3 GROUP BY g) AS t ORDER BY g"
    alone = [post.run(one), post.run(several)]
    for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
        post.run(f"SET {name} = 0")
    post.run("SET max_parallel_workers_per_gather = 2")
    post.run("ALTER TABLE large SET (parallel_workers = 2)")
    for query, expected in zip((one, several), alone, strict=True):
        assert "Gather" in str(post.run(f"EXPLAIN {query}"))
        found = post.run(query)
        assert found == expected
        assert all(n > 2**62 for _, _, n in found)
