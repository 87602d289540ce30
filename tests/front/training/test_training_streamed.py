"""Stochastic gradient descent by row group: what is read, and that the optimum is the same."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import tuskml
from tuskml import DataError, Model, train
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed import training as streaming
from tuskml.learners.row_groups import Layout, Piece, cut_row_group, lay_out

ROWS = 400_000
GROUP = 4096
FEATURES = ["x0", "x1", "x2"]
MADE = """
SELECT *, noise < 1 / (1 + exp(-(2 * (x0 - 1) + x1 / 5 - 0.3))) AS late,
       3 * x0 - x1 + noise AS fare
FROM (SELECT i, (hash(i) % 10000) / 5000 AS x0, (hash(-i) % 10000) / 500 - 10 AS x1,
             100 + (hash(i * 7 + 1) % 10000) / 100 AS x2,
             (hash(i * 3 + 2) % 10000) / 10000 AS noise
      FROM range({}) t(i))
"""


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of 49 row groups each."""
    folder = tmp_path_factory.mktemp("rows")
    with duckdb.connect() as con:
        made = MADE.format(ROWS)
        for part in range(2):
            con.execute(
                f"COPY (FROM ({made}) WHERE i % 2 = {part}) TO '{folder}/{part}.parquet' "
                f"(FORMAT parquet, ROW_GROUP_SIZE {GROUP})"
            )
    return folder / "*.parquet"


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """All rows, for peers."""
    with duckdb.connect() as con:
        return con.execute(MADE.format(ROWS)).fetchnumpy()


def streamed(source: object, task: str = "logistic", **given: Any) -> Model:
    given = {"label": "late", "features": FEATURES, "algorithm": "sgd"} | given
    return train(":memory:", task, source=source, **given)


def standardised(rows: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    x = np.stack([rows[name] for name in FEATURES], axis=1)
    return x, x.std(axis=0)


@pytest.mark.smoke
def test_a_part_of_the_rows_is_enough(parquet: Path, rows: dict[str, Any]) -> None:
    model = streamed(parquet, epsilon=0.02, l2=0.001)
    counters = model.options["counters"]
    assert (model.status, model.converged, model.classes) == ("ok", True, [0, 1])
    assert counters["rows"] == ROWS
    assert counters["row_groups"] == 98
    assert counters["row_groups_read"] <= 24
    assert counters["rows_read"] == model.n_rows + model.n_skipped
    assert model.n_rows <= ROWS / 4
    x, deviation = standardised(rows)
    peer = LogisticRegression(C=1 / (0.001 * ROWS), tol=1e-8).fit(x / deviation, rows["late"])
    # in these units the curvature is about 1/6 at least: 0.02 of gradient are 0.12 of a weight
    assert np.array(model.coef) * deviation == pytest.approx(peer.coef_[0], abs=0.12)


def test_the_gradient_of_all_rows_is_within_the_tolerance(parquet: Path, rows) -> None:
    """The held-out rows speak for all: epsilon is four of their standard errors."""
    x, deviation = standardised(rows)
    model = streamed(parquet, epsilon=0.02)
    margin = x @ np.array(model.coef) + model.intercept
    residual = 1 / (1 + np.exp(-margin)) - rows["late"]
    z = (x - x.mean(axis=0)) / deviation
    gradient = np.append(residual @ z, residual.sum()) / ROWS
    assert np.abs(gradient).max() <= 0.02 * 1.5


@pytest.mark.nightly
def test_linear_regression_in_units_of_its_label(parquet: Path, rows) -> None:
    x, deviation = standardised(rows)
    peer = LinearRegression().fit(x, rows["fare"])
    size = rows["fare"].std()
    for unit in (1, 1000):
        label = f"{unit} * fare"
        model = streamed(parquet, "linear", label=label, epsilon=0.05, features="[x0, x1, x2]")
        assert model.status == "ok"
        off = (np.array(model.coef) / unit - peer.coef_) * deviation / size
        assert np.abs(off).max() <= 0.05 * 1.5


@pytest.mark.nightly
def test_the_sampler_s_name_chooses_it_too(parquet: Path) -> None:
    named = streamed(parquet, algorithm="auto", sampler="shuffled-partition", epsilon=0.02)
    assert named.coef == streamed(parquet, epsilon=0.02).coef
    assert named.options["sampler"] == "shuffled-partition"
    assert "row groups" in named.plan


@pytest.mark.nightly
def test_the_seed_chooses_the_row_groups(parquet: Path) -> None:
    first, again, other = (streamed(parquet, epsilon=0.02, seed=seed) for seed in (1, 1, 2))
    assert first.coef == again.coef
    assert first.coef != other.coef


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0.0001, "max_iter": 1},  # no sample shows so little
        {"sampler": "sequential", "max_iter": 1},
        {"validation": 0.1, "max_iter": 1},
        {"features": "sparse([0, 1, 2], [x0, x1, x2])", "max_iter": 1},
        {"algorithm": "newton"},
    ],
)
def test_what_needs_all_rows_reads_them(parquet: Path, given: dict) -> None:
    model = streamed(parquet, **given)
    assert model.n_rows == ROWS
    assert "counters" not in model.options


