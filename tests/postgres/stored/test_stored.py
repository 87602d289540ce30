"""Models in a store and matrix factorizations: PostgreSQL says what DuckDB and NumPy say."""

import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import (
    DUCKDB_MODEL,
    PARALLEL,
    POSTGRES_MODEL,
    USED,
    ask_duckdb,
    ask_postgres,
    model,
    relaxed,
    same,
)

import tuskml
from tuskml.kvstore import StoreRoot

N = 9000
WEIGHTS = np.random.default_rng(0).standard_normal(N).astype("float32")
WEIGHTS[3000:] *= np.random.default_rng(1).random(N - 3000) < 0.2
PREDICT = f"predict({POSTGRES_MODEL}, sparse(%(i)s::int[], %(x)s::float8[]))"


@pytest.fixture(scope="module")
def folder(cluster) -> Iterator[Path]:
    """The default: below the data directory."""
    path = cluster.data / "tuskml" / "stores"
    yield path
    shutil.rmtree(path.parent, ignore_errors=True)


@pytest.fixture(scope="module")
def root(cluster, folder: Path) -> StoreRoot:
    return StoreRoot(folder)


@pytest.fixture(scope="module")
def duck(root: StoreRoot) -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(store_root=root.path, threads=1) as connection:
        yield connection


def publish(cluster, root: StoreRoot, name: str, weights: np.ndarray) -> str:
    """Seals a model that the server's user may read; its reference."""
    reference = root.publish_weights(name, weights).reference
    if cluster.user is not None:
        account = pwd.getpwnam(cluster.user)
        for path in [root.path.parent, root.path, *root.path.rglob("*")]:
            os.chown(path, account.pw_uid, account.pw_gid)
    return reference


def stored(reference: str, task: str = "linear", **fields) -> dict:
    options = f'{{"tuskml":1,"biases":true,"store":"{reference}"}}'
    return model(task, coef=None, options=options, store=reference, **fields)


@pytest.fixture(scope="module")
def reference(cluster, root: StoreRoot) -> str:
    return publish(cluster, root, "ads", WEIGHTS)


def refused(pg: psycopg.Connection, m: dict) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as raised:
        pg.execute(f"SELECT {PREDICT}", m | {"i": [1], "x": [1.0]})
    assert pg.execute("SELECT 1").fetchone() == (1,)
    return raised.value.sqlstate, raised.value.diag.message_primary


ids = st.lists(st.integers(-1, 2 * N), max_size=300)


@relaxed
@given(
    row=ids, seed=st.integers(0, 99), task=st.sampled_from(["linear", "logistic", "svm"]),
    name=st.sampled_from(["predict", "predict_proba", "decision"]),
    kind=st.sampled_from(["float8", "real"]),
)  # fmt: skip
def test_sparse_as_in_duckdb(pg, duck, reference, row, seed, task, name, kind) -> None:
    m = stored(reference, task)
    given = {"i": row, "x": np.random.default_rng(seed).standard_normal(len(row)).tolist()}
    found = ask_postgres(
        pg, f"{name}({POSTGRES_MODEL}, sparse(%(i)s::int[], %(x)s::{kind}[]))", m | given
    )
    kind = {"float8": "DOUBLE", "real": "FLOAT"}[kind]
    used = {field: m[field] for field in USED} | given
    expected = ask_duckdb(
        duck, f"{name}({DUCKDB_MODEL}, sparse($i::INTEGER[], $x::{kind}[]))", used
    )
    assert same(found, expected), (found, expected)
    if name == "decision" and kind == "DOUBLE" and -1 not in row:
        seen = np.pad(WEIGHTS.astype(float), (0, N + 1))[row]
        assert found == pytest.approx(m["intercept"] + np.dot(given["x"], seen), abs=1e-9)


