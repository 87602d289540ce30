"""One description of rows held out: in searches, in early stopping and in paths of penalties."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LassoCV, Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

RANDOM = np.random.default_rng(37)
SIZES = np.arange(6, 46)
"""Rows of each customer, all different: what GroupKFold does is then determined."""
C = RANDOM.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
N = len(C)
OWN = RANDOM.normal(size=(len(SIZES), 8))
"""What tells customers apart, and says nothing about others."""
X = OWN[C] + 0.02 * RANDOM.normal(size=(N, 8))
EFFECT = RANDOM.normal(size=len(SIZES))
Y = EFFECT[C] + 0.05 * RANDOM.normal(size=N)
DAY = RANDOM.permutation(N)
NAMES = [f"x{k}" for k in range(8)]


@pytest.fixture
def table(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Labels that customers decide, y and up, and time, which is independent of them."""
    frame = pd.DataFrame(X, columns=NAMES)
    frame["y"], frame["up"], frame["c"], frame["day"] = Y, Y > 0, C, DAY
    frame["name"] = [f"customer {c}" for c in C]
    frame["date"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(DAY, unit="D")
    con.register("given", frame)
    con.execute("CREATE OR REPLACE TABLE t AS SELECT * REPLACE (date::DATE AS date) FROM given")
    return con


def row(*more: str) -> str:
    """The features as a row by name."""
    return "{" + ", ".join(f"'{name}': {name}" for name in (*NAMES, *more)) + "}"


LIST = f"[{', '.join(NAMES)}]"


def model(
    con: duckdb.DuckDBPyConnection,
    task: str,
    options: dict[str, Any],
    x: str,
    y: str = "y",
    source: str = "t",
) -> dict[str, Any]:
    """Fields of the model, with those that are JSON as objects."""
    sql = f"SELECT m.* FROM (SELECT train_model('{task}', {y}, {x}, '{json.dumps(options)}') AS m FROM {source})"
    found = con.execute(sql).fetchdf().iloc[0].to_dict()
    for name in ("trials", "options"):
        found[name] = json.loads(found[name]) if found[name] else None
    return found


def metrics(found: dict[str, Any]) -> np.ndarray:
    """Of each candidate the metric of each fold."""
    trials = found["trials"]["trials"]
    return np.array([[fold["metric"] for fold in one["folds"]] for one in trials], float)


def trees_of(found: dict[str, Any]) -> int:
    return int(found["iterations"])


BOOSTED = {"num_leaves": 15, "trees": 40, "learning_rate": 0.3}
EARLY = {
    "gbdt": BOOSTED,
    "mlp": {"layers": [16], "max_iter": 40, "learning_rate": 0.02},
    "fm": {"rank": 4, "max_iter": 40},
}
"""Learners that stop early, with options by which they learn customers by heart."""


@pytest.mark.parametrize("task", [*EARLY, "random_forest", "linear"])
def test_customers_do_not_leak_into_folds(table: Any, task: str) -> None:
    """Labels are the customers', so a model is no better for new ones than the mean."""
    options = {**EARLY.get(task, {}), "folds": 4, "metric": "r2"}
    if task == "linear":
        options["interactions"] = [[a, b] for a in NAMES for b in NAMES if a < b]
    leaking = metrics(model(table, task, options, row()))
    apart = metrics(model(table, task, options | {"fold_by": "c"}, row("c")))
    assert leaking.mean() > 0.6
    assert apart.mean() < 0.2


@pytest.mark.parametrize("task", list(EARLY))
def test_customers_do_not_leak_into_early_stopping(table: Any, task: str) -> None:
    """A training by new customers ends at once; one by known customers goes on."""
    options = {**EARLY[task], "max_iter": 200, "validation": 0.3, "patience": 3}
    if task == "gbdt":
        options["trees"] = options.pop("max_iter")
    leaking = model(table, task, options, row())
    apart = model(table, task, options | {"fold_by": "c"}, row("c"))
    assert trees_of(apart) < 0.5 * trees_of(leaking)
    assert apart["status"] == "early stop"
    assert apart["trials"] is None
    assert apart["n_rows"] == N


@pytest.mark.parametrize("column", ["c", "name"])
def test_a_path_takes_the_penalty_of_group_k_fold(table: Any, column: str) -> None:
    found = model(table, "lasso", {"fold_by": column, "folds": 5, "tol": 1e-9}, row(column))
    steps = found["trials"]["path"]
    lambdas = [step["lambda"] for step in steps]
    folds = list(GroupKFold(5).split(X, Y, C))
    truth = LassoCV(alphas=lambdas, cv=folds, tol=1e-9, max_iter=100_000).fit(X, Y)
    held = np.array([step["held_out"] for step in steps])
    sizes = np.array([len(out) for _, out in folds])
    expected = (truth.mse_path_ * sizes).sum(axis=1) / sizes.sum()
    assert held == pytest.approx(expected, rel=1e-5)
    random = model(table, "lasso", {"folds": 5, "tol": 1e-9}, row())
    kept = random["trials"]["path"][random["trials"]["chosen"]]["lambda"]
    assert steps[found["trials"]["chosen"]]["lambda"] > 5 * kept


def test_a_path_is_judged_forward_in_time(table: Any) -> None:
    found = model(table, "lasso", {"time_by": "day", "folds": 4, "tol": 1e-9}, row("day"))
    steps, order = found["trials"]["path"], np.argsort(DAY)
    folds = [(order[kept], order[held]) for kept, held in TimeSeriesSplit(4).split(X)]
    alphas = [step["lambda"] for step in steps]
    truth = LassoCV(alphas=alphas, cv=folds, tol=1e-9, max_iter=100_000).fit(X, Y)
    held = [step["held_out"] for step in steps]
    assert held == pytest.approx(truth.mse_path_.mean(axis=1), rel=1e-5)


@pytest.mark.parametrize("task", ["lasso", "elastic_net", "sparse_logistic"])
@pytest.mark.parametrize("solver", [{}, {"groups": [[1, 2]]}])
def test_every_path_knows_customers(table: Any, task: str, solver: dict[str, Any]) -> None:
    y = "up" if task == "sparse_logistic" else "y"
    random = model(table, task, {"folds": 5, **solver}, row(), y)
    apart = model(table, task, {"fold_by": "c", **solver}, row("c"), y)
    chosen = [one["trials"]["path"][one["trials"]["chosen"]]["lambda"] for one in (random, apart)]
    assert chosen[1] > 3 * chosen[0]


def test_a_path_within_a_search_knows_customers(table: Any) -> None:
    options = {"alpha": [0.5, 1.0], "fold_by": "c", "folds": 3}
    found = model(table, "elastic_net", options, row("c"))
    plain = model(table, "elastic_net", {"fold_by": "c"}, row("c"))
    assert np.count_nonzero(found["coef"]) <= np.count_nonzero(plain["coef"]) + 2
    assert metrics(found).shape == (2, 3)


def test_folds_beside_a_path_are_its_own(table: Any) -> None:
    """No paths within paths: that would judge a single candidate."""
    one = model(table, "lasso", {"folds": 7}, LIST)
    same = model(table, "lasso", {"path": {"folds": 7}}, LIST)
    assert "7 folds" in one["plan"]
    assert one["coef"].tolist() == same["coef"].tolist()
    nested = model(table, "lasso", {"folds": 3, "path": {"folds": 4}}, LIST)
    assert metrics(nested).shape == (1, 3)


def test_a_path_is_judged_once_by_a_share(table: Any) -> None:
    found = model(table, "lasso", {"validation": 0.25, "time_by": "day", "tol": 1e-9}, row("day"))
    steps, order, held = found["trials"]["path"], np.argsort(DAY), N // 4
    alphas = [step["lambda"] for step in steps]
    folds = [(order[:-held], order[-held:])]
    truth = LassoCV(alphas=alphas, cv=folds, tol=1e-9, max_iter=100_000).fit(X, Y)
    assert [one["held_out"] for one in steps] == pytest.approx(truth.mse_path_.ravel(), rel=1e-5)
    for x in (LIST, row()):
        plan = model(table, "lasso", {"validation": 0.25}, x)["plan"]
        assert "0.25 of the rows held out" in plan


@pytest.mark.parametrize("task", list(EARLY))
@pytest.mark.parametrize("by", [{}, {"fold_by": "c"}, {"time_by": "day"}])
@pytest.mark.parametrize("y", ["y", "up"])
def test_a_search_stops_early_as_its_candidates_do(
    table: Any, task: str, by: dict[str, str], y: str
) -> None:
    x = row(*by.values())
    fixed: dict[str, Any] = {"validation": 0.25, "patience": 2, "seed": 3, **by}
    if y == "up":
        fixed["objective"] = "logistic"
    options = {**EARLY[task], **fixed}
    name = "trees" if task == "gbdt" else "max_iter"
    found = model(table, task, options | {name: [60, 61]}, x, y)
    alone = model(table, task, options | {name: found["options"][name]}, x, y)
    assert found["iterations"] == alone["iterations"]
    assert found["loss"] == alone["loss"]
    assert found["payload"] == alone["payload"]
    (fold,) = found["trials"]["trials"][found["trials"]["chosen"]]["folds"]
    assert fold["iterations"] == alone["iterations"]
    metric = "mae" if y == "y" else "auc"
    judged = model(table, task, options | {name: found["options"][name], "metric": metric}, x, y)
    assert judged["trials"]["trials"][0]["metric"] is not None
    assert judged["iterations"] == alone["iterations"]


@pytest.mark.parametrize("gap", [None, 40])
def test_early_stopping_in_time_is_that_of_the_last_rows(table: Any, gap: int | None) -> None:
    """The trees are those of the rows before the last fifth and the gap, as many as are kept."""
    options = {**BOOSTED, "trees": 300, "validation": 0.2, "patience": 5, "time_by": "day"}
    found = model(table, "gbdt", options if gap is None else options | {"gap": gap}, row("day"))
    assert found["status"] == "early stop"
    assert 1 <= trees_of(found) < 300
    first = N - N // 5
    table.execute(f"CREATE OR REPLACE TABLE before AS FROM t WHERE day < {first - (gap or 0)}")
    same = model(table, "gbdt", BOOSTED | {"trees": trees_of(found)}, row(), source="before")
    assert same["loss"] == pytest.approx(found["loss"], rel=1e-9)


@pytest.mark.parametrize("column", ["day", "date"])
@pytest.mark.parametrize("days", [0, 1, 25, 200])
def test_a_gap_leaves_rows_out_before_each_fold(table: Any, column: str, days: int) -> None:
    gap = days if column == "day" else f"{days} days"
    options = {"l2": [1.0, 0.01], "folds": 5, "time_by": column, "gap": gap, "epsilon": 1e-12}
    found = metrics(model(table, "linear", options, row(column)))
    order = np.argsort(DAY)
    for l2, tried in zip((1.0, 0.01), found, strict=True):
        for metric, (before, later) in zip(tried, TimeSeriesSplit(5).split(X), strict=True):
            held = order[later]
            kept = order[before][DAY[held].min() - DAY[order[before]] > days]
            if len(kept) < 2:
                assert np.isnan(metric)
                continue
            ridge = Ridge(l2 * len(kept)).fit(X[kept], Y[kept])
            truth = root_mean_squared_error(Y[held], ridge.predict(X[held]))
            assert metric == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("gap", [None, 9])
@pytest.mark.parametrize("window", [1, 3])
def test_origins_roll_with_a_window(table: Any, window: int, gap: int | None) -> None:
    """Each fold is predicted from `window` stretches as long before it, less the gap."""
    options = {"l2": [0.01], "folds": 4, "time_by": "day", "window": window, "epsilon": 1e-12}
    answer = model(table, "linear", options | ({} if gap is None else {"gap": gap}), row("day"))
    assert (answer["options"]["window"], metrics(answer).shape) == (window, (1, 4))
    order, size = np.argsort(DAY), N // (4 + window)
    for k, metric in enumerate(metrics(answer)[0]):
        end = N - (4 - k) * size
        held = order[end : end + size]
        before = order[end - window * size if k else 0 : end]  # the first stretch has the rest
        kept = before[DAY[held].min() - DAY[before] > (gap or 0)]
        ridge = Ridge(0.01 * len(kept)).fit(X[kept], Y[kept])
        truth = root_mean_squared_error(Y[held], ridge.predict(X[held]))
        assert metric == pytest.approx(truth, rel=1e-6), k


def test_a_path_rolls_with_a_window(table: Any) -> None:
    """A path whose penalties fill all data before a fold differs from one of a window."""
    options = {"folds": 4, "time_by": "day", "path": {"length": 8}}
    whole = model(table, "lasso", options, row("day"))
    short = model(table, "lasso", options | {"window": 1}, row("day"))
    assert whole["trials"] != short["trials"]


CONSTANT: dict[str, dict[str, Any]] = {
    "linear": {"l2": [1e12]},
    "lasso": {"lambda": [1e9]},
    "gbdt": {"learning_rate": [1e-12], "trees": 2},
}
"""Options by which models are constant, so that a metric tells which rows are held out."""


@pytest.mark.parametrize(
    "how",
    [
        {"folds": 5},
        {"folds": 3, "seed": 8},
        {"validation": 0.3},
        {"validation": 0.11, "seed": 5},
        {"folds": 5, "fold_by": "c"},
        {"validation": 0.3, "fold_by": "c", "seed": 2},
        {"folds": 4, "time_by": "day", "gap": 9},
        {"validation": 0.3, "time_by": "day"},
    ],
    ids=str,
)
def test_the_same_seed_holds_out_the_same_rows_for_all(table: Any, how: dict[str, Any]) -> None:
    """Of a constant model the error over the held-out rows is that of the mean of the others."""
    column = [v for k, v in how.items() if k in ("fold_by", "time_by")]
    found = []
    for task, constant in CONSTANT.items():
        for threads in (1, 2):
            options = {**constant, **how, "metric": "rmse", "threads": threads}
            found.append(metrics(model(table, task, options, row(*column)))[0])
    for one in found[1:]:
        assert one == pytest.approx(found[0], rel=1e-9)
    other = {**CONSTANT["linear"], **how, "metric": "rmse", "seed": 91}
    if not column:
        assert metrics(model(table, "linear", other, row()))[0] != pytest.approx(
            found[0], rel=1e-9
        )


@pytest.mark.parametrize("share", [1e-9, 0.001, 0.5, 0.999, 1 - 1e-9])
@pytest.mark.parametrize("by", [{}, {"fold_by": "c"}, {"time_by": "day"}])
def test_extreme_shares_hold_out_a_row_and_keep_one(
    table: Any, share: float, by: dict[str, str]
) -> None:
    x = row(*by.values())
    found = model(table, "linear", {"l2": [1.0, 0.1], "validation": share, **by}, x)
    (fold,) = found["trials"]["trials"][0]["folds"]
    assert (fold["metric"] is not None) != (fold["status"] == "too few rows")
    assert (
        model(table, "gbdt", {**BOOSTED, "trees": 3, "validation": share, **by}, x)["n_rows"] == N
    )


def test_trials_say_what_each_fold_holds_out(table: Any) -> None:
    def told(options: dict[str, Any], column: str) -> list[str]:
        call = f"train_model('linear', y, {row(column)}, '{json.dumps({'l2': [1, 2]} | options)}')"
        sql = f"SELECT held_out FROM model_trials((SELECT {call} FROM t)) WHERE fold IS NOT NULL"
        found = [one for (one,) in table.execute(sql).fetchall()]
        assert found[: len(found) // 2] == found[len(found) // 2 :]  # of both candidates
        return found[: len(found) // 2]

    by_value = [out for _, out in GroupKFold(5).split(X, Y, C)]
    expected = [", ".join(map(str, sorted(set(C[out].tolist())))) for out in by_value]
    assert told({"folds": 5, "fold_by": "c"}, "c") == expected
    names = [", ".join(sorted({f"customer {c}" for c in C[out].tolist()})) for out in by_value]
    assert told({"folds": 5, "fold_by": "name"}, "name") == names
    size = N // 4
    starts = [N - size * k for k in (3, 2, 1)]
    assert told({"folds": 3, "time_by": "day"}, "day") == [
        f"{a} to {a + size - 1}" for a in starts
    ]
    first = pd.Timestamp("2024-01-01")
    dates = [
        f"{(first + pd.Timedelta(days=a)).date()} to {(first + pd.Timedelta(days=a + size - 1)).date()}"
        for a in starts
    ]
    assert told({"folds": 3, "time_by": "date"}, "date") == dates
    assert told({"folds": 2}, "c") == [None, None]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "patience alone": ({"patience": 4}, "option 'patience' needs option 'validation' beside it"),
    "patience with folds": ({"patience": 4, "folds": 3}, "option 'patience' needs option 'validation' beside it"),
    "gap alone": ({"validation": 0.2, "gap": 3}, "option 'gap' is 3, and it is a distance in time: expected option 'time_by'"),
    "gap by value": ({"fold_by": "day", "gap": 3}, "option 'gap' is 3, and it is a distance in time"),
    "gap of numbers": ({"time_by": "day", "gap": "3 days"}, "option 'gap' is an interval, and column 'day' holds numbers"),
    "gap of dates": ({"time_by": "date", "gap": 3}, "option 'gap' is a number, and column 'date' holds dates or times"),
    "window alone": ({"window": 2, "folds": 3}, "option 'window' is 2, and it counts stretches of time as long as a fold: expected options 'time_by' and 'folds'"),
    "window without folds": ({"window": 2, "validation": 0.2, "time_by": "day"}, "option 'window' is 2, and it counts stretches"),
    "window of groups": ({"window": 2, "folds": 3, "fold_by": "day"}, "option 'window' is 2, and it counts stretches"),
    "no window": ({"window": 0, "folds": 3, "time_by": "day"}, "option 'window' is 0, expected a whole number from 1 to 100"),
    "a window too long": ({"window": 99, "folds": 3, "time_by": "day"}, "options 'folds' and 'window' are 3 and 99, and they cut the rows into 102 stretches: expected at most 101"),
    "no gap": ({"time_by": "day", "gap": -1}, "option 'gap' is -1, expected a number of at least 0, or of dates"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_hold_rows_out_is_refused(table: Any, case: str) -> None:
    options, why = REFUSED[case]
    with pytest.raises(Exception, match=why):
        model(table, "gbdt", options, row("day", "date"))