def test_max_iter_counts_chunks(parquet: Path) -> None:
    model = streamed(parquet, epsilon=0, max_iter=2)
    assert (model.iterations, model.status) == (2, "ok")
    assert 2 * streaming.CHUNK_ROWS <= model.n_rows < ROWS
    assert len(model.history) == 2


@pytest.mark.nightly
def test_a_pass_that_ends_begins_again(parquet: Path) -> None:
    chunks = 1 + ROWS // streaming.CHUNK_ROWS + 2
    model = streamed(parquet, epsilon=0, max_iter=chunks)
    counters = model.options["counters"]
    assert counters["row_groups_read"] == 98
    assert counters["rows_read"] > ROWS >= model.n_rows > 0.9 * ROWS


def test_a_table_of_duckdb(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"CREATE TABLE t AS {MADE.format(2_000_000)}")
    given = {"source": "t", "label": "late", "features": FEATURES, "epsilon": 0.02}
    model = train(con, "logistic", algorithm="sgd", **given)
    exact = train(con, "logistic", **given)
    counters = model.options["counters"]
    assert counters["row_groups"] == 17
    assert counters["row_groups_read"] == 4
    assert counters["rows_read"] == model.n_rows < 100_000
    assert model.coef == pytest.approx(exact.coef, abs=0.3)
    con.execute("CREATE VIEW v AS FROM t")
    assert train(
        con, "logistic", algorithm="sgd", max_iter=1, **given | {"source": "v"}
    ).n_rows == (2_000_000)


def test_nulls_are_skipped_and_counted(parquet: Path) -> None:
    model = streamed(parquet, epsilon=0.02, features=["x0", "CASE WHEN i % 8 >= 2 THEN x1 END"])
    assert model.n_skipped / (model.n_rows + model.n_skipped) == pytest.approx(0.25, abs=0.01)


def test_a_rare_feature_and_a_constant_one(parquet: Path) -> None:
    rare = "(i % 9973 = 0)"  # in few chunks or none: its weight is small, not an error
    model = streamed(parquet, epsilon=0.02, features=["x0", rare, "7"])
    assert model.coef[2] == 0
    assert model.status == "constant feature"


def test_the_start_may_be_good_enough(parquet: Path) -> None:
    model = streamed(parquet, epsilon=1)
    assert (model.iterations, model.status, model.coef) == (0, "ok", [0, 0, 0])


@pytest.mark.nightly
def test_a_third_class_is_found_in_any_chunk(parquet: Path) -> None:
    label = "CASE WHEN i % 1013 = 0 THEN 2 ELSE late::INT END"
    with pytest.raises(DataError, match="labels are 0, 1, 2, 'logistic' needs two classes"):
        streamed(parquet, label=label)


@pytest.mark.nightly
def test_one_class_is_the_constant_model(parquet: Path) -> None:
    assert streamed(parquet, label="late OR true").status == "one class"


