"""Curves of predictions: `tuskml.evaluate(..., curves=True)`, and their pictures."""

import math

import matplotlib as mpl
import numpy as np
import pytest
from sklearn import metrics

from tuskml import evaluate, predict, train
from tuskml.plots import (
    plot_calibration,
    plot_confusion,
    plot_lift,
    plot_precision_recall,
    plot_roc,
)

mpl.use("Agg")

ROWS = """
    CREATE TABLE trips AS
    SELECT i, i % 3 AS city, i * 7919 % 97 / 10.0 AS x,
           CASE WHEN i * 7919 % 97 + 40 * sin(i * 12.9898) > 50 THEN 1 ELSE 0 END AS late
    FROM generate_series(1, 600) AS t(i)"""
GIVEN = {"source": "trips", "label": "late", "features": ["x"], "l2": 0.01}
CURVES = ("roc_curve", "precision_recall_curve", "calibration", "lift")


@pytest.fixture
def trips(con):
    con.execute(ROWS)
    return con


@pytest.fixture
def twin(cluster):
    """The same rows in PostgreSQL."""
    cluster.create_database("tusk_curves")
    with cluster.connect("tusk_curves") as session:
        session.execute(ROWS)
        yield session
    cluster.drop_database("tusk_curves")


def test_curves_beside_the_metrics(trips) -> None:
    model = train(trips, "logistic", **GIVEN)
    found = evaluate(trips, model, source="trips", curves=True)
    plain = evaluate(trips, model, source="trips")
    assert found == {**plain, **{name: found[name] for name in CURVES}}
    frame = trips.execute("SELECT x, late FROM trips").df()
    fpr, tpr, _ = metrics.roc_curve(
        frame["late"], model.decision(frame[["x"]]), drop_intermediate=False
    )
    curve = found["roc_curve"]
    assert [point["tpr"] for point in curve] == pytest.approx(tpr)
    assert [point["fpr"] for point in curve] == pytest.approx(fpr)
    assert curve[0]["threshold"] == math.inf
    assert sum(row["n"] for row in found["calibration"]) == 600
    assert sum(row["n"] for row in found["lift"]) == 600
    assert found["lift"][-1]["cumulative_gain"] == 1


def test_curves_by_group(trips) -> None:
    model = train(trips, "svm", **GIVEN)
    found = evaluate(trips, model, source="trips", group_by="city", curves=True)
    assert list(found) == [0, 1, 2]
    for city, scored in found.items():
        alone = f"SELECT * FROM trips WHERE city = {city}"
        assert scored == evaluate(trips, model, source=alone, curves=True)
        assert "calibration" not in scored


def test_a_group_of_one_class_has_no_roc_curve(trips) -> None:
    model = train(trips, "logistic", **GIVEN)
    found = evaluate(
        trips, model, source="SELECT * FROM trips WHERE city > 0 OR late = 1",
        group_by="city", curves=True,
    )  # fmt: skip
    assert found[0]["roc_curve"] == []
    assert found[0]["lift"] != []
    assert found[1]["roc_curve"] != []


@pytest.mark.parametrize("keys", [(), "city"])
@pytest.mark.parametrize("weight", [None, "1 + city"])
def test_deciles_of_numbers_are_those_of_numpy(trips, keys, weight) -> None:
    model = train(trips, "linear", **GIVEN | {"label": "x * x"})
    given = {"source": "trips", "label": "x * x", "group_by": keys, "weight": weight}
    found = evaluate(trips, model, curves=True, **given)
    rows = predict(trips, model, source="trips", returns="numpy", group_by=())
    for key, scored in found.items() if keys else [(None, found)]:
        there = np.isfinite(rows["x"]) & ((rows["city"] == key) if keys else True)
        x, said, city = (rows[name][there] for name in ("x", "prediction", "city"))
        mass = 1.0 + city if weight else np.ones(len(x))
        order = np.lexsort((mass, x * x, said))
        tenths = np.array_split(order, 10)
        for point, tenth in zip(scored["deciles"], tenths, strict=True):
            assert point["n"] == len(tenth)
            assert point["mean_prediction"] == pytest.approx(
                np.average(said[tenth], weights=mass[tenth])
            )
            assert point["mean_label"] == pytest.approx(
                np.average(x[tenth] ** 2, weights=mass[tenth])
            )


