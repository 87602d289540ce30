"""The eleven plans of Kaoudi et al. (SIGMOD 2017, figure 5): by options, by `auto`, and what they
read, in both databases."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from sklearn.linear_model import LogisticRegression

import tuskml
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed import training as streaming
from tuskml.learners.machine import constants, reading

N, GROUP = 400_000, 4096
EPSILON, L2 = 0.02, 0.001
PLANS = [("bgd", "eager", None)]
PLANS += [(a, "eager", s) for a in ("mgd", "sgd") for s in ("shuffled-partition", "random-partition", "bernoulli")]  # fmt: skip  # noqa: E501
PLANS += [(a, "lazy", s) for a in ("mgd", "sgd") for s in ("shuffled-partition", "random-partition")]  # fmt: skip  # noqa: E501
FEATURES = ["x0", "x1"]
MADE = """
SELECT *, noise < 1 / (1 + exp(-(1.2 * x0 - 0.8 * x1 - 0.3))) AS late
FROM (SELECT i, {x0} AS x0, {x1} AS x1, {noise} AS noise FROM {rows}) AS drawn
"""


def made(of_hash: str, rows: str) -> str:
    """The same rows in either database, but for its hash."""

    def uniform(k: int) -> str:
        return of_hash.format(f"i * 5 + {k}")

    x0, x1 = (f"(2 * {uniform(k)} + 2 * {uniform(k + 1)} - 2)" for k in (0, 2))
    return MADE.format(x0=x0, x1=x1, noise=uniform(4), rows=rows)


IN_DUCKDB = made("(hash({}) % 10007 / 10007)", f"range({N}) AS t(i)")
IN_POSTGRES = made(
    "((hashint8({}) & 1048575) / 1048576.0::float8)", f"generate_series(1, {N}) AS i"
)
ROWS = f"CREATE TABLE plans WITH (autovacuum_enabled = false) AS {IN_POSTGRES}; ANALYZE plans"
"""What the database of PostgreSQL has."""


class Rows:
    """Features and labels, and the least objective, which scikit-learn finds once."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y
        peer = LogisticRegression(C=1 / (L2 * len(y)), tol=1e-10).fit(x, y)
        self.least = self.objective(peer.coef_[0], peer.intercept_[0])

    def objective(self, w: np.ndarray, b: float) -> float:
        margin = np.where(self.y, 1, -1) * (self.x @ w + b)
        return float(np.logaddexp(0, -margin).mean() + L2 / 2 * w @ w)

    def excess(self, model: tuskml.Model) -> float:
        """The objective of a model above the least one."""
        return self.objective(np.asarray(model.coef, float), model.intercept) - self.least


MOST_EXCESS = 3 * (1.5 * EPSILON) ** 2 / (2 * 0.1)
"""Three components of the gradient, 1.5 times the tolerance each for the rows that are held out;
the curvature of this problem is above 0.1 in all directions."""


def check(model: tuskml.Model, plan: tuple[str, str, str | None], rows: Rows) -> None:
    """It ran by the plan that was asked for, and is at the optimum within its tolerance."""
    algorithm, transform, sampler = plan
    assert model.status == "ok"
    assert model.options["algorithm"] == algorithm
    assert ("counters" in model.options) == (transform == "lazy")
    if sampler is not None and (transform == "lazy" or sampler != "shuffled-partition"):
        assert model.options["sampler"] == sampler
    assert (model.n_rows < N / 2) == (transform == "lazy")
    assert rows.excess(model) < MOST_EXCESS


def options_of(plan: tuple[str, str, str | None]) -> dict[str, Any]:
    algorithm, transform, sampler = plan
    given = {"algorithm": algorithm, "transform": transform, "epsilon": EPSILON, "l2": L2}
    return given if sampler is None else given | {"sampler": sampler}