@pytest.mark.parametrize("width", [0, 1, 256, 5000, N + 3])
def test_dense_as_in_duckdb(pg, duck, reference, width: int) -> None:
    m = stored(reference)
    x = np.random.default_rng(0).standard_normal(width)
    given = m | {"x": x.tolist()}
    found = ask_postgres(pg, f"predict({POSTGRES_MODEL}, %(x)s::float8[])", given)
    used = {field: m[field] for field in USED} | {"x": x.tolist()}
    assert same(found, ask_duckdb(duck, f"predict({DUCKDB_MODEL}, $x::DOUBLE[])", used))
    seen = np.pad(WEIGHTS.astype(float), (0, 3))[:width]
    assert found == pytest.approx(m["intercept"] + x @ seen, abs=1e-9)


@relaxed
@given(
    pair=st.lists(
        st.integers(-1, 9) | st.sampled_from([0.5, 1e300, np.inf, np.nan]), min_size=1, max_size=3
    ),
    biases=st.booleans(), kind=st.sampled_from(["float8", "real", "bigint", "int", "numeric"]),
    name=st.sampled_from(["predict", "decision", "predict_proba"]), in_store=st.booleans(),
)  # fmt: skip
def test_factors_as_in_duckdb(pg, duck, factors, pair, biases, kind, name, in_store) -> None:
    vectors, stored_at = factors
    whole = [round(min(v, 9)) if np.isfinite(v) else 0 for v in pair]
    pair = [float(v) for v in pair] if kind == "float8" else whole
    options = f'{{"tuskml":1,"biases": {str(biases).lower()}, "store": "{stored_at}"}}'
    m = model("matrix_factorization", coef=vectors.ravel().tolist(), classes=[4.0, 3.0, 5.0])
    m |= {"options": options} | ({"coef": None} if in_store else {})
    found = ask_postgres(pg, f"{name}({POSTGRES_MODEL}, %(x)s::{kind}[])", m | {"x": pair})
    used = {field: m[field] for field in USED} | {"x": pair}
    assert same(found, ask_duckdb(duck, f"{name}({DUCKDB_MODEL}, $x::DOUBLE[])", used))
    usable = len(pair) == 2 and all(np.isfinite(v) and v >= 0 and v == int(v) for v in pair)
    if usable and name != "predict_proba":
        none, b = np.zeros(5), int(biases)
        unseen = none if biases else vectors[:4].mean(axis=0)  # the mean of all users
        u = vectors[int(pair[0])] if pair[0] < 4 else unseen
        v = vectors[4 + int(pair[1])] if pair[1] < 3 else none
        assert found == pytest.approx(0.25 + u[:b].sum() + v[:b].sum() + u[b:] @ v[b:], abs=1e-9)
    else:
        assert isinstance(found, str), "refused"


@pytest.fixture(scope="module")
def factors(cluster, root: StoreRoot) -> tuple[np.ndarray, str]:
    vectors = np.random.default_rng(3).standard_normal((7, 5))
    return vectors, publish(cluster, root, "films", vectors.ravel())


def test_many_rows_by_parallel_workers(pg, reference) -> None:
    pg.execute(f"""
        CREATE TABLE chosen AS SELECT i FROM generate_series(0, {N - 1}) AS i; ANALYZE chosen;
        CREATE TABLE kept AS SELECT 1 AS one; {PARALLEL}""")
    m = stored(reference, intercept=0.0)
    query = f"""
        SELECT i, predict({POSTGRES_MODEL}, sparse(ARRAY[i], ARRAY[1.0::float8])) FROM chosen"""
    plan = str(pg.execute(f"EXPLAIN (COSTS OFF) {query}", m).fetchall())
    assert "Gather" in plan
    found = np.array(sorted(pg.execute(query, m).fetchall()))
    assert np.array_equal(found[:, 1], WEIGHTS.astype(float))
    pg.execute("RESET ALL")


