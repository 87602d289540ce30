"""Searches that choose their trials: the densities against the paper, and searches in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
import math
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import truncnorm

from tuskml.groups.selection import choosing


def density(x: float, trials: list[float], width: float) -> float:
    """A Parzen estimate on [0, 1] with the uniform prior as one of its terms."""
    parts = [
        float(truncnorm.pdf(x, -one / width, (1 - one) / width, loc=one, scale=width))
        for one in trials
    ]
    return (1 + sum(parts)) / (1 + len(parts))


def test_the_candidate_with_the_greatest_ratio_of_densities_is_chosen() -> None:
    """Section 4 of the paper, by hand: two numbers and a category, which has counts and a prior."""
    random = np.random.default_rng(5)
    n, tried, good = 40, 14, math.ceil(choosing.GOOD * 14)
    rows = [{"a": a, "b": b, "c": "xyz"[int(3 * c)]} for a, b, c in random.random((n, 3)).tolist()]
    losses = random.random(n)
    axes = choosing.axes_of([("t", json.dumps(row)) for row in rows])
    mask = np.arange(n)[:, None] < tried
    (found,) = np.flatnonzero(choosing.next_candidates(axes, losses[:, None], mask, 1))
    rank = {name: np.argsort(np.argsort([row[name] for row in rows])) / (n - 1) for name in "ab"}
    order = np.argsort(losses[:tried])
    width = choosing.bandwidth(tried)

    def ratio(k: int) -> float:
        out = 1.0
        for some, power in ((order[:good], 1), (order[good:], -1)):
            for name in "ab":
                out *= density(rank[name][k], [rank[name][i] for i in some], width) ** power
            same = sum(rows[i]["c"] == rows[k]["c"] for i in some)
            out *= ((1 / 3 + same) / (1 + len(some))) ** power
        return out

    assert found == max(range(tried, n), key=ratio)


def test_options_of_one_task_count_for_it_alone() -> None:
    """Good trials of a task lead to its candidates near them, whatever the other task's options."""
    numbers = [k / 19 for k in range(20)]
    candidates = [("p", json.dumps({"task": "p", "a": a})) for a in numbers]
    candidates += [("q", json.dumps({"task": "q", "a": a})) for a in numbers]
    losses = np.array([abs(a - 0.2) for a in numbers] + [5 + abs(a - 0.9) for a in numbers])
    tried = np.zeros((40, 1), bool)
    tried[::4] = True
    axes = choosing.axes_of(candidates)
    assert axes.choices == (2, 0, 0)
    found = np.flatnonzero(choosing.next_candidates(axes, losses[:, None], tried, 3))
    assert all(k < 20 and abs(numbers[k] - 0.2) < 0.25 for k in found)


def test_failed_trials_are_bad_ones() -> None:
    axes = choosing.axes_of([("t", json.dumps({"a": k})) for k in range(20)])
    losses = np.where(np.arange(20) < 10, np.inf, 1.0)[:, None]
    tried = (np.arange(20) % 3 == 0)[:, None]
    found = np.flatnonzero(choosing.next_candidates(axes, losses, tried, 2))
    assert (found > 9).all()
    nothing = choosing.next_candidates(axes, np.full((20, 1), np.inf), tried, 20)
    assert nothing.sum() == 20 - tried.sum()