@pytest.fixture(scope="module")
def rows() -> Rows:
    with duckdb.connect() as con:
        found = con.execute(IN_DUCKDB).fetchnumpy()
    return Rows(np.stack([found["x0"], found["x1"]], axis=1), found["late"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """98 row groups."""
    path = tmp_path_factory.mktemp("plans") / "rows.parquet"
    with duckdb.connect() as con:
        con.execute(f"COPY ({IN_DUCKDB}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {GROUP})")
    return path


@pytest.mark.sample(4)
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: " ".join(map(str, plan)))
def test_each_reaches_the_optimum_in_duckdb(path: Path, rows: Rows, plan: Any) -> None:
    given = options_of(plan)
    model = tuskml.train(
        ":memory:", "logistic", source=path, label="late", features=FEATURES, **given
    )
    check(model, plan, rows)


@pytest.mark.nightly
def test_each_reaches_the_optimum_in_postgres(pg: psycopg.Connection) -> None:
    found = np.array(pg.execute("SELECT x0, x1, late::int FROM plans").fetchall(), float)
    rows = Rows(found[:, :2], found[:, 2] > 0)
    for plan in PLANS:
        model = tuskml.train(
            pg, "logistic", source="plans", label="late", features=FEATURES, **options_of(plan)
        )
        check(model, plan, rows)


# --- by auto, where a constant of the machine is another one ---

SLOW = reading.Reading(page=0.05)
NO_SEEKS = reading.Reading(page=0.05, seek=1e-12, query=dict.fromkeys(reading.KINDS, 1e-12))
SLOW_TO_ASK = reading.Reading(query=dict.fromkeys(reading.KINDS, 1000.0))


@pytest.fixture
def few_are_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if trainings to 0.01 read 40,000 rows, of which they take 10,000 at a time."""
    monkeypatch.setattr(skipping, "USUAL_ROWS", 40_000)
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 10_000)


def slowed(monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    """As if an epoch of this algorithm took a million times as long."""
    known = constants.of_host()
    passes = dict(known.passes)
    passes[algorithm] = {
        storage: tuple((x, 1e6 * y) for x, y in table)
        for storage, table in passes[algorithm].items()
    }
    found = constants.Constants(**(vars(known) | {"passes": passes}))
    monkeypatch.setattr(constants, "of_host", lambda: found)


@pytest.mark.parametrize("in_sql", [False, True])
@pytest.mark.parametrize(
    ("group", "slow", "reads", "expected"),
    [
        (GROUP, "sgd", SLOW, ("mgd", "lazy", "shuffled-partition")),
        (GROUP, "mgd", SLOW, ("sgd", "lazy", "shuffled-partition")),
        (None, "sgd", NO_SEEKS, ("mgd", "lazy", "random-partition")),
        (None, "mgd", NO_SEEKS, ("sgd", "lazy", "random-partition")),
        (GROUP, "sgd", SLOW_TO_ASK, None),
    ],
)
def test_auto_takes_the_cheapest(
    path: Path,
    rows: Rows,
    few_are_usual: None,
    monkeypatch: pytest.MonkeyPatch,
    in_sql: bool,
    group: int | None,
    slow: str,
    reads: reading.Reading,
    expected: tuple[str, str, str] | None,
) -> None:
    """group: of a Parquet file; None: a table whose row groups are large, where runs read less."""
    monkeypatch.setattr(reading, "of_host", lambda: reads)
    slowed(monkeypatch, slow)
    con = tuskml.connect()
    if group is None:
        con.execute(f"CREATE TABLE trips AS {IN_DUCKDB} ORDER BY i")
        train = trained_in_sql if in_sql else trained
        model = train(con, "trips")
    else:
        model = (trained_in_sql if in_sql else trained)(con, str(path))
    assert model.converged
    if expected is None:
        assert model.n_rows == N
        assert "reading" not in model.options
        return
    check(model, expected, rows)
    told = model.options["reading"]
    assert told["bytes"] == model.options["counters"]["bytes_read"]
    assert told["seconds"] > 0
    assert told["seconds_estimated"] > 0


def trained(con: Any, source: str, **more: Any) -> tuskml.Model:
    given = {"epsilon": EPSILON, "l2": L2} | more
    return tuskml.train(con, "logistic", source=source, label="late", features=FEATURES, **given)


def sql_of(source: str, **more: Any) -> str:
    given = {"epsilon": EPSILON, "l2": L2} | more
    named = f"''{source}''" if source.endswith(".parquet") else source
    call = f"'{named}', 'logistic', 'late', ['x0', 'x1'], options := '{json.dumps(given)}'"
    return f"SELECT * FROM train({call})"


def trained_in_sql(con: Any, source: str, **more: Any) -> tuskml.Model:
    found = con.execute(sql_of(source, **more))
    names = [column[0] for column in found.description]
    return tuskml.Model.of(dict(zip(names, found.fetchall()[0], strict=True)))


# --- what they read, by another count ---


def characters_read() -> int:
    """Bytes that this process has read from files, by the system's count."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A column more than is read, in 20 row groups."""
    path = tmp_path_factory.mktemp("wide") / "rows.parquet"
    rows = f"SELECT *, hash(i)::VARCHAR AS unread FROM ({IN_DUCKDB})"
    duckdb.sql(f"COPY ({rows}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 20480)")
    return path


@pytest.mark.sample(1)
@pytest.mark.parametrize("train", [trained, trained_in_sql])
@pytest.mark.parametrize("sampler", ["shuffled-partition", "random-partition"])
def test_bytes_of_a_file_are_those_that_the_system_counts(
    wide: Path, train: Callable[..., tuskml.Model], sampler: str
) -> None:
    """Of what later chunks read: the footer, with the sizes, is read by all trainings alike."""
    with tuskml.connect(threads=1) as con:

        def read(chunks: int) -> tuple[int, int]:
            given = {"algorithm": "sgd", "sampler": sampler, "epsilon": 0, "max_iter": chunks}
            before = characters_read()
            counters = train(con, str(wide), **given).options["counters"]
            assert counters["bytes"] < 0.6 * wide.stat().st_size  # one column is not read
            return characters_read() - before, counters["bytes_read"]

        read(1)  # loads what is loaded once
        (few, counted_few), (many, counted_many) = read(1), read(3)
    assert counted_few < few < counted_few + wide.stat().st_size / 10
    assert counted_many - counted_few == pytest.approx(many - few, rel=0.1)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """15 times the rows, of 17 bytes each."""
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    rows = made("(hash({}) / 18446744073709551616.0)", f"range({15 * N}) AS t(i)")
    wide = f"COPY (SELECT x0, x1, late FROM ({rows})) TO '{path}'"
    duckdb.sql(f"{wide} (FORMAT parquet, ROW_GROUP_SIZE 24576)")
    return path


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("train", [trained, trained_in_sql])
def test_auto_reads_a_twentieth_of_a_file(
    large: Path, train: Callable[..., tuskml.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the counter, and by the system's count less the footers, which planning alone reads."""

    def read(call: Callable[[], Any]) -> tuple[int, Any]:
        before, found = characters_read(), call()
        return characters_read() - before, found

    with tuskml.connect(threads=1) as con:
        query = f"SELECT sum(total_compressed_size) FROM parquet_metadata('{large}')"
        size = con.execute(query).fetchall()[0][0]
        train(con, str(large), epsilon=0.05)  # loads what is loaded once
        explained = f"EXPLAIN {sql_of(str(large), epsilon=0.05)}"
        footers, _ = read(lambda: con.execute(explained).fetchall())
        seen, model = read(lambda: train(con, str(large), epsilon=0.05))
        monkeypatch.setattr(skipping, "USUAL_ROWS", 1e12)
        whole, every = read(lambda: train(con, str(large), epsilon=0.05))
    counters = model.options["counters"]
    assert (model.converged, counters["bytes"]) == (True, size)
    assert 0 < counters["bytes_read"] <= size / 20
    assert counters["bytes_read"] < seen <= footers + size / 20
    assert (every.n_rows, whole > 0.9 * size) == (15 * N, True)  # without that choice


@pytest.mark.nightly
def test_bytes_of_a_table_in_a_file_are_those_of_its_blocks(tmp_path: Path) -> None:
    """Ten row groups of 122,880 rows, of which some columns are in two blocks of 256 KiB."""
    with tuskml.connect(f"{tmp_path}/rows.duckdb", threads=1) as con:
        many = IN_DUCKDB.replace(f"range({N})", f"range({3 * N})")
        con.execute(f"CREATE TABLE trips AS {many} ORDER BY i")
        con.execute("CHECKPOINT")
    with tuskml.connect(f"{tmp_path}/rows.duckdb", threads=1) as con:
        before = characters_read()
        counters = trained(con, "trips", algorithm="sgd").options["counters"]
        read = characters_read() - before
    assert counters["row_groups_read"] < counters["row_groups"] == 10
    assert read / 2 < counters["bytes_read"] < 2 * read


def test_bytes_in_postgres_are_those_of_blocks_that_the_server_read(
    pg: psycopg.Connection,
) -> None:
    trained(pg, "plans", algorithm="sgd")
    before = blocks_read(pg)
    counters = trained(pg, "plans", algorithm="sgd").options["counters"]
    assert counters["bytes_read"] == pytest.approx(8192 * (blocks_read(pg) - before), rel=0.1)
    ((size,),) = pg.execute("SELECT pg_relation_size('plans')").fetchall()
    assert counters["bytes"] == size


def blocks_read(pg: psycopg.Connection) -> int:
    """Blocks of the table that the server has looked at."""
    pg.execute("SELECT pg_stat_force_next_flush()")
    query = "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE relname = %s"
    ((found,),) = pg.execute(query, ("plans",)).fetchall()
    return int(found)


def test_an_explanation_has_all_plans_and_what_was_read(
    path: Path, few_are_usual: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "of_host", lambda: SLOW)
    with tuskml.connect() as con:
        model = trained(con, str(path), explain=True, format="json")
        lines = trained_in_sql(con, str(path), explain=True).plan.splitlines()
    told = json.loads(model.plan)
    names = {one["algorithm"] for one in told["candidates"]}
    assert {f"{a} {t} {s}" for a, t, s in PLANS if s} | {"bgd on all rows"} <= names
    (chosen,) = [one for one in told["candidates"] if one["chosen"]]
    whole = next(one for one in told["candidates"] if one["algorithm"] == "bgd on all rows")
    assert chosen["read_bytes"] < whole["read_bytes"] == told["bytes"]
    assert told["actual"]["read_bytes"] == model.options["counters"]["bytes_read"]
    assert lines[0].startswith("logistic: minimise mean log(1 + exp(-y m))")
    assert any("lazy shuffled-partition" in line and line.endswith("chosen") for line in lines)


def test_a_plan_that_is_asked_for_is_explained_too(path: Path) -> None:
    with tuskml.connect() as con:
        told = json.loads(
            trained(con, str(path), algorithm="sgd", explain=True, format="json").plan
        )
    assert told["plan"]["because"] == "asked for"
    lazy = [one for one in told["candidates"] if " lazy " in one["algorithm"]]
    assert {one["refusal"] for one in lazy} == {"option 'algorithm' names the plan"}


def source_of(plan: str) -> dict[str, Any]:
    """What was compared before all rows were read, and that the plan that trained is marked."""
    told = json.loads(plan)
    source = told["source"]
    (chosen,) = [one for one in source["candidates"] if one["chosen"]]
    assert chosen["algorithm"] == told["plan"]["algorithm"] + " on all rows"
    assert chosen["read_bytes"] == source["bytes"]
    names = {one["algorithm"] for one in source["candidates"]}
    assert {f"{a} {t} {s}" for a, t, s in PLANS if s} | {"bgd on all rows"} <= names
    return source


@pytest.mark.sample(1)
@pytest.mark.parametrize("train", [trained, trained_in_sql])
def test_a_training_on_all_rows_shows_the_plans_that_read_a_part(
    path: Path,
    few_are_usual: None,
    monkeypatch: pytest.MonkeyPatch,
    train: Callable[..., tuskml.Model],
) -> None:
    """One that takes longer, one that is not exact enough, and no explanation unless asked for."""
    monkeypatch.setattr(reading, "of_host", lambda: SLOW_TO_ASK)
    with tuskml.connect() as con:
        slow = train(con, str(path), explain=True, format="json")
        inexact = train(con, str(path), explain=True, format="json", epsilon=1e-6)
        text = train(con, str(path), explain=True).plan
        silent = train(con, str(path))
    assert slow.n_rows == inexact.n_rows == silent.n_rows == N
    source = source_of(slow.plan)
    assert source["because"].endswith("not less than 75% of the best plan on all rows")
    part = [one for one in source["candidates"] if " lazy " in one["algorithm"]]
    assert all(one["refusal"] is None and one["read_bytes"] < source["bytes"] for one in part)
    refused = source_of(inexact.plan)
    assert refused["because"].startswith("epsilon 1e-06 may need")
    assert "all rows are read: sgd lazy" in text or "all rows are read: mgd lazy" in text
    (line,) = [line for line in text.splitlines() if line.startswith("  sgd eager bernoulli")]
    assert line.split("  ")[-1].startswith("to draw rows takes ")
    assert "explanation" not in silent.plan


def test_a_training_on_all_rows_explains_itself_in_postgres(pg: psycopg.Connection) -> None:
    given = {"explain": True, "format": "json", "l2": L2}
    model = tuskml.train(pg, "logistic", source="plans", label="late", features=FEATURES, **given)
    query = "SELECT (train('plans', 'logistic', 'late', ARRAY['x0', 'x1'], %s)).plan"
    ((in_sql,),) = pg.execute(query, (json.dumps(given),)).fetchall()
    ((size,),) = pg.execute("SELECT pg_relation_size('plans')").fetchall()
    for plan in (model.plan, in_sql):
        source = source_of(plan)
        assert (source["storage"], source["bytes"]) == ("blocks", size)
        assert source["because"].startswith("option 'epsilon' does not say")


def test_an_explanation_says_why_drawn_rows_are_never_the_best(path: Path) -> None:
    """Shuffled partitions make as many steps, and each costs less (section 6.2 of the paper)."""
    with tuskml.connect() as con:
        told = json.loads(trained(con, str(path), explain=True, format="json", max_iter=900).plan)
    found = {one["algorithm"]: one for one in told["source"]["candidates"]}
    for algorithm in ("mgd", "sgd"):
        shuffled = found[f"{algorithm} eager shuffled-partition"]
        for sampler in ("random-partition", "bernoulli"):
            drawn = found[f"{algorithm} eager {sampler}"]
            assert drawn["never"].startswith("to draw rows takes ")
            assert drawn["seconds"]["point"] > shuffled["seconds"]["point"]
