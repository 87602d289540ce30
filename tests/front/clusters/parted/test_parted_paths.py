"""Linear models that select features, on several shards by scheduled updates."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

import tuskml
from tuskml.cluster import units
from tuskml.cluster.parts import part_rows
from tuskml.commands.cli import main
from tuskml.kernels.parts.paths import PathRows
from tuskml.learners.paths import scheduled
from tuskml.learners.paths.options import SCHEDULES

N, D = 600, 60
OF_TASKS = {"lasso": {"lambda": 0.2}, "elastic_net": {"lambda": 0.2, "alpha": 0.4},
            "sparse_logistic": {"lambda": 0.02}}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """Correlated columns far from 0, one of which is constant, labels, classes and weights."""
    random = np.random.default_rng(0)
    x = random.normal(size=(N, D))
    x[:, 1:] += 0.8 * x[:, :-1]
    x[:, 7] = 2
    x += 3
    y = x[:, ::10] @ np.array([2.0, -1, 1, 3, -2, 1]) + random.normal(size=N)
    z = np.where(random.random((N, D)) < 0.2, x, 0)
    return {"x": x, "z": z, "y": y, "c": (y > np.median(y)).astype(int),
            "v": random.integers(1, 4, N)}  # fmt: skip


@pytest.fixture(scope="module")
def files(rows: dict[str, Any], tmp_path_factory: Any) -> str:
    """The rows in four files of different sizes; z as the value of sparse features too."""
    folder: Path = tmp_path_factory.mktemp("paths")
    sparse = csr_array(rows["z"])
    ends = (
        np.split(sparse.indices, sparse.indptr[1:-1]),
        np.split(sparse.data, sparse.indptr[1:-1]),
    )
    table = pa.table(
        {name: rows[name] for name in ("y", "c", "v")}
        | {"x": list(rows["x"]), "ids": list(ends[0]), "values": list(ends[1])}
    )
    for place, part in enumerate(np.split(np.arange(N), [250, 300, 500])):
        pq.write_table(table.take(part), folder / f"{place}.parquet")
    return f"{folder}/*.parquet"


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 100)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        yield connection


def train(con: Any, files: str, task: str, **given: Any) -> Any:
    """The model of all files, which are small ones, on threads."""
    label = "c" if task == "sparse_logistic" else "y"
    where = {"executor": "threads", "placement": "dp", "features": "x", "tol": 1e-7}
    return tuskml.train(con, task, source=files, label=label, **(where | given))


@pytest.mark.parametrize("task", ["lasso", "elastic_net"])
@pytest.mark.parametrize("features", ["x", "sparse(ids, values)"])
def test_the_weights_are_those_of_scikit_learn(
    con: Any, files: str, rows: dict[str, Any], task: str, features: str
) -> None:
    options = OF_TASKS[task]
    found = train(con, files, task, features=features, weight="v", **options)
    x = rows["x"] if features == "x" else rows["z"]
    model = ElasticNet(options["lambda"], l1_ratio=options.get("alpha", 1), tol=1e-12,
                       max_iter=10**6).fit(x, rows["y"], sample_weight=rows["v"])  # fmt: skip
    assert found.status == "ok"
    assert found.coef == pytest.approx(model.coef_, abs=1e-4)
    assert found.intercept == pytest.approx(model.intercept_, abs=1e-3)
    assert 0 < np.count_nonzero(found.coef) < D


def test_logistic_weights_are_those_of_scikit_learn(
    con: Any, files: str, rows: dict[str, Any]
) -> None:
    found = train(con, files, "sparse_logistic", standardize=True, **OF_TASKS["sparse_logistic"])
    scale = rows["x"].std(axis=0)
    z = (rows["x"] - rows["x"].mean(axis=0)) / np.where(scale > 0, scale, 1)
    model = LogisticRegression(
        C=1 / (0.02 * N), l1_ratio=1, solver="saga", tol=1e-10, max_iter=100_000
    ).fit(z, rows["c"])
    assert found.status == "ok"
    assert np.array(found.coef) * scale == pytest.approx(model.coef_[0], abs=1e-4)
    assert 0 < np.count_nonzero(found.coef) < D


@pytest.mark.parametrize("task", OF_TASKS)
@pytest.mark.parametrize(
    "schedule",
    [*(pytest.param(one, marks=pytest.mark.nightly) for one in SCHEDULES[:2]), "dynamic"],
)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"features": "sparse(ids, values)", "fit_intercept": False, "positive": True},
        {"features": "sparse(ids, values)", "standardize": True, "weight": "v"},
    ],
)
def test_a_schedule_reaches_the_weights_of_one_place(
    con: Any, files: str, task: str, schedule: str, given: dict[str, Any]
) -> None:
    given = {"tol": 1e-9} | given | OF_TASKS[task]
    one = train(con, files, task, executor=None, placement=None, **given)
    found = train(con, files, task, schedule=schedule, **given)
    assert found.loss == pytest.approx(one.loss, rel=1e-8)
    assert found.coef == pytest.approx(one.coef, abs=3e-3)
    assert found.status == one.status == "ok"
    assert re.search(
        rf"schedule '{schedule}', [\d,]+ iterations, [\d,]+ updates, at most \d+ at once, "
        r"[\d,]+ passes over all features, \d+ parts on \d workers",
        found.plan,
    )


@pytest.mark.parametrize("task", ["elastic_net", "sparse_logistic"])
def test_a_path_and_its_folds_are_those_of_one_place(con: Any, files: str, task: str) -> None:
    given = {"path": {"length": 4, "ratio": 0.1, "folds": 2}, "tol": 1e-6, "seed": 3}
    one = train(con, files, task, executor=None, placement=None, **given)
    found = train(con, files, task, **given)
    assert found.options["lambda"] == pytest.approx(one.options["lambda"], rel=1e-9)
    assert found.trials["chosen"] == one.trials["chosen"]
    for name, tolerance in [("lambda", 1e-9), ("loss", 1e-5), ("held_out", 1e-3)]:
        both = ([point[name] for point in model.trials["path"]] for model in (found, one))
        assert next(both) == pytest.approx(next(both), rel=tolerance)
    assert "a path of 4 penalties, 2 folds, " in found.plan


def test_a_search_finds_the_penalty_of_one_place(con: Any, files: str) -> None:
    given = {"lambda": [0.3, 3], "folds": 2, "tol": 1e-6}
    one = train(con, files, "lasso", executor=None, placement=None, **given)
    found = train(con, files, "lasso", **given)
    assert found.options["lambda"] == one.options["lambda"]
    assert found.coef == pytest.approx(one.coef, abs=1e-3)


def test_copies_of_columns_are_not_updated_at_the_same_time(con: Any, tmp_path: Path) -> None:
    """Each alone takes all of the residual. Where the schedule does not look, the objective rises,
    and fewer are updated at once."""
    random = np.random.default_rng(0)
    one = random.normal(size=(200, 8))
    x, y = np.repeat(one, 8, axis=1), one @ np.arange(8) + random.normal(size=200)
    for place, part in enumerate(np.split(np.arange(200), 2)):
        pq.write_table(pa.table({"x": list(x[part]), "y": y[part]}), tmp_path / f"{place}.parquet")
    plans = {}
    best = Lasso(0.1, tol=1e-12).fit(one, y)
    for schedule in SCHEDULES[1:]:
        given = {"lambda": 0.1, "schedule": schedule, "tol": 1e-5}
        found = train(con, f"{tmp_path}/*.parquet", "lasso", **given)
        assert found.status == "ok"
        assert np.reshape(found.coef, (8, 8)).sum(axis=1) == pytest.approx(best.coef_, abs=1e-2)
        plans[schedule] = found.plan
    assert re.search("halved .* times, to keep the objective falling", plans["priority"])
    at_once = {one: int(re.findall(r"at most (\d+) at once", plans[one])[0]) for one in plans}
    assert at_once["dynamic"] <= 8 < at_once["priority"]


def test_an_iteration_reads_what_it_updates_alone(
    con: Any, files: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schedule of one million features takes no more than one of a thousand: none of its
    arrays has as many elements."""
    order = {n: scheduled.Prioritised(n, None, 8, seed=1) for n in (1_000, 100_000)}
    counts = {}
    for n, one in order.items():
        one.renew(np.where(np.arange(n) % 50, 0, 1.0))
        touched: list[int] = []
        for level in range(len(one.tree.levels)):
            one.tree.levels[level] = one.tree.levels[level].view(Counted)
            one.tree.levels[level].touched = touched
        for _ in range(10):
            one.settle(found := one.pick(), np.ones(len(found)))
        counts[n] = sum(touched)
    assert counts[100_000] < 3 * counts[1_000]


