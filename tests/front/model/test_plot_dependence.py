"""Pictures of importance and dependence, from models and from rows of SQL."""

from collections.abc import Iterator

import duckdb
import matplotlib as mpl
import numpy as np
import pytest

import tuskml

mpl.use("Agg")
from matplotlib import pyplot as plt

from tuskml.plots import plot_dependence, plot_importance

ROWS = """CREATE TABLE t AS SELECT i % 2 AS g, (i * 7919 % 1009) / 1009 AS a, i % 10 AS b,
'k' || i % 3 AS c FROM range(400) r(i)"""


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def test_bars_are_the_importances(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS)
    con.execute("CREATE TABLE m AS SELECT train_model('gbdt', 9 * a + b, [a, b]) AS m FROM t")
    model = tuskml.Model.of(con.execute("SELECT m FROM m").fetchall()[0][0])
    x = np.array(con.execute("SELECT a, b FROM t").fetchall())
    found = model.permutation_importance(x, 9 * x[:, 0] + x[:, 1])
    ax = plot_importance(found)
    assert [bar.get_width() for bar in ax.patches] == sorted(found.mean, reverse=True)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [found.features[k] for k in np.argsort(-found.mean)]
    asked = "FROM permutation_importance('t', '(SELECT m FROM m)', '9 * a + b', ['a', 'b'])"
    told = con.execute(asked).fetchall()
    ax = plot_importance(told, most=1)
    assert [bar.get_width() for bar in ax.patches] == [told[0][2]]
    assert ax.get_title(loc="left") == "Importance, 1 of 2"
    gained = con.execute("FROM feature_importance((SELECT m FROM m))").df().to_dict("records")
    ax = plot_importance(gained)
    assert [bar.get_width() for bar in ax.patches] == [row["gain"] for row in gained]
    assert ax.get_xlabel() == "gain of all splits"


def test_lines_are_the_dependence(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS)
    con.execute(
        "CREATE TABLE m AS SELECT g, train_model('gbdt', a + b, {'b': b, 'c': c}) AS m FROM t "
        "GROUP BY g"
    )
    asked = (
        "FROM partial_dependence('SELECT t.*, m FROM t JOIN m USING (g)', 'm', ['b', 'c'], '{}', "
        "group_by := 'g')"
    )
    told = con.execute(asked.format("b")).fetchall()
    ax = plot_dependence(told)
    assert [line.get_label() for line in ax.lines] == ["0", "1"]
    drawn = [tuple(point) for line in ax.lines for point in line.get_xydata()]
    assert drawn == [(row[2], row[4]) for row in told]
    ax = plot_dependence(con.execute(asked.format("c")).fetchall())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["k0", "k1", "k2"]
    model = tuskml.Model.of(con.execute("SELECT m FROM m WHERE g = 0").fetchall()[0][0])
    found = model.partial_dependence(con.execute("SELECT b, c FROM t").df(), "b")
    ax = plot_dependence({"all": found})
    assert ax.lines[0].get_ydata().tolist() == found.mean.tolist()
    assert plot_dependence(found).get_xlabel() == "b"


def test_lines_of_classes_have_their_names(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS)
    model = tuskml.train(
        con, "gbdt", source="t", label="c", features=["a", "b"], objective="logistic", trees=3
    )
    assert isinstance(model, tuskml.Model)
    found = model.partial_dependence(con.execute("SELECT a, b FROM t").df(), "a", points=5)
    assert found.classes == ("k0", "k1", "k2")
    lines = plot_dependence(found).get_lines()
    assert [line.get_label() for line in lines] == ["k0", "k1", "k2"]
    for place, line in enumerate(lines):
        assert list(line.get_ydata()) == list(found.mean[:, place])
    named = plot_dependence({"here": found}).get_lines()
    assert [line.get_label() for line in named] == ["here, k0", "here, k1", "here, k2"]


def test_other_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="the rows are not of partial_dependence, expected"):
        plot_dependence([(1, 2)])
    with pytest.raises(ValueError, match="the rows are not of permutation_importance or"):
        plot_importance([])
    rows = [("a", "x", 1.0, 0.1, 2.0), ("b", "x", 1.0, 0.1, 2.0)]
    with pytest.raises(ValueError, match="importance is of several groups, expected"):
        plot_importance(rows)
