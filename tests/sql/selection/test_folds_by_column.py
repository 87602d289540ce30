"""Folds by a column's values and forward in time, in both databases, against scikit-learn's."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GroupKFold, StratifiedKFold, TimeSeriesSplit

RANDOM = np.random.default_rng(18)
SIZES = [31, 29, 26, 22, 21, 17, 16, 14, 11, 9, 7, 5, 3, 2]
"""Rows of each customer, all different: what GroupKFold does is then determined."""
C = RANDOM.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
N = len(C)
DAY = RANDOM.permutation(N)
X = RANDOM.normal(size=(N, 2))
Y = X @ [1.0, -0.5] + 0.1 * C + 0.004 * DAY + RANDOM.normal(size=N)
L2 = [1.0, 0.01]
CREATE = "CREATE TABLE t (y float8, a float8, b float8, c integer, name text, day date, late timestamp, late_name text)"


class Session:
    """The rows in a database, and searches on them."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute("DROP TABLE IF EXISTS t")
        session.execute(CREATE)
        days = [f"date '2024-01-01' + {d}" for d in DAY]
        rows = (
            f"({y!r}, {a!r}, {b!r}, {c}, 'customer {c}', {d}, CAST({d} AS timestamp), 'x')"
            for y, (a, b), c, d in zip(Y.tolist(), X.tolist(), C, days, strict=True)
        )
        session.execute(f"INSERT INTO t VALUES {', '.join(rows)}")

    def row(self, *columns: str) -> str:
        """Columns as a row by name."""
        if self.name == "duck":
            return "{" + ", ".join(f"'{one}': {one}" for one in columns) + "}"
        return f"(SELECT q FROM (SELECT {', '.join(columns)}) AS q)"

    def trials(self, x: str, options: dict[str, Any], y: str = "y", task: str = "linear") -> Any:
        """What was tried, and the model's features."""
        call = f"train_model('{task}', {y}, {x}, '{json.dumps(options)}')"
        sql = f"SELECT (m).trials, (m).features, (m).n_rows FROM (SELECT {call} AS m FROM t) AS f"
        ((text, features, n_rows),) = self.session.execute(sql).fetchall()
        assert n_rows == N
        return json.loads(text)["trials"], features


@pytest.fixture
def db(session: tuple[str, Any]) -> Session:
    return Session(*session)


def metrics(trials: list[dict[str, Any]]) -> list[list[float]]:
    """Of each candidate the metric of each fold."""
    return [[fold["metric"] for fold in one["folds"]] for one in trials]


def truth(splits: Any, l2: float) -> list[float]:
    """The root mean squared error of each of scikit-learn's splits."""
    found = []
    for kept, held in splits:
        model = Ridge(l2 * len(kept)).fit(X[kept], Y[kept])
        found.append(float(root_mean_squared_error(Y[held], model.predict(X[held]))))
    return found


@pytest.mark.parametrize("column", ["c", "name"])
def test_folds_by_a_column_are_those_of_group_k_fold(db: Session, column: str) -> None:
    trials, features = db.trials(
        db.row("a", "b", column), {"l2": L2, "folds": 4, "fold_by": column, "epsilon": 1e-12}
    )
    assert features == ["a", "b"]
    for l2, found in zip(L2, metrics(trials), strict=True):
        assert found == pytest.approx(truth(GroupKFold(4).split(X, Y, C), l2), rel=1e-6)


@pytest.mark.parametrize("column", ["day", "late"])
def test_folds_in_time_are_those_of_time_series_split(db: Session, column: str) -> None:
    trials, features = db.trials(
        db.row("a", column, "b"), {"l2": L2, "folds": 5, "time_by": column, "epsilon": 1e-12}
    )
    assert features == ["a", "b"]
    order = np.argsort(DAY)
    splits = [(order[kept], order[held]) for kept, held in TimeSeriesSplit(5).split(X)]
    for l2, found in zip(L2, metrics(trials), strict=True):
        assert found == pytest.approx(truth(splits, l2), rel=1e-6)