class Counted(np.ndarray):  # type: ignore[type-arg]
    """Counts the elements that are read or written."""

    touched: list[int]

    def __getitem__(self, key: Any) -> Any:
        found = np.asarray(self)[key]
        self.touched.append(np.size(found))
        return found

    def reshape(self, *shape: Any) -> Any:
        found = np.asarray(self).reshape(*shape).view(Counted)
        found.touched = self.touched
        return found


def test_a_worker_without_the_state_gets_all_of_it(
    con: Any, files: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that takes a lost worker's part over. Without that, there would be no answer."""
    expected = train(con, files, "sparse_logistic", **OF_TASKS["sparse_logistic"])
    step, lost = PathRows.step, []

    def losing(rows: PathRows, *given: Any) -> Any:
        if rows.serial in (3, 9):
            part = next(iter(part_rows._held.values()))
            lost.append(part.free())
        return step(rows, *given)

    monkeypatch.setattr(PathRows, "step", losing)
    found = train(con, files, "sparse_logistic", **OF_TASKS["sparse_logistic"])
    assert lost.count(True) == 2
    assert found.coef == pytest.approx(expected.coef, abs=1e-6)


def test_a_cluster_in_sql_and_the_command_line(con: Any, files: str, capsys: Any) -> None:
    options = {"lambda": 0.2, "schedule": "priority"}
    expected = train(con, files, "lasso", placement=None, tol=1e-6, **options)
    con.execute(f"CREATE TABLE kept AS FROM '{files}'")
    text = json.dumps(options | {"cluster": "threads", "placement": "dp"})
    query = f"SELECT plan, coef FROM train('kept', 'lasso', 'y', 'x', '{text}')"
    ((plan, coef),) = con.execute(query).fetchall()
    assert coef == pytest.approx(expected.coef, abs=1e-3)
    assert "schedule 'priority'" in plan
    where = ["train", ":memory:", "--source", files, "--executor", "threads", "--task", "lasso"]
    rows = ["--label", "y", "--features", "x", "--option", "lambda=0.2"]
    assert main([*where, *rows, "--option", "schedule=priority", "--json"]) == 0
    (told,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert told["coef"] == list(expected.coef)


REFUSED = "option 'schedule' is for a group that several workers train, and "


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"executor": None, "placement": None}, f"{REFUSED}all rows are in one place: leave it"),
        ({"placement": "gtp"}, f"{REFUSED}the model is trained on one worker: leave it out"),
        ({"unpenalized": [1]}, f"{REFUSED}placement is 'dp', but the model is trained on one "
                               "worker: option 'unpenalized' needs all rows in one place"),
        ({"schedule": "static"}, "option 'schedule' is \"static\", expected 'random', 'priority'"),
    ],
)  # fmt: skip
def test_a_schedule_that_does_not_act_is_refused(
    con: Any, files: str, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(tuskml.TuskError, match=re.escape(sentence)):
        train(con, files, "lasso", **({"lambda": 0.2, "schedule": "random"} | given))