@pytest.mark.parametrize("task", ["logistic", "linear"])
def test_postgresql_gives_the_same(trips, twin, task: str) -> None:
    model = train(trips, task, **GIVEN)
    for keys in ((), "city"):
        given = {"source": "trips", "label": "late", "features": ["x"], "group_by": keys}
        here = evaluate(trips, model, curves=True, **given)
        there = evaluate(twin, model, curves=True, **given)
        for key in here if keys else [None]:
            one, other = (here, there) if key is None else (here[key], there[key])
            for name in CURVES if task == "logistic" else ["deciles"]:
                assert len(one[name]) == len(other[name])
                for row, twin_row in zip(one[name], other[name], strict=True):
                    assert row == pytest.approx(twin_row)


# --- pictures ---


def test_what_is_drawn_is_what_sql_says(trips) -> None:
    (rows,) = trips.execute(
        "SELECT roc_curve(late, x), calibration(late, x / 10, 4), lift(late, x) FROM trips"
    ).fetchall()
    roc, calibration, lift = rows
    x, y = plot_roc(roc).lines[1].get_data()
    assert x.tolist() == [point["fpr"] for point in roc]
    assert y.tolist() == [point["tpr"] for point in roc]
    x, y = plot_calibration(calibration).lines[1].get_data()
    assert x.tolist() == [row["mean_p"] for row in calibration]
    assert y.tolist() == [row["rate"] for row in calibration]
    x, y = plot_lift(lift).lines[1].get_data()
    assert x == pytest.approx(np.cumsum([0, *(row["n"] for row in lift)]) / 600)
    assert y.tolist() == [0, *(row["cumulative_gain"] for row in lift)]


def test_several_curves_have_names(trips) -> None:
    model = train(trips, "logistic", **GIVEN)
    found = evaluate(trips, model, source="trips", group_by="city", curves=True)
    ax = plot_roc({city: scored["roc_curve"] for city, scored in found.items()} | {"none": None})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]
    same = plot_roc({"tuples": [tuple(row.values()) for row in found[0]["roc_curve"]]}, ax)
    assert same is ax
    assert ax.lines[-1].get_ydata().tolist() == ax.lines[1].get_ydata().tolist()


def test_what_evaluate_returns_stands_for_its_curve(trips) -> None:
    model = train(trips, "logistic", **GIVEN)
    found = evaluate(trips, model, source="trips", group_by="city", curves=True)
    for draw, name in [(plot_roc, "roc_curve"), (plot_lift, "lift")]:
        by_name = draw({city: one[name] for city, one in found.items()})
        for line, other in zip(draw(found).lines, by_name.lines, strict=True):
            np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())
        np.testing.assert_array_equal(
            draw(found[0]).lines[-1].get_xydata(), draw(found[0][name]).lines[-1].get_xydata()
        )
    with pytest.raises(ValueError, match=r"not of roc_curve: evaluate\(..., curves=True\) has it"):
        plot_roc(evaluate(trips, model, source="trips"))


def test_precision_by_recall_is_drawn_as_steps(trips) -> None:
    ((rows,),) = trips.execute("SELECT precision_recall_curve(late, x) FROM trips").fetchall()
    (line,) = plot_precision_recall(rows).lines
    assert line.get_xdata().tolist() == [point["recall"] for point in rows]
    assert line.get_ydata().tolist() == [point["precision"] for point in rows]
    assert line.get_drawstyle() == "steps"
    assert not plot_precision_recall({"none": None}).lines


def test_a_picture_of_confusion(trips) -> None:
    query = "SELECT confusion(city, city * late), confusion(city, city * late, 0.5) FROM trips"
    ((cells, weighted),) = trips.execute(query).fetchall()
    found = np.asarray(plot_confusion(cells).images[0].get_array())
    rows = trips.execute("SELECT city, city * late FROM trips").fetchall()
    counts = metrics.confusion_matrix(*zip(*rows, strict=True))
    assert found == pytest.approx(counts / counts.sum(axis=1, keepdims=True))
    ax = plot_confusion([tuple(cell.values()) for cell in cells])
    assert [text.get_text() for text in ax.texts] == [str(n) for n in counts.ravel()]
    half = [text.get_text() for text in plot_confusion(weighted).texts]
    assert half == [f"{n / 2:g}" for n in counts.ravel()]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0", "1", "2"]
    with pytest.raises(ValueError, match="cells is not of confusion, expected rows of label"):
        plot_confusion([(1, 2)])


def test_rows_of_another_curve_are_refused() -> None:
    with pytest.raises(ValueError, match="curves is not of roc_curve, expected rows of threshold"):
        plot_roc([(1, 2)])