def test_what_is_not_finite_is_named(parquet: Path) -> None:
    with pytest.raises(DataError, match="feature 1 is infinity"):
        streamed(parquet, features=["(x0 * x0 + 1) / 0.0", "x1"], invalid="error")


def test_time_ends_it(parquet: Path) -> None:
    model = streamed(parquet, epsilon=1e-9, converge="weights", time="0.3s")
    assert model.status == "time limit"


def test_a_cancel_ends_it(parquet: Path) -> None:
    seen = []

    def cancel(event: object) -> None:
        seen.append(event)
        if len(seen) == 2:
            tuskml.cancel()

    from tuskml.learners.events import listening

    with listening(cancel), pytest.raises(tuskml.Interrupted):
        streamed(parquet, epsilon=1e-9, converge="weights")
    assert len(seen) < 10
    assert streamed(parquet, epsilon=0.05).status == "ok"


MEASURED = """
import sys, tuskml
con = tuskml.connect(threads=1)
model = tuskml.train(con, "logistic", source=sys.argv[1], label="late", features="x",
                     algorithm="sgd", epsilon=0, max_iter=int(sys.argv[2]))
assert "counters" in model.options, model.plan
status = open("/proc/self/status").read()
print(status.split("VmHWM:")[1].split()[0], model.options["counters"]["rows_read"])
"""


