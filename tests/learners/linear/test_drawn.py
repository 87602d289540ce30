"""The samplers of the paper's eleven plans: which rows are taken, in which order, and by whom."""

import json
from typing import Any

import duckdb
import numpy as np
import pytest

import tuskml
from tuskml.databases.connection import rows_read
from tuskml.kernels.epochs import Epoch, EpochSample
from tuskml.kernels.passes import Pass
from tuskml.learners.linear.algorithms.parts import epochs
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.row_groups import Layout, Piece

ROWS = 40_000
PLANS = [
    (algorithm, sampler)
    for algorithm in ("sgd", "mgd")
    for sampler in ("bernoulli", "random-partition", "shuffled-partition")
]


@pytest.fixture(scope="module")
def made() -> Any:
    with tuskml.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT (hash(i) % 1000) / 500 AS x, (hash(-i) % 1000) / 50 AS z, "
            "2 * x - z / 5 + (hash(7 * i) % 1000) / 200 > 3 AS y "
            f"FROM range({ROWS}) r(i)"
        )
        yield con


def model(con: duckdb.DuckDBPyConnection, features: str = "[x, z]", **options: Any) -> dict:
    text = json.dumps(options)
    query = f"SELECT train_model('logistic', y, {features}, '{text}') AS m FROM t"
    ((found,),) = con.execute(query).fetchall()
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("algorithm", "sampler"),
    [  # steps of one row each, drawn by a toss for each, take longest
        pytest.param(*one, marks=pytest.mark.nightly if one == ("sgd", "bernoulli") else ())
        for one in PLANS
    ],
)
@pytest.mark.parametrize("features", ["[x, z]", "sparse([0, 1], [x, z])"])
def test_each_plan_comes_near_the_optimum(made, algorithm, sampler, features) -> None:
    """Newton's method has it. A step is one over the root of epochs: 20 leave some noise."""
    exact = model(made, features)
    found = model(made, features, algorithm=algorithm, sampler=sampler, transform="eager")
    assert found["loss"] == pytest.approx(exact["loss"], rel=0.01)
    assert (f"sampler {sampler}" in found["plan"]) is (sampler in epochs.DRAWN)
    again = model(made, features, algorithm=algorithm, sampler=sampler, transform="eager")
    assert again["coef"] == found["coef"]
    other = model(made, features, algorithm=algorithm, sampler=sampler, seed=3)
    assert other["coef"] != found["coef"]


@pytest.mark.parametrize("size", [1, 32, 900])
def test_bernoulli_tosses_for_each_row(size: int) -> None:
    """Sizes are binomial, rows ascend within a sample, and each row is as likely as another."""
    n, random = 1000, np.random.default_rng(1)
    sizes, counts = [], np.zeros(n)
    for _ in range(40 if size < 900 else 400):
        rows, of = epochs.draw_bernoulli(n, size, random)
        assert len(rows) == of.sum()
        sizes.append(of)
        for sample in np.split(rows, np.cumsum(of)[:-1]):
            assert (np.diff(sample) > 0).all()
        counts += np.bincount(rows, minlength=n)
    sizes = np.concatenate(sizes)
    share = size / n
    kept = 1 - (1 - share) ** n  # empty samples are tossed again
    assert sizes.min() >= 1
    assert sizes.mean() == pytest.approx(size / kept, rel=0.05)
    second = (n * share * (1 - share) + size**2) / kept
    assert (sizes.astype(float) ** 2).mean() == pytest.approx(second, rel=0.1)
    expected = counts.sum() / n
    spread = (counts - expected) / np.sqrt(expected * (1 - share))
    assert np.abs(spread).max() < 5.5
    assert spread.std() == pytest.approx(1, abs=0.15)


