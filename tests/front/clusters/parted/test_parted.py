"""Groups on several shards, trained by sums over these: the numbers of groups in one place."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import invariants
import numpy as np
import pytest
import sharded
import statsmodels.api as sm

import tuskml
from tuskml.cluster import units
from tuskml.cluster.parts import part_rows
from tuskml.groups.execution import choosing, leading
from tuskml.groups.execution.leading import Ran
from tuskml.learners.events import Event, listening

NIGHTLY = pytest.mark.nightly
GIVEN: dict[str, Any] = {
    "label": "y",
    "features": ["x", "z"],
    "group_by": "g",
    "executor": "threads",
    "placement": "gap",
    "epsilon": 1e-9,
}
ROWS = """
SELECT ['big', 'big', 'big', 'large', 'large', 'small'][1 + i % 6] AS g, i,
       hash(i, 1) % 1000 / 500 - 1 AS x, hash(i, 2) % 1000 / 500 - 1 AS z,
       hash(i, 3) % 1000 / 1000 < 1 / (1 + exp(0.3 - 2 * (hash(i, 1) % 1000 / 500 - 1))) AS y,
       (hash(i, 4) % 4 + (hash(i, 1) % 1000 > 700)::INT)::INT AS k,
       (hash(i, 5) % 5 + hash(i, 2) % 1000 / 200)::INT AS n