def test_a_share_is_held_out_at_the_end_of_time(db: Session) -> None:
    trials, _ = db.trials(
        db.row("a", "b", "day"),
        {"l2": L2, "validation": 0.25, "time_by": "day", "epsilon": 1e-12},
    )
    order, held = np.argsort(DAY), N // 4
    for l2, found in zip(L2, metrics(trials), strict=True):
        assert found == pytest.approx(truth([(order[:-held], order[-held:])], l2), rel=1e-6)


def test_classes_are_dealt_evenly_as_stratified_k_fold_does(db: Session) -> None:
    """The Brier score of a constant model tells how many positive rows a fold has."""
    db.session.execute("ALTER TABLE t ADD COLUMN up float8")
    db.session.execute("UPDATE t SET up = CASE WHEN y > 1.7 THEN 1 ELSE 0 END")
    up = (Y > 1.7).astype(float)
    trials, _ = db.trials(
        db.row("a", "b"), {"l2": [1e9], "folds": 5, "metric": "brier"}, y="up", task="logistic"
    )
    splits = StratifiedKFold(5).split(X, up)
    expected = [float(((up[held] - up[kept].mean()) ** 2).mean()) for kept, held in splits]
    assert sorted(metrics(trials)[0]) == pytest.approx(sorted(expected), abs=1e-4)


def test_rows_of_one_moment_are_not_parted(db: Session) -> None:
    """With a moment per quarter of the rows, the folds begin where a moment does."""
    db.session.execute("ALTER TABLE t ADD COLUMN quarter integer")
    db.session.execute(
        "UPDATE t SET quarter = CAST(floor(4 * day_number / 213.0) AS integer) FROM (SELECT day AS d, CAST(day - date '2024-01-01' AS integer) AS day_number FROM t) AS s WHERE day = d"
    )
    quarter = np.floor(4 * DAY / 213.0).astype(int)
    trials, _ = db.trials(
        db.row("a", "b", "quarter"),
        {"l2": L2, "folds": 3, "time_by": "quarter", "epsilon": 1e-12},
    )
    splits = [(np.flatnonzero(quarter < k), np.flatnonzero(quarter == k)) for k in (1, 2, 3)]
    for l2, found in zip(L2, metrics(trials), strict=True):
        assert found == pytest.approx(truth(splits, l2), rel=1e-6)


def test_fewer_values_than_folds_leave_folds_without_rows(db: Session) -> None:
    db.session.execute("ALTER TABLE t ADD COLUMN half integer")
    db.session.execute("UPDATE t SET half = c % 2")
    trials, _ = db.trials(db.row("a", "b", "half"), {"l2": L2, "folds": 4, "fold_by": "half"})
    statuses = [[fold["status"] for fold in one["folds"]] for one in trials]
    assert statuses == [["ok", "ok", "too few rows", "too few rows"]] * 2


def test_the_table_form_adds_the_column(db: Session) -> None:
    given = (
        """'t', 'linear', 'y', {0}['a', 'b'], '{{"l2": [1, 0.01], "folds": 4, "fold_by": "c"}}'"""
    )
    if db.name == "duck":
        sql = f"SELECT trials, features FROM train({given.format('')})"
    else:
        given = given.format("ARRAY")
        sql = f"SELECT (m).trials, (m).features FROM (SELECT train({given}) AS m OFFSET 0) AS f"
    ((text, features),) = db.session.execute(sql).fetchall()
    trials, _ = db.trials(db.row("a", "b", "c"), {"l2": [1, 0.01], "folds": 4, "fold_by": "c"})
    assert features == ["a", "b"]
    assert metrics(json.loads(text)["trials"]) == metrics(trials)