def test_random_partition_takes_rows_again() -> None:
    """Drawn with replacement, an epoch leaves out one over e of the rows (its limit)."""
    n, random = 20_000, np.random.default_rng(2)
    rows = epochs.in_partitions(n, 1000, random)
    assert len(rows) == n
    assert len(np.unique(rows)) / n == pytest.approx(1 - np.exp(-1), abs=0.02)
    partitions = np.bincount(rows // 1000, minlength=20)
    assert np.abs(partitions - 1000).max() < 5 * np.sqrt(1000)
    neighbours = (np.diff(rows // 1000) == 0).mean()
    assert neighbours == pytest.approx(1 / 20, abs=0.01)


@pytest.mark.parametrize("storage", ["dense float32", "dense float64", "sparse float64"])
@pytest.mark.parametrize("sizes", [None, [1, 3, 2, 5, 1]])
@pytest.mark.parametrize("segments", [1, 3])
def test_steps_are_those_of_the_rows_drawn(storage, sizes, segments) -> None:
    """Against the same steps in NumPy, batch after batch, on rows in one or more segments."""
    random = np.random.default_rng(4)
    n, d = 60, 3
    x = random.standard_normal((n, d)).astype(np.float32)
    y = (random.random(n) < 0.5).astype(float)
    kept, group = in_segments(x, y, storage, segments)
    rows = random.integers(n, size=12)
    groups = None if sizes is None else [np.array(sizes, np.int32)]
    batches = sizes or [4, 4, 4]
    epoch = Epoch(
        4, 0, 0.0, 0.0, 0.0, np.full(1, 0.1), np.zeros((1, d)), np.ones((1, d)),
        drawn=EpochSample.of([rows], groups),
    )  # fmt: skip
    v = np.zeros((1, d + 1))
    Pass(group, 0, None, None, False, 1).sgd(epoch, v, None, shared=False)
    w = np.zeros(d)
    for batch in np.split(rows, np.cumsum(batches)[:-1]):
        residual = x[batch].astype(float) @ w - y[batch]
        w -= 0.1 * residual @ x[batch] / len(batch)
    assert v[0, :d] == pytest.approx(w, abs=1e-5)
    assert len(kept) == segments


def in_segments(x: np.ndarray, y: np.ndarray, storage: str, segments: int) -> Any:
    """Rows in a list of segments, and the group that begins with the first one."""
    kept, first = [], None
    for part in np.array_split(np.arange(len(x)), segments):
        arrays, entries = [x[part].astype(storage.rsplit(maxsplit=1)[-1])], 0
        if storage.startswith("sparse"):
            entries = x[part].size
            start = np.arange(0, entries + 1, x.shape[1], dtype=np.uint32)
            ids = np.tile(np.arange(x.shape[1], dtype=np.int32), len(part))
            arrays = [start, ids, arrays[0].ravel()]
        segment, group = groups_of(y[part], arrays, entries, storage, x.shape[1])
        if kept:
            kept[-1][0] = segment.ctypes.data
        kept.append(segment)
        first = group if first is None else first
    first["n_rows"] = len(x)
    return kept, first


@pytest.mark.nightly
def test_lazy_reads_what_it_samples_and_eager_reads_all(tmp_path) -> None:
    """The rows that the extension packed, by its own count."""
    n = 250_000
    with tuskml.connect() as con:
        path = tmp_path / "rows.parquet"
        con.execute(
            "COPY (SELECT (hash(i) % 1000) / 500 AS x, x + (hash(3 * i) % 1000) / 300 > 2 AS y "
            f"FROM range({n}) r(i)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 4096)"
        )
        packed = {}
        for algorithm, sampler in PLANS:
            for transform in ("eager", "lazy"):
                if (sampler, transform) == ("bernoulli", "lazy"):
                    continue
                before = rows_read()
                found = tuskml.train(
                    con, "logistic", source=path, label="y", features=["x"], epsilon=0.05,
                    algorithm=algorithm, sampler=sampler, transform=transform,
                )  # fmt: skip
                plan = algorithm, transform, sampler
                packed[plan] = rows_read() - before
                assert found.status == "ok", plan
                if transform == "lazy":
                    counters = found.options["counters"]
                    assert packed[plan] == counters["rows_read"] < n / 3
                    assert found.options["sampler"] == sampler
                else:
                    assert packed[plan] == n
    assert len(packed) == 10  # with bgd the paper's eleven


@pytest.mark.nightly
def test_few_different_rows_are_mixed_and_held_out_by_chance(tmp_path) -> None:
    """Eight contents, of 400,000 rows: what is held out has each of them, as the others have.

    Where all rows of a content lay together, the rows held out were those of one content.
    """
    n = 400_000
    with tuskml.connect() as con:
        path = tmp_path / "few.parquet"
        con.execute(
            "COPY (SELECT i % 2 AS x, i // 2 % 2 AS z, "
            "hash(5 * i) % 100 < 30 + 20 * (i % 2) + 10 * (i // 2 % 2) AS y "
            f"FROM range({n}) r(i)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 4096)"
        )
        given = {"source": path, "label": "y", "features": ["x", "z"]}
        exact = tuskml.train(con, "logistic", **given)
        some = tuskml.train(con, "logistic", algorithm="sgd", epsilon=0.05, **given)
        assert some.status == "ok"
        assert some.n_rows < n / 3
        assert some.coef == pytest.approx(exact.coef, abs=0.15)
        held = tuskml.train(con, "logistic", validation=0.05, max_iter=50, **given)
        assert held.coef == pytest.approx(exact.coef, abs=0.02)
        assert held.loss == pytest.approx(exact.loss, rel=0.02)


def test_pieces_are_drawn_again_and_again() -> None:
    """Shuffled partitions come once each; random ones as often as chance has it."""
    rest = tuple(Piece(k, 0, 20_000) for k in range(10))
    once = Layout((), rest, 60_000).chunks(np.random.default_rng(5))
    seen = [piece for _ in range(4) for piece in next(once)]
    assert sorted(piece.row_group for piece in seen) == list(range(10))
    assert {piece.first for piece in seen} == {0}
    anew = Layout((), rest, 60_000, drawn=True).chunks(np.random.default_rng(5))
    chunk = next(anew)
    assert sum(piece.n_rows for piece in chunk) >= 60_000
    assert len({piece.first for piece in chunk}) > 1
    assert all(0 <= p.first <= p.first + p.n_rows <= 20_000 for p in chunk)
    taken = [piece.row_group for _ in range(200) for piece in next(anew)]
    counts = np.bincount(taken, minlength=10)
    assert np.abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "bernoulli", "transform": "lazy"}, "expected 'eager'"),
        ({"sampler": "bernoulli", "algorithm": "newton"}, "expected 'mgd', 'sgd' or 'auto'"),
        ({"sampler": "random-partition", "algorithm": "hogwild"}, "expected 'mgd', 'sgd'"),
    ],
)
def test_what_a_sampler_is_not_for(made, options, message) -> None:
    with pytest.raises(duckdb.Error, match=message):
        model(made, **options)