def hartmann(u: np.ndarray) -> np.ndarray:
    """Hartmann's function of three variables in [0, 1]^3, whose minimum is -3.86278."""
    a = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
    p = 1e-4 * np.array(
        [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
    )
    apart = (a * (u[:, None, :] - p) ** 2).sum(axis=-1)
    out: np.ndarray = -(np.exp(-apart) @ [1.0, 1.2, 3.0, 3.2])
    return out


def branin(u: np.ndarray) -> np.ndarray:
    """Branin's function on [-5, 10] x [0, 15], whose minimum is 0.397887."""
    x, y = 15 * u[:, 0] - 5, 15 * u[:, 1]
    t = 1 / (8 * math.pi)
    out: np.ndarray = (
        (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
        + 10 * (1 - t) * np.cos(x)
        + 10
    )
    return out


def penalty(u: np.ndarray) -> np.ndarray:
    """A valley in one of four options, as a penalty has it."""
    out: np.ndarray = np.abs(u[:, 0] - 0.7) + 0.1 * (u[:, 1] - 0.3) ** 2
    return out


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize(("loss", "d"), [(hartmann, 3), (branin, 2), (penalty, 4)])
def test_it_finds_better_ones_than_as_many_draws(
    loss: Callable[[np.ndarray], np.ndarray], d: int
) -> None:
    """The mean over 24 seeds of the best of 32 trials, and of as many that are drawn."""
    ours, drawn = [], []
    for seed in range(24):
        u = np.random.default_rng(seed).random((choosing.pool(32), d))
        losses = loss(u)[:, None]
        shown = [("t", json.dumps(dict(zip("abcd", row, strict=False)))) for row in u.tolist()]
        estimate = choosing.Estimate(32, choosing.axes_of(shown))
        first, *more = estimate.counts()
        tried = np.arange(len(u))[:, None] < first
        for n in more:
            tried |= choosing.next_candidates(
                estimate.axes, np.where(tried, losses, np.inf), tried, n
            )
        assert tried.sum() == 32
        ours.append(losses[tried].min())
        drawn.append(losses[:32].min())
    assert np.mean(ours) < np.mean(drawn)


ROWS = """CREATE TABLE t AS SELECT i % 3 AS g, 1.0 * (i % 17) AS a, 1.0 * (i * 7 % 23) AS b,
    (i % 17) + 0.5 * (i * 7 % 23) * (1 + i % 3) + (i * 7919 % 101) / 10.0 AS y FROM {series} AS r(i)"""
OPTIONS = {
    "l2": {"log_uniform": [1e-6, 100]},
    "l1": {"log_uniform": [1e-6, 1]},
    "search": {"strategy": "tpe", "trials": 16},
    "folds": 3,
}


def asked(
    session: tuple[str, Any], options: dict[str, Any], where: str = "true"
) -> dict[int, Any]:
    """The trials of each group."""
    name, connection = session
    connection.execute("DROP TABLE IF EXISTS t")
    connection.execute(
        ROWS.format(series="range(300)" if name == "duck" else "generate_series(0, 299)")
    )
    x = "[a, b]" if name == "duck" else "ARRAY[a, b]::float8[]"
    sql = f"SELECT g, (m).trials, (m).options FROM (SELECT g, train_model('linear', y, {x}, '{json.dumps(options)}') AS m FROM t WHERE {where} GROUP BY g) AS f ORDER BY g"
    return {
        g: (json.loads(trials), json.loads(own))
        for g, trials, own in connection.execute(sql).fetchall()
    }


def metrics(trials: dict[str, Any]) -> list[tuple[str, float]]:
    """Configurations and their metrics."""
    return [(json.dumps(one["configuration"]), one["metric"]) for one in trials["trials"]]


@pytest.mark.sample(1)
def test_each_group_tries_as_many_as_asked_and_chooses_its_own(session: tuple[str, Any]) -> None:
    found = asked(session, OPTIONS)
    for trials, options in found.values():
        assert len(trials["trials"]) == 16
        assert all(fold["status"] == "ok" for one in trials["trials"] for fold in one["folds"])
        best = trials["trials"][trials["chosen"]]
        assert best["metric"] == min(one["metric"] for one in trials["trials"])
        assert options["l2"] == pytest.approx(best["configuration"]["l2"])
    chosen = [{name for name, _ in metrics(trials)} for trials, _ in found.values()]
    assert len(set.intersection(*chosen)) >= 4  # those drawn at the beginning
    again = asked(session, OPTIONS)
    assert [metrics(trials) for trials, _ in again.values()] == [
        metrics(t) for t, _ in found.values()
    ]
    (alone,) = asked(session, OPTIONS, "g = 1").values()
    assert metrics(alone[0]) == metrics(found[1][0])
    other = asked(session, OPTIONS | {"seed": 3})
    assert metrics(other[1][0]) != metrics(found[1][0])


def test_both_databases_choose_alike(con: duckdb.DuckDBPyConnection, post: Any) -> None:
    here, there = asked(("duck", con), OPTIONS), asked(("post", post), OPTIONS)
    for g, (trials, _) in here.items():
        assert [name for name, _ in metrics(trials)] == [name for name, _ in metrics(there[g][0])]


def test_all_of_a_small_grid_are_tried(session: tuple[str, Any]) -> None:
    options = {"l2": [1, 0.1, 0.01], "folds": 3, "search": {"strategy": "tpe", "trials": 9}}
    for trials, _ in asked(session, options, "g = 0").values():
        assert sorted(one["configuration"]["l2"] for one in trials["trials"]) == [0.01, 0.1, 1]


def test_tasks_are_chosen_too(con: duckdb.DuckDBPyConnection) -> None:
    """A straight line, which trees approximate badly: most later trials are of the linear task."""
    sql = """SELECT (train_model('auto', 3.0 * i, [i], '{"tasks": [{"task": "linear", "l2": {"log_uniform": [1e-8, 1e-4]}},
             {"task": "gbdt", "trees": 5, "num_leaves": {"int": [2, 9]}}], "folds": 2, "search": {"strategy": "tpe", "trials": 12}}')).trials FROM range(90) AS r(i)"""
    ((text,),) = con.execute(sql).fetchall()
    tasks = [one["configuration"]["task"] for one in json.loads(text)["trials"]]
    assert len(tasks) == 12
    assert tasks.count("linear") > tasks.count("gbdt") >= 1


def test_the_plan_says_how_trials_are_chosen(con: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT explain_training('linear', i, [i], '{json.dumps(OPTIONS)}') FROM range(90) AS r(i)"
    ((text,),) = con.execute(sql).fetchall()
    assert "16 candidates on 3 folds" in text
    assert "tpe: each group chooses its candidates by its trials before" in text