def test_more_models_than_are_kept_open(pg, cluster, root) -> None:
    pg.execute("CREATE TABLE models (g int, m tuskml_model)")
    for i in range(20):
        at = publish(cluster, root, f"m{i}", np.array([float(i)]))
        pg.execute(
            f"INSERT INTO models VALUES (%(g)s, {POSTGRES_MODEL})",
            stored(at, intercept=0.0) | {"g": i},
        )
    rows = pg.execute(
        "SELECT g, predict(m, ARRAY[1.0]), predict(with_payload(m), ARRAY[1.0]), (m).coef "
        "FROM models, generate_series(1, 5) ORDER BY random()"
    ).fetchall()
    assert len(rows) == 100
    assert all(row == (row[0], row[0], row[0], None) for row in rows)


# --- what is refused ---


@pytest.mark.parametrize(("reference", "state", "told"), [
    ("ads@1:" + "0" * 16, "58P01", "the stored model ads@1:0000000000000000 is gone"),
    ("nix@1:" + "0" * 16, "42704", "there is no stored model nix@1"),
    ("../ads@1:" + "0" * 16, "22023", "expected a reference such as"),
    ("it's@1:" + "0" * 16, "22023", "expected a reference such as"),
    ("ä" * 255, "22023", "expected a reference such as"),
    ("ads", "22023", "expected a reference such as"),
])  # fmt: skip
def test_references_that_lead_nowhere(pg, root, reference, state, told) -> None:
    found, sentence = refused(pg, stored(reference))
    assert (found, told in sentence) == (state, True), sentence


def test_damage_is_told(pg, cluster, root) -> None:
    at = publish(cluster, root, "spoiled", WEIGHTS)
    path = next((root.path / "spoiled" / "sealed").iterdir())
    whole = path.read_bytes()
    m = stored(at)
    right = pg.execute(f"SELECT {PREDICT}", m | {"i": [1], "x": [1.0]}).fetchone()
    for place in (3, 40, 5000, len(whole) - 60):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1
        path.write_bytes(spoiled)
        state, sentence = refused(pg, m)
        assert state == "XX001", sentence
        assert str(root.path) not in sentence, "where the server keeps its files is not told"
    path.write_bytes(whole[:-1])
    assert refused(pg, m)[0] == "XX001"
    path.write_bytes(whole)
    assert pg.execute(f"SELECT {PREDICT}", m | {"i": [1], "x": [1.0]}).fetchone() == right
    path.unlink()
    assert refused(pg, m)[0] == "58P01"


def test_summary_says_where_the_coefficients_are(pg, reference) -> None:
    with pytest.raises(psycopg.Error, match=f"tuskml store export {reference} FILE") as raised:
        pg.execute(f"SELECT * FROM model_summary({POSTGRES_MODEL})", stored(reference))
    assert raised.value.sqlstate == "0A000"


# --- where stores lie ---


def test_the_root_is_a_superusers_setting(pg, connect, cluster, reference, tmp_path) -> None:
    pg.execute("CREATE ROLE carl LOGIN")
    first = f"SELECT {PREDICT}", stored(reference) | {"i": [0], "x": [1.0]}
    for setting in ("SELECT 1", "SET tuskml.store_root = '/tmp'"):  # before the library is loaded
        with connect(user="carl") as carl:
            carl.execute(setting)
            assert carl.execute(*first).fetchone() == (0.25 + float(WEIGHTS[0]),)
            for more in ("SET tuskml.store_root = '/tmp'", "SHOW tuskml.store_root"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    carl.execute(more)
    try:
        assert pg.execute("SHOW tuskml.store_root").fetchone() == ("tuskml/stores",)
        pg.execute("SET tuskml.store_root = '/nonexistent'")
        assert refused(pg, stored(reference))[0] == "42704"
        pg.execute(f"SET tuskml.store_root = '{cluster.data}/tuskml/stores'")
        assert ask_postgres(pg, PREDICT, stored(reference) | {"i": [], "x": []}) == 0.25
        pg.execute(f"SET tuskml.store_root = '{'x' * 2000}'")
        assert "tuskml.store_root has 2000 bytes" in refused(pg, stored(reference))[1]
    finally:
        pg.execute("RESET tuskml.store_root; DROP ROLE carl")
