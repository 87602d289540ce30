"""The notebook of docs/ runs and shows what it showed; `%%sql` cells work in both databases."""

import base64
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import tuskml

KEPT = ("text/plain", "text/html", "image/png")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")
VARIES = ("model/s]", "iterations")
"""Lines with one of these tell of time."""


def tidy(notebook: Any) -> Any:
    """The notebook without what differs from run to run, or no page can show."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(tidy_output, cell.outputs) if output]
    return notebook


def tidy_output(output: Any) -> Any:
    """One output; None for the noise of libraries."""
    if output.output_type == "stream":
        output.text = "".join(line for line in output.text.splitlines(True) if "toml" not in line)
        return output if output.text.strip() else None
    if "data" in output:
        if any("widget" in kind for kind in output.data):  # needs a running kernel
            return None
        output.data = {kind: item for kind, item in output.data.items() if kind in KEPT}
        output.metadata.clear()
    return output


def texts(cell: Any) -> list[str]:
    """What a cell printed and showed, as text, line by line."""
    found = []
    for output in cell.get("outputs", []):
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        found += [line for line in text.splitlines() if not any(v in line for v in VARIES)]
    return found


def pictures(cell: Any) -> list[bytes]:
    return [
        base64.b64decode(output["data"]["image/png"])
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]


@pytest.mark.nightly
def test_the_notebook_shows_what_it_showed(root: Path, tmp_path: Path, monkeypatch) -> None:
    # jsonschema checks IRIs by it, and its grammar takes seconds to compile.
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", None)
    import nbformat
    from nbclient import NotebookClient

    path = root / "docs" / "notebook.ipynb"
    notebook = nbformat.read(path, as_version=4)
    shown = [(texts(cell), len(pictures(cell))) for cell in notebook.cells]
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}})
    tidy(client.execute())
    if os.environ.get("TUSKML_WRITE"):
        nbformat.write(notebook, path)
        return
    for cell, (lines, n_pictures) in zip(notebook.cells, shown, strict=True):
        assert_alike(texts(cell), lines)
        assert len(pictures(cell)) == n_pictures, cell.source
    assert sum(n for _, n in shown) >= 5


def assert_alike(now: list[str], before: list[str]) -> None:
    """Equal but for the last digits of numbers."""
    message = "run this test with TUSKML_WRITE=1"
    assert [NUMBER.sub("#", line).split() for line in now] == [
        NUMBER.sub("#", line).split() for line in before
    ], message
    for one, other in zip(now, before, strict=True):
        np.testing.assert_allclose(
            [float(number) for number in NUMBER.findall(one)],
            [float(number) for number in NUMBER.findall(other)],
            rtol=0.03,
            atol=0.02,
            err_msg=message,
        )


def test_the_notebook_is_kept_tidy(root: Path) -> None:
    import nbformat

    text = (root / "docs" / "notebook.ipynb").read_text()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert len(text) < 500_000
    assert "/root/" not in text
    assert "/tmp/" not in text
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            assert output.get("name") != "stderr", cell.source
            assert set(output.get("data", {})) <= set(KEPT)
        for picture in pictures(cell):
            assert picture.startswith(b"\x89PNG")


def forget_sql() -> None:
    """JupySQL and the checkout's folder are both called `sql`: neither is to be taken for it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sql"]:
        del sys.modules[name]


@pytest.fixture
def shell(root: Path, tmp_path: Path, monkeypatch) -> Iterator[InteractiveShell]:
    """IPython in this process, with JupySQL."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p).resolve() != root])
    forget_sql()
    made = InteractiveShell.instance()
    try:
        run(made, "%load_ext sql")
        run(made, "%config SqlMagic.autopandas = True")
        run(made, "%config SqlMagic.displaycon = False")
        yield made
    finally:
        InteractiveShell.clear_instance()
        forget_sql()


def run(shell: InteractiveShell, cell: str) -> Any:
    """A cell's result; its error, if it has one, is raised."""
    done = shell.run_cell(cell)
    done.raise_error()
    return done.result


TRAIN = """%%sql
CREATE TABLE models AS
SELECT g, train_model('linear', y, {}, '{{"l2": 0.001}}') AS model FROM points GROUP BY g
"""
SHOW = "%%sql\nSELECT g, (model).status AS status FROM models ORDER BY g"
PREDICT = """%%sql
SELECT count(predict(model, {})) AS n FROM points JOIN models USING (g)
"""


