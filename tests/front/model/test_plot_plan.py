"""The picture of a plan: what is drawn is what the explanation says."""

import json

import matplotlib as mpl
import numpy as np
import pytest

import tuskml
from tuskml.plots import plot_plan

mpl.use("Agg")

ENDS = {"low": 8.0, "point": 10.0, "high": 14.0}
SECONDS = {"low": 0.1, "point": 0.2, "high": 0.3}


def candidate(name, chosen=False, refusal=None, tried=None, **ends):
    return {
        "algorithm": name,
        "chosen": chosen,
        "refusal": refusal,
        "iterations": None if refusal else ENDS | ends,
        "seconds_per_iteration": 0.01,
        "seconds": None if refusal else SECONDS,
        "memory_bytes": 0,
        "store_requests": 0,
        "store_bytes": 0,
        "tried": tried,
    }


def explanation(*candidates):
    return {
        "explanation": 1,
        "task": "logistic",
        "plan": {"algorithm": "lbfgs", "converge": "gradient", "epsilon": 1e-3},
        "candidates": list(candidates),
    }


TRIED = {
    "share": 0.5,
    "errors": [1.0, 0.5, 0.3],
    "shape": "linear",
    "curve": [[0.0, 1.1], [5.0, 0.03], [10.0, 1e-3]],
}


@pytest.fixture
def axes():
    found = plot_plan(
        explanation(
            candidate("lbfgs", chosen=True, tried=TRIED),
            candidate("newton"),
            candidate("sgd", refusal="no"),
        )
    )
    yield found
    mpl.pyplot.close(found.figure)


def test_curves_points_and_estimates(axes):
    by_label = {line.get_label(): line for line in axes.lines}
    fitted = by_label["lbfgs, 200 ms, chosen"]
    np.testing.assert_array_equal(fitted.get_xydata(), TRIED["curve"])
    measured = [line for line in axes.lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(measured[0].get_xydata(), list(enumerate(TRIED["errors"])))
    expected = by_label["newton, 200 ms"]
    np.testing.assert_array_equal(expected.get_xydata(), [[8.0, 1e-3], [14.0, 1e-3]])
    assert fitted.get_linewidth() > expected.get_linewidth()
    assert not any("sgd" in label for label in by_label)
    assert axes.get_title(loc="left") == "logistic: lbfgs is chosen"
    assert (axes.get_yscale(), axes.get_xscale()) == ("log", "linear")
    assert "tolerance 0.001" in by_label


def test_given_axes_and_words_are_used():
    figure, axes = mpl.pyplot.subplots()
    given = explanation(candidate("lbfgs", chosen=True, high=5000.0))
    assert plot_plan(json.dumps(given), axes, title="Plan", ylabel="error") is axes
    assert (axes.get_title(loc="left"), axes.get_ylabel()) == ("Plan", "error")
    assert axes.get_xscale() == "symlog"
    mpl.pyplot.close(figure)


@pytest.mark.native
def test_what_sql_returns_is_drawn():
    with tuskml.connect(threads=2) as con:
        con.execute("CREATE TABLE t AS SELECT sin(i) AS y, [cos(i)] AS x FROM range(500) r(i)")
        options = '{"explain": true, "format": "json"}'
        (model,) = con.execute(
            f"SELECT train_model('linear', y, x, '{options}') FROM t"
        ).fetchone()
        (text,) = con.execute(
            "SELECT explain_training('linear', y, x, '{\"format\": \"json\"}') FROM t"
        ).fetchone()
        trained = tuskml.train(
            con, "linear", source="t", label="y", features="x", explain=True, format="json"
        )
    for given in (model, text, json.loads(text), trained):
        axes = plot_plan(given)
        assert "newton" in axes.get_legend().get_texts()[0].get_text()
        mpl.pyplot.close(axes.figure)


@pytest.mark.parametrize("given", [3, "newton", "{}", {"plan": "newton"}, {"explanation": 2}])
def test_what_is_no_explanation_is_named(given):
    with pytest.raises(ValueError, match=r"explanation is .*, expected what explain_training"):
        plot_plan(given)


def test_a_plan_without_rivals_cannot_be_drawn():
    with pytest.raises(ValueError, match="had one candidate"):
        plot_plan(explanation())
