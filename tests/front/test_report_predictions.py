"""`tuskml report --rows`: curves and metrics of predictions on the page."""

import re
from pathlib import Path

import pytest

import tuskml
from tuskml.commands.cli import main
from tuskml.report.predictions import predictions


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A database with trips, and models that are one, by city and of a number."""
    path = str(tmp_path / "trips.duckdb")
    with tuskml.connect(path, threads=1) as con:
        con.execute(
            "CREATE TABLE trips AS SELECT i % 3 AS city, i * 7919 % 97 / 10 AS x,"
            " i * 7919 % 97 + 40 * sin(i * 12.9898) > 50 AS late FROM range(600) t(i)"
        )
        given = {"source": "trips", "features": ["x"], "l2": 0.01}
        tuskml.train(con, "logistic", label="late", into="one", **given)
        tuskml.train(con, "logistic", label="late", group_by="city", into="models", **given)
        tuskml.train(con, "linear", label="late::INT", into="numbers", **given)
    return path


def made(file: str, tmp_path: Path, *more: str) -> str:
    out = tmp_path / "report.html"
    assert main(["report", file, "--features", "x", "--output", str(out), *more]) == 0
    return out.read_text()


@pytest.mark.sample(1)
@pytest.mark.parametrize(("models", "groups"), [("one", 1), ("models", 3)])
def test_curves_of_each_group(file: str, tmp_path: Path, models: str, groups: int) -> None:
    page = made(file, tmp_path, "--models", models, "--rows", "trips", "--label", "late")
    section = re.search(r'<section id="predictions".*?</section>', page, re.DOTALL)
    assert section is not None
    assert section[0].count("<figure>") == 4
    assert section[0].count('class="curve series-') == 4 * groups
    assert section[0].count("<tr><th") == 1 + groups
    assert '<a href="#predictions">' in page
    with tuskml.connect(file) as con:
        auc = tuskml.evaluate(con, models, source="trips", label="late", features="x",
                              **({"group_by": "city"} if groups > 1 else {}))  # fmt: skip
    shown = auc if groups == 1 else auc[2]
    assert f"<td>{shown['auc']:.5g}</td>" in section[0]


def test_numbers_have_metrics_and_deciles(file: str, tmp_path: Path) -> None:
    page = made(file, tmp_path, "--models", "numbers", "--rows", "trips", "--label", "late::INT")
    section = re.search(r'<section id="predictions".*?</section>', page, re.DOTALL)
    assert section is not None
    assert section[0].count("<figure>") == 1
    assert "Calibration by deciles" in section[0]
    assert ">rmse<" in section[0]


def test_many_classes_have_a_table_of_confusion(file: str, tmp_path: Path) -> None:
    with tuskml.connect(file) as con:
        con.execute(
            "CREATE TABLE ages AS "
            "SELECT *, ['new', 'old', '<b>'][1 + (x // 4 % 3)::INT] AS age FROM trips"
        )
        tuskml.train(
            con, "logistic", source="ages", label="age", features=["x"], into="many", l2=0.01
        )
        cells = tuskml.evaluate(
            con, "many", source="ages", label="age", features=["x"], curves=True
        )
    page = made(file, tmp_path, "--models", "many", "--rows", "ages", "--label", "age")
    section = re.search(r'<section id="predictions".*?</section>', page, re.DOTALL)
    assert section is not None
    assert "Predicted classes: a row a label" in section[0]
    assert "&lt;b&gt;" in section[0]
    assert "<b>" not in section[0]
    assert ">f1_macro<" in section[0]
    for cell in cells["confusion"]:
        assert f"<td>{cell['n']}</td>" in section[0]


def test_without_rows_there_is_no_section(file: str, tmp_path: Path) -> None:
    assert 'id="predictions"' not in made(file, tmp_path)
    assert predictions({}) == ""


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--rows", "trips"], "--label is not given, expected --rows and --label together"),
        (["--label", "late"], "--rows is not given, expected --rows and --label together"),
        (["--rows", "trips", "--label", "lat"], "lat"),
    ],
)
def test_what_is_missing(file: str, tmp_path: Path, capsys, more: list, sentence: str) -> None:
    out = str(tmp_path / "report.html")
    assert main(["report", file, "--features", "x", "--output", out, *more]) != 0
    assert sentence in capsys.readouterr().err


def test_of_many_groups_the_largest_are_drawn() -> None:
    point = {"threshold": 1.0, "tpr": 1.0, "fpr": 1.0}
    scores = {
        f"group {k}": {"n_rows": k, "auc": 0.5, "roc_curve": [point, point]} for k in range(9)
    }
    text = predictions(scores)
    assert text.count('class="curve series-') == 6
    assert "The curves are of the 6 groups with most rows." in text
    assert text.index("group 8") < text.index("group 3")
