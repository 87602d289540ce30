"""Drift of new rows from a reference: against SciPy and the definition, and on the page."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outline import Outline
from scipy.stats import ks_2samp

import tuskml
from tuskml import DataError
from tuskml.api.drift import LEAST_SHARE, drifts, index_of
from tuskml.commands.cli import main
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.sources import find_source, scope_of

ROWS = """
CREATE TABLE old AS SELECT i AS id, sin(i) AS x, ['a', 'b', 'c'][1 + i % 3] AS k,
    i % 2 = 0 AS even, CASE WHEN i % 10 = 0 THEN NULL ELSE i % 7 END AS holes,
    3 * sin(i) AS y FROM range(600) t(i);
CREATE TABLE new AS SELECT id, x + 0.5 AS x, CASE WHEN id % 4 = 0 THEN 'd' ELSE k END AS k, even,
    holes, y FROM old WHERE id > 100;
CREATE TABLE models AS SELECT train_model('linear', y, {'x': x, 'k': k, 'even': even}) AS model
    FROM old;
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drift") / "some.duckdb"
    with tuskml.connect(path) as con:
        con.execute(ROWS)
    return path


def found_in(path: Path, texts: list[str]) -> dict:
    with tuskml.connect(path) as con:
        database = DuckDB(con)
        new, old = (scope_of(database, find_source(database, name)) for name in ("new", "old"))
        return {one.name: one for one in drifts(new, old, texts)}


def test_numbers_and_texts(database: Path) -> None:
    found = found_in(database, ["even", "x", "k", "holes", "2 * x"])
    assert next(iter(found)) in ("x", "2 * x"), "the furthest is first"
    with tuskml.connect(database) as con:
        old, new = (con.execute(f"FROM {name}").df() for name in ("old", "new"))
    assert found["x"].ks == pytest.approx(ks_2samp(old["x"], new["x"]).statistic)
    assert found["2 * x"].psi == pytest.approx(found["x"].psi)
    cuts = np.quantile(old["x"], np.linspace(0, 1, 11)[1:-1])
    bins = [np.bincount(np.searchsorted(cuts, one["x"]), minlength=10) for one in (old, new)]
    shares = [np.maximum(counts / counts.sum(), LEAST_SHARE) for counts in bins]
    exact = float(((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum())
    assert found["x"].psi == pytest.approx(exact, rel=0.02)  # a cut is at a row or between two
    before, after = (one["k"].value_counts(normalize=True) for one in (old, new))
    pairs = [(before.get(k, LEAST_SHARE), after.get(k, LEAST_SHARE)) for k in "abcd"]
    assert found["k"].psi == pytest.approx(sum((b - a) * math.log(b / a) for a, b in pairs))
    assert found["k"].ks is None
    assert found["holes"].missing == pytest.approx((0.1, new["holes"].isna().mean()))
    assert found["even"].psi < 0.01


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6))
def test_an_index_is_0_for_equal_shares_alone(counts: list[tuple[int, int]]) -> None:
    found = index_of(counts)
    old, new = sum(a for a, _ in counts), sum(b for _, b in counts)
    if not old or not new:
        assert found is None
        return
    assert found == pytest.approx(index_of([(b, a) for a, b in counts]))
    assert (found < 1e-12) == all(a * new == b * old for a, b in counts)


def test_what_cannot_be_compared_is_named(database: Path) -> None:
    with pytest.raises(DataError, match="names column 'z'"):
        found_in(database, ["x", "z"])
    with pytest.raises(DataError, match=r"feature '\[x\]' is an array"):
        found_in(database, ["[x]"])


def test_the_page_has_the_furthest_column_first(database: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    given = ["report", str(database), "--rows", "new", "--label", "y", "--output", str(path)]
    assert main([*given, "--reference", "old"]) == 0
    text = path.read_text()
    section = text[text.index('<section id="drift"') :].partition("</section>")[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', section) == ["x", "k", "even"]
    assert "✕ much" in section
    assert 'href="#drift"' in text
    assert main(given) == 0
    assert "Drift" not in Outline(path.read_text()).text
    assert main(["report", str(database), "--reference", "old", "--output", str(path)]) == 1


def test_models_with_histograms_are_their_own_reference(database: Path, tmp_path: Path) -> None:
    """Without --reference; the numbers are those of the rows that the models were trained on."""
    with tuskml.connect(database) as con:
        con.execute("""
            CREATE TABLE kept AS SELECT even AS g, train_model('linear', y, {'x': x, 'k': k},
                {'histogram': true}) AS model FROM old GROUP BY even;
            CREATE TABLE rows AS SELECT *, even AS g FROM new;
        """)
    path = tmp_path / "page.html"
    given = ["report", str(database), "--rows", "rows", "--label", "y", "--output", str(path)]
    assert main([*given, "--models", "kept", "--group-by", "g"]) == 0
    text = path.read_text()
    section = text[text.index('<section id="drift"') :].partition("</section>")[0]
    lines = re.findall(r'<th scope="row">(.*?)</th>', section)
    assert set(lines) == {"x (True)", "x (False)", "k (True)", "k (False)"}
    assert lines[0] == "k (True)", "half of these rows have a new level"
    assert re.search(r"0\.\d+ to 0\.\d+", section), "the bounds of KS"
    with tuskml.connect(database) as con:
        (exact,) = con.execute(
            "SELECT psi(fresh, x) FROM (SELECT false AS fresh, x FROM old WHERE even "
            "UNION ALL SELECT true, x FROM new WHERE even)"
        ).fetchone()
    row = section[section.index("x (True)") :].partition("</tr>")[0]
    assert f"{exact:.3g}"[:4] in row