def test_sql_cells_in_duckdb(shell: InteractiveShell, con) -> None:
    shell.push({"con": con})
    run(shell, "%sql con --alias duck")
    run(shell, "%%sql\nCREATE TABLE points AS SELECT i % 3 AS g, i AS x, 2 * i AS y "
               "FROM range(30) t(i)")  # fmt: skip
    run(shell, TRAIN.format("[x]"))
    shown = run(shell, SHOW)
    assert shown["g"].tolist() == [0, 1, 2]
    assert shown["status"].tolist() == ["ok"] * 3
    assert run(shell, PREDICT.format("[x]"))["n"].tolist() == [30]
    models = tuskml.evaluate(con, "models", source="points", label="y", features="x", group_by="g")
    assert sorted(models) == [0, 1, 2], "Python sees what the cells made"
    run(shell, "%sql --close duck")


def test_sql_cells_see_frames(shell: InteractiveShell) -> None:
    """JupySQL turns this on for DuckDB itself, but does not know DuckDB 2.0's connections."""
    manual = (Path(__file__).parents[3] / "docs" / "python.md").read_text()
    made = "con = tuskml.connect(python_scan_all_frames=True)"
    assert made in manual
    run(shell, f"import tuskml, pandas, polars\n{made}")
    run(shell, "%sql con --alias frames")
    for kind in ("pandas", "polars"):
        run(shell, f"points = {kind}.DataFrame({{'x': [1.0, 2, 4], 'y': [2.0, 4, 8]}})")
        query = "SELECT round((train_model('linear', y, [x])).coef[1]) AS slope FROM points"
        assert run(shell, f"%%sql\n{query}")["slope"].tolist() == [2]
    run(shell, "%sql --close frames")


def test_sql_cells_in_postgres(shell: InteractiveShell, cluster) -> None:
    cluster.create_database("tusk_notebook")
    try:
        url = (
            f"postgresql+psycopg://postgres@/tusk_notebook?host={cluster.folder}"
            f"&port={cluster.port}"
        )
        run(shell, f"%sql {url} --alias pg")
        run(shell, "%%sql\nCREATE TABLE points AS SELECT i % 3 AS g, i AS x, 2 * i AS y "
                   "FROM generate_series(0, 29) t(i)")  # fmt: skip
        run(shell, TRAIN.format("ARRAY[x]"))
        shown = run(shell, SHOW)
        assert shown["g"].tolist() == [0, 1, 2]
        assert shown["status"].tolist() == ["ok"] * 3
        assert run(shell, PREDICT.format("ARRAY[x::float8]"))["n"].tolist() == [30]
        run(shell, "%sql --close pg")
    finally:
        cluster.drop_database("tusk_notebook")


def test_the_bar_is_as_wide_as_a_notebook(monkeypatch) -> None:
    from tqdm.notebook import tqdm as in_notebook

    from tuskml import progress

    widths = []

    class Bar(in_notebook):
        def __init__(self, **given: Any) -> None:
            widths.append(given.get("ncols"))
            super().__init__(**given, display=False)

    monkeypatch.setattr(sys.modules["tuskml.api.progress_bar"], "tqdm", Bar)
    with progress(groups=1), tuskml.connect() as con:
        con.execute("SELECT train_model('linear', x, [x]) FROM range(9) t(x)").fetchall()
    assert widths == [None]


def test_the_bar_counts_rows_while_they_are_read(monkeypatch) -> None:
    """The rows come from a function that waits until the first of them are shown."""
    from tqdm import tqdm

    from tuskml import progress

    shown: list[dict[str, Any]] = []
    seen = threading.Event()

    class Bar(tqdm):
        def set_postfix(self, *_: Any, **given: Any) -> None:
            shown.append(given)
            if "rows" in given:
                seen.set()

    def slowly(x: int) -> int:
        if x == 20000:
            assert seen.wait(60), "no row is shown while rows are read"
        return x

    monkeypatch.setattr(sys.modules["tuskml.api.progress_bar"], "tqdm", Bar)
    with tuskml.connect(threads=1) as con:
        con.create_function("slowly", slowly, ["BIGINT"], "BIGINT")
        with progress(groups=1):
            con.execute("SELECT train_model('linear', slowly(x), [x % 7]) FROM range(50000) t(x)")
            con.fetchall()
    counts = [int(given["rows"].replace(",", "")) for given in shown if "rows" in given]
    assert counts == sorted(set(counts))
    assert 0 < counts[0] <= 20000
    assert counts[-1] <= 50000
    assert "rows" not in shown[-1], "then iterations are"