def peak(path: Path, chunks: int) -> tuple[int, int]:
    """Peak memory in KiB, and rows read, of a process of its own."""
    command = [sys.executable, "-c", MEASURED, str(path), str(chunks)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    *_, size, rows = done.stdout.split()  # a loaded machine shows DuckDB's progress before
    return int(size), int(rows)


@pytest.mark.nightly
def test_memory_is_that_of_a_chunk(tmp_path: Path) -> None:
    """1.5 million rows of 40 DOUBLE, 480 MB unpacked, in the memory of one chunk."""
    path = tmp_path / "wide.parquet"
    wide = ", ".join(["x0", "x1", "x2", "noise"] * 10)
    with duckdb.connect() as con:
        con.execute(
            f"COPY (SELECT late, [{wide}]::DOUBLE[40] AS x FROM ({MADE.format(1_500_000)})) "
            f"TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 20480)"
        )
    (little, some), (much, all_) = peak(path, 1), peak(path, 22)
    assert some < 100_000
    assert all_ > 1_400_000
    assert much - little < 60 * 1024


# --- which row groups ---


def test_every_piece_is_read_once_a_pass() -> None:
    rng = np.random.default_rng(0)
    layout = lay_out([1000] * 40 + [0], 1500, 2000, 400, rng)
    assert layout is not None
    assert sum(piece.n_rows for piece in layout.first) >= 3500
    first = {piece.row_group for piece in layout.first}
    assert len(first) == 4
    chunks = layout.chunks(rng)
    passed = [piece for _ in range(18) for piece in next(chunks)]
    assert sorted(passed, key=str) == sorted(layout.rest, key=str)
    assert {piece.row_group for piece in passed} == set(range(40)) - first


def test_a_large_row_group_is_cut() -> None:
    pieces = list(cut_row_group(3, 1001, 400))
    assert [piece.first for piece in pieces] == [0, 333, 667]
    assert sum(piece.n_rows for piece in pieces) == 1001


@pytest.mark.parametrize("sizes", [[], [10], [0, 0], [1000] * 7, [10] * 100])
def test_few_row_groups_are_read_whole(sizes: list[int]) -> None:
    assert lay_out(sizes, 500, 500, 400, np.random.default_rng(0)) is None


def test_a_pass_has_at_least_one_chunk() -> None:
    assert Layout((), (Piece(0, 0, 5),), 10).chunks_in_a_pass() == 1


def auto(source: object, **given: Any) -> Model:
    return streamed(source, algorithm="auto", **given)


@pytest.fixture
def few_are_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if trainings to 0.01 read 40,000 rows, of which they take 8,192 at a time."""
    monkeypatch.setattr(skipping, "USUAL_ROWS", 40_000)
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 8192)


@pytest.mark.nightly
def test_auto_skips_where_the_tolerance_needs_few_rows(parquet: Path, few_are_usual: None) -> None:
    model = auto(parquet, epsilon=0.02, l2=0.001)
    assert model.converged
    assert model.plan.startswith(("mgd", "sgd"))  # whichever steps cost less here
    assert model.options["counters"]["row_groups_read"] <= 24
    assert model.options["counters"]["row_groups_read"] > skipping.FEW_ROW_GROUPS
    again = auto(parquet, epsilon=0.02, l2=0.001)
    assert again.coef == model.coef


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"epsilon": 1e-6},
        {"epsilon": 0.02, "l1": 0.01},
        {"epsilon": 0.02, "time": "1h"},
        {"epsilon": 0.02, "max_iter": 50},
        {"epsilon": 0.02, "converge": "loss"},
    ],
)
def test_auto_reads_all_rows_where_skipping_is_no_match(
    parquet: Path, few_are_usual: None, given: dict[str, Any]
) -> None:
    model = auto(parquet, **given)
    assert "counters" not in model.options
    assert model.n_rows == ROWS


def test_auto_reads_all_rows_of_small_tables(parquet: Path) -> None:
    """Half a million rows are usual at 0.02, and a third of these are fewer."""
    assert auto(parquet, epsilon=0.02).n_rows == ROWS


@pytest.mark.nightly
def test_auto_gives_up_after_a_third(
    parquet: Path, few_are_usual: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And trains on all rows: the optimum of all is within the tolerance."""
    read: list[int] = []
    count = streaming.Reader._count

    def counted(self: Any, pieces: Any, found: Any) -> None:
        count(self, pieces, found)
        read.append(sum(piece.n_rows for piece in pieces))

    monkeypatch.setattr(streaming.Reader, "_count", counted)
    monkeypatch.setattr(streaming, "MeanOfEpoch", NeverThere)
    model = auto(parquet, epsilon=0.02)
    assert model.converged
    assert model.n_rows == ROWS
    assert "counters" not in model.options
    assert 0 < sum(read) <= ROWS / 3 + 2 * streaming.CHUNK_ROWS


class NeverThere(streaming.MeanOfEpoch):
    """Held-out rows on which no tolerance is met."""

    def __call__(self, part: Any, state: Any) -> Any:
        found = super().__call__(part, state)
        return None if found is None else replace(found, violation=found.violation + 1)


RARE = """
SELECT *, (noise < {share} * exp(x0 - x1 / 2 - 0.625))::INT AS event
FROM (SELECT sqrt(-2 * ln((1 + hash(i) % 1000000) / 1000001)) * cos(6.283185 * (hash(-i) % 100003) / 100003) AS x0,
             sqrt(-2 * ln((1 + hash(i) % 1000000) / 1000001)) * sin(6.283185 * (hash(-i) % 100003) / 100003) AS x1,
             (hash(i * 3 + 2) % 10000000) / 10000000 AS noise
      FROM range({rows}) t(i))
"""  # noqa: E501, SQL
"""Of independent normal numbers; the log of the odds is nearly x0 - x1 / 2 + log(share)."""


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("algorithm", ["sgd", "mgd", "auto"])
@pytest.mark.parametrize("share", [0.1, 0.004])
def test_rare_events(tmp_path: Path, few_are_usual: None, share: float, algorithm: str) -> None:
    """An absolute tolerance would hold where the training starts, and leave the constant model."""
    with duckdb.connect() as con:
        made = RARE.format(share=share, rows=ROWS)
        con.execute(f"COPY ({made}) TO '{tmp_path}/rare.parquet' (ROW_GROUP_SIZE {GROUP})")
    given = {"label": "event", "features": ["x0", "x1"], "source": tmp_path / "rare.parquet"}
    model = train(":memory:", "logistic", algorithm=algorithm, epsilon=0.01, **given)
    best = train(":memory:", "logistic", **given)
    np.testing.assert_allclose(model.coef, best.coef, atol=0.1)
    if share == 0.1 and algorithm != "auto":  # which leaves few rows to try on
        assert model.status == "ok"
        assert model.options["counters"]["rows_held_out"] > 80_000
    else:  # what is rarer asks for all rows
        assert "counters" not in model.options