FROM range(24000) t(i)
"""


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    connection = tuskml.connect()
    connection.execute(f"CREATE TABLE rows AS {ROWS}")
    return connection


def whole(con: duckdb.DuckDBPyConnection, task: str, **given: Any) -> tuskml.Models:
    """The models of one query."""
    left = {k: v for k, v in given.items() if k not in ("executor", "placement", "finished")}
    return tuskml.train(con, task, **left | {"source": given.get("table", "rows")})


def by_parts(con: duckdb.DuckDBPyConnection, task: str, **given: Any) -> tuskml.Models:
    """The models of groups by parts; a warning is an error."""
    return sharded.by_parts(con, task, **given)


def assert_same_numbers(found: tuskml.Models, expected: tuskml.Models, rel: float) -> None:
    assert list(found) == list(expected)
    for key, model in expected.items():
        other = found[key]
        assert other is not None
        assert model is not None
        assert (other.status, other.converged, other.classes) == (
            model.status, model.converged, model.classes
        )  # fmt: skip
        assert (other.n_rows, other.n_skipped) == (model.n_rows, model.n_skipped)
        assert other.coef == pytest.approx(model.coef, rel=rel, abs=rel)
        assert other.loss == pytest.approx(model.loss, rel=rel)
        if model.std_err is not None:
            mine, its = (np.array(one.std_err, float) for one in (other, model))
            assert mine == pytest.approx(its, rel=1e-6, nan_ok=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "algorithm", ["lbfgs", "auto", *(pytest.param(a, marks=NIGHTLY) for a in ("bgd", "newton"))]
)
@pytest.mark.parametrize(
    ("task", "label"), [("linear", "x + z * z"), ("logistic", "y"), ("logistic", "k"),
                        ("poisson", "n")],
)  # fmt: skip
def test_the_numbers_are_those_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection,
    source: str,
    ran: list[Ran],
    task: str,
    label: str,
    algorithm: str,
) -> None:
    given = GIVEN | {"source": source, "label": label, "algorithm": algorithm}
    found = by_parts(con, task, **given)
    assert_same_numbers(found, whole(con, task, **given), 2e-6 if task == "poisson" else 1e-7)
    assert len({one.unit.pin for one in ran}) > 5, "each part is asked by itself"


def test_the_numbers_are_those_of_statsmodels(con: duckdb.DuckDBPyConnection, source: str) -> None:
    found = by_parts(con, "logistic", **GIVEN | {"source": source})
    for key, model in found.items():
        rows = con.execute("SELECT x, z, y::INT AS y FROM rows WHERE g = ?", [key]).df()
        truth = sm.Logit(rows["y"], sm.add_constant(rows[["x", "z"]])).fit(disp=0, tol=1e-12)
        assert model is not None
        assert [model.intercept, *model.coef] == pytest.approx(truth.params.tolist(), rel=1e-7)
        assert model.std_err == pytest.approx(truth.bse.tolist(), rel=1e-6)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("linear", {"label": "x + hash(i) % 10", "covariance": "HC3"}),
        ("logistic", {"covariance": "HC0", "class_weight": "balanced"}),
        ("logistic", {"label": "k", "covariance": "HC2", "l2": 0.01}),
        ("logistic", {"l1": 0.01, "algorithm": "lbfgs"}),
        ("poisson", {"label": "n", "offset": "x / 2", "weight": "1 + abs(z)"}),
        pytest.param("negative_binomial", {"label": "n"}, marks=NIGHTLY),
        ("gamma", {"label": "1 + n"}),
        ("gamma", {"label": "1 + n", "link": "inverse"}),
        ("linear", {"label": "y", "offset": "x / 2"}),
        ("huber", {"label": "x + n", "delta": 1.0}),
        ("logistic", {"features": "[x, z]::FLOAT[]"}),
        ("logistic", {"features": "sparse([i % 3, 3 + i % 2], [1.0, x])", "l2": 0.01}),
        ("linear", {"features": "sparse([i % 3, 3 + i % 2], [1.0, x])", "label": "x * z"}),
        ("linear", {"features": ["x", "2 * x"], "label": "x * z"}),
        ("linear", {"features": ["x", "7"], "label": "CASE WHEN i % 5 > 0 THEN z END"}),
    ],
)
def test_other_losses_rows_and_inference(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], task: str, more: dict[str, Any]
) -> None:
    given = GIVEN | {"source": source} | more
    found = by_parts(con, task, **given)
    assert_same_numbers(found, whole(con, task, **given), 2e-5)
    assert ran


@pytest.mark.sample(1)
@pytest.mark.parametrize("label", ["i // 8000", "i > 8500", "i > 23990", "7"])
def test_parts_that_have_one_class_alone(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, ran: list[Ran], label: str
) -> None:
    """Shards in the order of time: most parts see one class, some have the third."""
    for n in range(4):
        con.execute(
            f"COPY (FROM rows WHERE i // 6000 = {n}) TO '{tmp_path}/{n}.parquet' (FORMAT parquet)"
        )
    given = GIVEN | {"source": f"{tmp_path}/*.parquet", "label": label, "l2": 0.1}
    found = by_parts(con, "logistic", **given)
    assert_same_numbers(found, whole(con, "logistic", **given), 1e-6)
    assert ran


def test_parts_and_groups_without_a_usable_row(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, ran: list[Ran]
) -> None:
    for n in range(4):
        con.execute(
            f"COPY (FROM rows WHERE i // 6000 = {n}) TO '{tmp_path}/{n}.parquet' (FORMAT parquet)"
        )
    label = "CASE WHEN g <> 'large' AND i NOT BETWEEN 6000 AND 11999 THEN y END"
    given = GIVEN | {"source": f"{tmp_path}/*.parquet", "label": label}
    found = by_parts(con, "logistic", **given)
    assert found.pop("large") is None
    expected = whole(con, "logistic", **given)
    assert expected.pop("large") is None
    assert_same_numbers(found, expected, 1e-6)
    assert found["big"].n_skipped == 3_000


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["one shard", "one file", "files"])
def test_parts_are_ranges_of_rows(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, ran: list[Ran], kind: str
) -> None:
    """A group of few bytes is cut like others, and each of its rows is in one part; the report
    says what ran, also without the option explain."""
    if kind == "one shard":
        source = tuskml.split(con, source="rows", group_by="g", into=tmp_path / "s").source
        assert len(list((tmp_path / "s").glob("*.parquet"))) == 1
    else:
        source = f"{tmp_path}/*.parquet"
        for n in range(2 if kind == "files" else 1):
            rows = f"FROM rows WHERE i % 2 = {n}" if kind == "files" else "FROM rows"
            con.execute(f"COPY ({rows}) TO '{tmp_path}/{n}.parquet' (FORMAT parquet)")
    given = GIVEN | {"source": source}
    found = by_parts(con, "logistic", **given)
    assert_same_numbers(found, whole(con, "logistic", **given), 1e-7)
    by_name: dict[str, set[str | None]] = {}
    for one in ran:
        by_name.setdefault(one.unit.name, set()).add(one.unit.pin)
    assert [7 < len(pins) < 11 for _, pins in sorted(by_name.items())] == [True, True]
    sizes = {one.unit.pin: one.unit.size for one in ran}
    assert sum(sizes.values()) == 20_000
    done = found.execution
    assert done is not None
    assert done.work is not None
    assert (done.ran, done.work.groups) == ("GAP", 2)
    assert done.work.parts == len({one.unit.pin for one in ran})
    assert done.work.n_bytes > 0
    assert "GAP took" in str(done)


def test_a_placement_that_cuts_nothing_says_so(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 12_000)
    given = GIVEN | {"source": source}
    with pytest.warns(tuskml.ClusterWarning, match="'gap'.*none has more than 12,000 rows"):
        found = tuskml.train(con, "logistic", **given)
    assert found.execution is not None
    assert found.execution.ran == "TP"
    assert found.execution.work is not None
    assert found.execution.work.parts == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_bits_do_not_depend_on_threads(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    given = GIVEN | {"source": source, "deterministic": True}
    expected = by_parts(con, "logistic", **given)
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: n)
    sharded.assert_same_bits(by_parts(con, "logistic", **given), expected)


def test_each_part_stays_and_is_asked_once_a_pass(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    """A thread runs one unit at a time, and all parts of a group are asked equally often."""
    by_parts(con, "logistic", **GIVEN | {"source": source})
    invariants.assert_worker_exclusivity(ran)
    invariants.assert_asked_alike(ran, groups=2)
    assert not part_rows._held, "rows are freed at the end"


def test_events_tell_of_groups_once(con: duckdb.DuckDBPyConnection, source: str) -> None:
    heard: list[Event] = []
    with listening(heard.append):
        found = by_parts(con, "logistic", **GIVEN | {"source": source})
    assert sum(event.groups for event in heard) == len(found)
    assert sum(event.rows for event in heard) == 24_000


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "more", "sentence"),
    [
        ("svm", {}, "task 'svm' needs"),
        ("logistic", {"algorithm": "svrg"}, "algorithm 'svrg' needs"),
        ("logistic", {"validation": 0.1}, "option 'validation' needs"),
        (
            "logistic",
            {"l2": [0.1, 1.0], "validation": 0.1},
            "option 'validation' of a search needs",
        ),
    ],
)
def test_what_needs_all_rows_is_trained_on_one_worker(
    con: duckdb.DuckDBPyConnection, source: str, task: str, more: dict[str, Any], sentence: str
) -> None:
    given = {k: v for k, v in GIVEN.items() if k != "epsilon"} | {"source": source}
    given |= more | {"deterministic": True}
    with pytest.warns(tuskml.ClusterWarning, match=sentence):
        found = tuskml.train(con, task, **given)
    sharded.assert_same_bits(found, whole(con, task, **given))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"placement": "gab"}, "placement is 'gab', expected 'gtp', 'gap', .*; did you mean"),
        ({"placement": 3}, "placement is 3, expected 'gtp', 'gap'"),
        ({"executor": None}, "placement is given without executor"),
    ],
)
def test_wrong_placements(
    con: duckdb.DuckDBPyConnection, source: str, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(tuskml.OptionError, match=sentence):
        tuskml.train(con, "logistic", **GIVEN | {"source": source} | given)


@pytest.mark.nightly
def test_a_damaged_part_fails_its_group_alone_and_the_others_are_finished(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, ran: list[Ran]
) -> None:
    source = sharded.shards(con, tmp_path / "s", 40_000)
    expected = by_parts(con, "logistic", **GIVEN | {"source": source, "deterministic": True})
    path = tmp_path / "s" / "shard-000002.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:99] + bytes([data[99] ^ 1]) + data[100:])
    given = GIVEN | {"source": source, "deterministic": True, "finished": tmp_path / "f"}
    with pytest.raises(tuskml.ClusterError, match=rf"1 of 3 groups.*{path} is dama") as caught:
        tuskml.train(con, "logistic", **given)
    others = tuskml.Models((k, m) for k, m in expected.items() if k != "big")
    sharded.assert_same_bits(caught.value.models, others)
    path.write_bytes(data)
    ran.clear()
    sharded.assert_same_bits(tuskml.train(con, "logistic", **given), expected)
    assert {one.unit.pin for one in ran}, "the group that failed"
    ran.clear()
    sharded.assert_same_bits(tuskml.train(con, "logistic", **given), expected)
    assert not ran


def test_a_cancel_ends_leaders_too(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancel(one: Ran) -> None:
        tuskml.cancel()

    monkeypatch.setattr(leading, "heard", [cancel])
    with pytest.raises(tuskml.Interrupted):
        tuskml.train(con, "logistic", **GIVEN | {"source": source})
    assert not part_rows._held


def test_features_of_another_width_in_another_file(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    for n in range(2):
        features = "[x, z]" if n else "[x, z, x]"
        con.execute(
            f"COPY (SELECT g, y, {features} AS f FROM rows WHERE i % 2 = {n}) "
            f"TO '{tmp_path}/{n}.parquet' (FORMAT parquet)"
        )
    given = GIVEN | {"source": f"{tmp_path}/*.parquet", "features": "f"}
    with pytest.raises(tuskml.ClusterError, match=r"a group have 2 and 3 elements"):
        tuskml.train(con, "logistic", **given)


@pytest.mark.sample(1)
@pytest.mark.parametrize("placement", ["mtp", "dp", "sp"])
def test_the_baselines_have_the_same_numbers(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], placement: str
) -> None:
    given = GIVEN | {"source": source, "placement": placement}
    found = by_parts(con, "logistic", **given)
    assert_same_numbers(found, whole(con, "logistic", **given), 1e-7)
    led = {one.unit.payload for one in ran}
    assert bool(led) == (placement != "mtp")
    if placement == "dp":
        of_group: dict[str, list[Ran]] = {}
        for one in ran:
            of_group.setdefault(one.unit.name, []).append(one)
        spans = sorted((min(o.begin for o in g), max(o.end for o in g)) for g in of_group.values())
        assert len(spans) > 1
        assert all(a[1] <= b[0] for a, b in pairwise(spans)), "one group at a time"


@pytest.mark.nightly
def test_without_room_for_all_parts_they_are_read_again(giants: Any) -> None:
    """Where the rows of a group have room neither in memory nor on disk, GTP fails and GAP does
    not; the bits are those with much memory. Room is made before a part is read again, and not by
    reads that fail for want of it, of which the first pass has some."""
    run = giants(1_200_000)
    options = {"algorithm": "lbfgs", "max_iter": 2, "deterministic": True}
    failed = run("logistic", "gtp", 48, options)
    assert "2 of 2 groups were not trained: no room for row" in failed.answer
    little = run("logistic", "gap", 48, options)
    assert little.answer == run("logistic", "gap", 1000, options).answer
    parts, reads, short = little.parts
    assert reads > 4 * parts, "no part has to go: less memory is needed here"
    assert short <= 2 * parts


def test_labels_and_moments_of_parts_are_those_of_all() -> None:
    """Against NumPy; a feature that varies between parts alone is not constant."""
    from tuskml.kernels.parts.merging import merge_moments

    rng = np.random.default_rng(7)
    parts = [rng.normal(size=(n, 3)) * [1, 5, 0] + [0, 1e3, n] for n in (4, 100, 33)]
    for part in parts:
        part[:, 2] = len(part) if part is parts[0] else 9.0
    weight = np.array([float(len(part)) for part in parts])
    mean, deviation = merge_moments(
        weight,
        np.stack([part.mean(axis=0)[None] for part in parts]),
        np.stack([part.std(axis=0)[None] for part in parts]),
    )
    every = np.concatenate(parts)
    assert mean[0] == pytest.approx(every.mean(axis=0), rel=1e-12)
    assert deviation[0] == pytest.approx(every.std(axis=0), rel=1e-9)
    same = np.full((3, 1, 1), 0.1)
    assert merge_moments(weight, same, 0 * same)[1] == 0