def test_halving_races_over_the_folds_of_a_column(db: Session) -> None:
    l2 = [10.0, 1.0, 0.1, 0.01]
    options = {"l2": l2, "folds": 4, "fold_by": "c", "epsilon": 1e-12}
    halved, _ = db.trials(db.row("a", "b", "c"), options | {"search": {"strategy": "halving"}})
    whole, _ = db.trials(db.row("a", "b", "c"), options)
    left = [k for k, one in enumerate(halved) if one["folds"][3]["metric"] is not None]
    assert len(left) == 2
    for k in left:
        assert metrics(halved)[k] == pytest.approx(metrics(whole)[k], rel=1e-6)


REFUSED: dict[str, str] = {
    '"fold_by": "c", "time_by": "day"': "options 'fold_by' and 'time_by' are both given",
    '"fold_by": "d"': "option 'fold_by' names 'd', expected a column of the rows: a, c, day, name",
    '"time_by": "name"': "option 'time_by' names 'name', expected a column of dates, times or numbers: it is text",
    '"fold_by": 3': "option 'fold_by' is 3, expected a name",
    '"foldby": "c"': "unknown option 'foldby'; did you mean 'fold_by'",
}


@pytest.mark.parametrize("options", list(REFUSED))
def test_columns_that_cannot_deal_rows_are_refused(db: Session, options: str) -> None:
    x = db.row("a", "c", "day", "name")
    with pytest.raises(Exception, match=REFUSED[options]):
        db.session.execute(
            f"SELECT train_model('linear', y, {x}, '{{\"l2\": [1, 2], {options}}}') FROM t"
        ).fetchall()


def test_lists_of_numbers_have_no_such_column(db: Session) -> None:
    x = "[a, b]" if db.name == "duck" else "ARRAY[a, b]"
    with pytest.raises(Exception, match="option 'fold_by' is for rows with names, and these"):
        db.session.execute(
            f"SELECT train_model('linear', y, {x}, '{{\"fold_by\": \"c\"}}') FROM t"
        ).fetchall()


def test_a_row_without_a_value_is_refused_where_it_was_kept(db: Session) -> None:
    x = db.row("a", "c")
    db.session.execute("UPDATE t SET c = NULL WHERE c = 3")
    with pytest.raises(Exception, match=r"column 'c' is NULL in 22 rows of a group.*'fold_by'"):
        db.session.execute(
            f'SELECT train_model(\'linear\', y, {x}, \'{{"fold_by": "c", "missing": "impute"}}\') FROM t'
        ).fetchall()


def test_trees_stop_by_the_last_rows_in_time(db: Session) -> None:
    """They are those of the rows before the last fifth, without the three days before it."""
    options = {"trees": 200, "validation": 0.2, "patience": 3, "learning_rate": 0.5}
    early = options | {"time_by": "day", "gap": "3 days"}
    x, plain = db.row("a", "b", "day"), db.row("a", "b")
    ((status, trees, loss),) = db.session.execute(
        f"SELECT (m).status, (m).iterations, (m).loss FROM (SELECT train_model('gbdt', y, {x}, '{json.dumps(early)}') AS m FROM t) AS f"
    ).fetchall()
    assert status == "early stop"
    assert trees < 200
    first = N - N // 5 - 3
    same = json.dumps({"trees": trees, "learning_rate": 0.5})
    ((expected,),) = db.session.execute(
        f"SELECT (m).loss FROM (SELECT train_model('gbdt', y, {plain}, '{same}') AS m FROM t WHERE day < date '2024-01-01' + {first}) AS f"
    ).fetchall()
    assert loss == pytest.approx(expected, rel=1e-9)


def test_trials_tell_the_days_of_each_fold(db: Session) -> None:
    call = f"train_model('linear', y, {db.row('a', 'b', 'day')}, '{json.dumps({'l2': L2, 'validation': 0.25, 'time_by': 'day'})}')"
    sql = f"SELECT fold, held_out FROM model_trials((SELECT {call} FROM t)) WHERE fold IS NOT NULL"
    ends = [np.datetime64("2024-01-01") + day for day in (N - N // 4, N - 1)]
    assert db.session.execute(sql).fetchall() == [(0, f"{ends[0]} to {ends[1]}")] * 2
