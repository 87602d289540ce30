"""The picture of a path: its lines are the weights that `model_path` has."""

import json

import numpy as np
import pytest

import tuskml
from tuskml.errors import DataError
from tuskml.plots import plot_path

pytest.importorskip("matplotlib").use("Agg")

SQL = """SELECT train_model('{task}', 2 * sin(i) - cos(i * 3.1) + sin(i * 17.3),
    {{'a': sin(i), 'b': cos(i * 3.1), 'c': sin(i * 7.7)}}, '{options}')
    FROM range(100) AS r(i)"""


def test_lines_are_weights_by_penalty():
    con = tuskml.connect()
    sql = SQL.format(task="lasso", options='{"path": {"length": 12}}')
    ((model,),) = con.execute(sql).fetchall()
    rows = con.execute(
        f"SELECT penalty, features, weights, chosen FROM model_path(({sql}))"
    ).fetchall()
    ax = plot_path(model)
    lines = {line.get_label(): line for line in ax.lines}
    for number, name in enumerate(("a", "b", "c"), 1):
        expected = [dict(zip(row[1], row[2], strict=True)).get(number, 0) for row in rows]
        assert np.any(expected)
        assert lines[name].get_ydata() == pytest.approx(expected)
        assert lines[name].get_xdata() == pytest.approx([row[0] for row in rows])
    (chosen,) = [row[0] for row in rows if row[3]]
    assert ax.lines[-1].get_xdata() == pytest.approx([chosen, chosen])


def test_large_ids_take_the_memory_of_their_weights():
    """A column for each id up to 2^62 could not be."""
    steps = [
        {"lambda": 1.0, "feature": [], "weight": []},
        {"lambda": 0.1, "feature": [7, 2**62], "weight": [-1.0, 0.5]},
    ]
    ax = plot_path({"trials": json.dumps({"path": steps, "chosen": 1}), "features": None})
    lines = {line.get_label(): list(line.get_ydata()) for line in ax.lines[:-1]}
    assert lines == {"7": [0, -1], str(2**62): [0, 0.5]}


def test_a_model_without_a_path_is_an_error():
    con = tuskml.connect()
    for task, options in (("linear", "{}"), ("lasso", '{"lambda": 0.1}')):
        ((model,),) = con.execute(SQL.format(task=task, options=options)).fetchall()
        with pytest.raises(DataError, match="no path"):
            plot_path(model)
