"""All weights times a power of two make the same model, of every task and with every option.

The tables of tasks and of options tell what is tried, so that a new one is tried as well. Powers
of two round nothing: statuses are equal, trees have the same bits, and other models nearly so, as
whole weights are summed in another way.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from option_tries import FEATURES, ROWS, Try, tasks, tries

import tuskml
from tuskml.learners.registry import learner_of, task_named

WEIGHTS = "(1 + i % 3) / 4.0"
UNITS = (2.0**-30, 2.0**-3, 2.0**5, 2.0**40)
CLOSE = 1e-9
NOT_TRIED = ("store", "resume", "speculate", "warm_start", "device", "time", "threads", "cache")
"""Options that say where or for how long a model is trained, or need another one."""
IN_WEIGHTS = {
    "gbdt": ("l1", "l2", "cat_l2", "cat_smooth", "min_child_hessian", "min_gain"),
    "random_forest": ("min_gain", "cat_l2", "cat_smooth"),
    "logistic": ("firth",),
    "matrix_factorization": ("feedback", "alpha", "cg_steps", "loss"),
}
"""Options that are in the caller's weights: penalties of sums over rows, Firth's, which counts as
much as half a row, and the confidence of implicit feedback, which is a weight."""
SETS_OF_LEVELS = ("gbdt", "random_forest")
"""Tasks whose penalties of sets of levels, which are in the caller's weights, are not 0."""
EXAMPLES = max(6, int(os.environ.get("TUSKML_EXAMPLES", "0")))


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=1) as con:
        con.execute(ROWS)
        yield con


def tried(task: str) -> list[Try]:
    """The options of a task, with the features that it takes and what they need beside them."""
    unit_free = set(NOT_TRIED) | set(IN_WEIGHTS.get(task, ()))
    found = []
    for one in tries(task):
        named = {one.option, *one.beside}
        sets = one.levels or one.option in ("categorical", "categories")
        sets &= task in SETS_OF_LEVELS
        if not named & unit_free and not sets and one.rows == "tried":
            found.append(one)
    return found


def trained(con: duckdb.DuckDBPyConnection, one: Try, unit: float) -> Any:
    """The status, and weights and predictions; or the reason why there is no model."""
    x, options = FEATURES[one.kind], one.base() | {one.option: one.value()}
    given = json.dumps(options).replace("'", "''")
    model = (
        f"WITH f AS (SELECT train_model('{one.task}', {one.label}, {x}, '{given}', "
        f"{WEIGHTS} * {unit!r}::DOUBLE) AS m FROM tried) "
    )
    of_features = learner_of(task_named(one.task)).tasks[one.task].weighs_features
    weights = "m.coef, m.intercept" if of_features else "NULL, NULL"
    asked = f"SELECT m.status, {weights}, list(predict(m, {x}) ORDER BY i) FROM f, tried"
    try:
        status, coef, intercept, predicted = con.execute(
            f"{model} {asked} GROUP BY ALL"
        ).fetchall()[0]
    except duckdb.Error as error:
        return str(error)
    return status, numbers([*(coef or []), intercept]), numbers(predicted or [])


def numbers(values: list[Any]) -> np.ndarray:
    """Numbers, those of several classes one after the other; texts as the numbers of classes."""
    names = sorted({one for one in values if isinstance(one, str)})
    plain = [names.index(one) if isinstance(one, str) else one for one in values]
    return np.array([np.nan if one is None else one for one in plain], float)


def check(con: duckdb.DuckDBPyConnection, one: Try, units: tuple[float, ...]) -> bool:
    """Compares the models; whether there are any."""
    first = trained(con, one, 1.0)
    if isinstance(first, str):
        return False  # such features, options or weights are refused
    for unit in units:
        found = trained(con, one, unit)
        assert not isinstance(found, str), (str(one), unit, found)
        assert found[0] == first[0], (str(one), unit)
        for other, own in zip(found[1:], first[1:], strict=True):
            size = np.nanmax(np.abs(own), initial=1e-300)
            close = 0.0 if one.task in SETS_OF_LEVELS else CLOSE * size
            np.testing.assert_allclose(other, own, rtol=0, atol=close, err_msg=f"{one} at {unit}")
    return True


@pytest.mark.sample(6)
@pytest.mark.parametrize("task", tasks())
def test_the_default_model_of_any_unit(rows: duckdb.DuckDBPyConnection, task: str) -> None:
    """With each kind of features; a task that takes no weights says so."""
    some = {one.kind: one for one in tried(task) if one.option == "seed" and not one.beside}
    some = some or {one.kind: one for one in tried(task) if not one.beside}
    made = [check(rows, one, UNITS) for one in some.values()]
    assert any(made) or any("weight" in str(trained(rows, one, 1.0)) for one in some.values())


@pytest.mark.sample(6)
@pytest.mark.parametrize("task", tasks())
@settings(max_examples=EXAMPLES)
@given(data=st.data(), unit=st.sampled_from(UNITS))
def test_every_option_in_any_unit(
    rows: duckdb.DuckDBPyConnection, task: str, data: st.DataObject, unit: float
) -> None:
    check(rows, data.draw(st.sampled_from(tried(task))), (unit,))
