"""Predictions, hashed features and summaries: PostgreSQL says what DuckDB says."""

import json
import math
from contextlib import contextmanager

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import (
    DUCKDB_MODEL,
    OPTIONS,
    PARALLEL,
    POSTGRES_MODEL,
    POSTGRES_ROW,
    USED,
    ask_duckdb,
    ask_postgres,
    check,
    model,
    relaxed,
    same,
    sentence,
    value,
)
from scipy import stats

NAMES = ["predict", "predict_proba", "decision"]


# --- predict, predict_proba, decision ---

number = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1e300, -1e300, math.inf])
numbers = st.lists(number, max_size=12)
gaps = st.lists(st.none() | number, max_size=4)
models = st.builds(
    model,
    st.sampled_from(["linear", "logistic", "svm"]) | st.sampled_from(["lda", None, "ä" * 30]),
    coef=st.none() | numbers | gaps,
    intercept=st.none() | number,
    classes=st.none() | st.just([3.0, 7.0]) | st.lists(st.none() | number, max_size=3),
    options=st.just(OPTIONS) | st.sampled_from([None, "", "{}", '{"tuskml":12}', "é" * 30]),
)
usable = st.builds(
    model, st.sampled_from(["linear", "logistic", "svm"]), coef=numbers, intercept=number
)


def as_real(x):
    """Near the number, in the range of real."""
    return float(np.float32(np.clip(x, -1e30, 1e30))) if abs(x) > 1e-30 else 0.0


@relaxed
@given(st.data(), st.sampled_from(NAMES), usable | models, st.sampled_from(["float8", "real"]))
def test_dense_as_in_duckdb(pg, duck, data, name, m, kind):
    width = len(m["coef"] or [])
    x = data.draw(
        st.lists(number, min_size=width, max_size=width)
        | st.none()
        | st.lists(st.none() | number, max_size=4)
    )
    if kind == "real":
        x = x and [v if v is None else as_real(v) for v in x]
    found = ask_postgres(pg, f"{name}({POSTGRES_MODEL}, %(x)s::{kind}[])", m | {"x": x})
    kind = {"float8": "DOUBLE", "real": "FLOAT"}[kind]
    used = {field: m[field] for field in USED} | {"x": x}
    expected = ask_duckdb(duck, f"{name}({DUCKDB_MODEL}, $x::{kind}[])", used)
    assert same(found, expected), (found, expected)


ids = st.lists(st.integers(0, 15) | st.none(), max_size=8)
any_ids = ids | st.none() | st.lists(st.integers(-2, 2**31 - 1), max_size=3)


@relaxed
@given(st.data(), st.sampled_from(NAMES), usable | models, any_ids)
def test_sparse_as_in_duckdb(pg, duck, data, name, m, indices):
    n = len(indices or [])
    x = data.draw(st.lists(st.none() | number, min_size=n, max_size=n) | st.none() | gaps)
    id_type = data.draw(st.sampled_from(["int", "bigint"]))
    features = "sparse(%(ids)s::{}[], %(x)s::{}[])".format(id_type, "float8")
    given_features = {"ids": indices, "x": x}
    found = ask_postgres(pg, f"{name}({POSTGRES_MODEL}, {features})", m | given_features)
    used = {field: m[field] for field in USED} | given_features
    features = f"sparse($ids::{id_type}[], $x::DOUBLE[])"
    expected = ask_duckdb(duck, f"{name}({DUCKDB_MODEL}, {features})", used)
    assert same(found, expected), (found, expected)


def test_every_number_is_a_feature(pg):
    m = model("linear", coef=[1.0, 10.0], intercept=0.5)
    for kind in ("real", "float8", "numeric", "smallint", "integer", "bigint"):
        dense = ask_postgres(pg, f"predict({POSTGRES_MODEL}, ARRAY[2, 3]::{kind}[])", m)
        sparse = ask_postgres(
            pg, f"predict({POSTGRES_MODEL}, sparse(ARRAY[1, 0], ARRAY[3, 2]::{kind}[]))", m
        )
        assert dense == sparse == 32.5
    literals = ["ARRAY[2, 3]", "ARRAY[2.0, 3]", "sparse(ARRAY[0, 1], ARRAY[2.0, 3])"]
    for literal in [*literals, "sparse(ARRAY[0, 1], ARRAY[2, 3])", "'[5:6]={2,3}'::float8[]"]:
        assert ask_postgres(pg, f"predict({POSTGRES_MODEL}, {literal})", m) == 32.5


@pytest.mark.parametrize(
    ("call", "state", "text"),
    [
        ("predict({}, ARRAY[1.0, 2.0])", "22023", "predict: the model has 3 features, row has 2"),
        (
            "predict({}, sparse(ARRAY[-4], ARRAY[1]))",
            "22023",
            "predict: feature id -4 is negative, ids start at 0",
        ),
        (
            "decision({}, sparse(ARRAY[0], ARRAY[1, 2]))",
            "22023",
            "decision: row has 1 indices and 2 values, expected as many of both",
        ),
        (
            "predict({}, ARRAY['a'])",
            "42804",
            "predict: features is text[], expected an array of real, double precision, integer "
            "or numeric",
        ),
        (
            "predict_proba({}, ARRAY[[1, 2]])",
            "2202E",
            "predict_proba: features has 2 dimensions, expected a list of numbers",
        ),
        (
            "predict({}, sparse(ARRAY[0, 9223372036854775808], ARRAY[1, 2]))",
            "22003",
            "sparse: indices[2] is 9223372036854775808, expected a whole feature id from 0 to "
            "9223372036854775807",
        ),
        (
            "predict({}, sparse(ARRAY[0.5], ARRAY[1]))",
            "22003",
            "sparse: indices[1] is 0.5, expected a whole feature id from 0 to 9223372036854775807",
        ),
        (
            "predict({}, sparse(ARRAY['nan'::float4], ARRAY[1]))",
            "22003",
            "sparse: indices[1] is NaN, expected a whole feature id from 0 to 9223372036854775807",
        ),
        (
            "predict({}, sparse(ARRAY['a'], ARRAY[1]))",
            "42804",
            "sparse: indices is text[], expected an array of whole numbers",
        ),
        (
            "predict({}, sparse(ARRAY[0], ARRAY[[1]]))",
            "2202E",
            "sparse: values has 2 dimensions, expected a list of numbers",
        ),
    ],
)
def test_bad_features(pg, call, state, text):
    with pytest.raises(psycopg.Error) as raised:
        pg.execute("SELECT " + call.format(POSTGRES_MODEL), model())
    assert raised.value.sqlstate == state
    assert sentence(raised.value) == text
    assert value(pg, "SELECT 1") == 1


def test_sparse_keeps_real(pg):
    query = "SELECT pg_typeof(sparse(ARRAY[1], ARRAY[2]::{}[]))::text"
    assert value(pg, query.format("real")) == "tuskml_sparse_real"
    assert value(pg, query.format("numeric")) == "tuskml_sparse_double"
    text = value(pg, "SELECT sparse(ARRAY[1, NULL]::bigint[], ARRAY[NULL, 2]::smallint[])::text")
    assert text == '("{1,NULL}","{NULL,2}")'


@pytest.mark.parametrize(
    "type_name", ["smallint", "integer", "bigint", "real", "float8", "numeric"]
)
def test_whole_ids_of_any_type(pg, type_name):
    text = value(pg, f"SELECT sparse(ARRAY[7, NULL]::{type_name}[], ARRAY[1, 2])::text")
    assert text == '("{7,NULL}","{1,2}")'


def test_payloads_are_those_of_duckdb(pg, duck):
    """One function in C writes them: a model may move from one database to the other."""
    for m in (model(), model("linear", coef=[2.5]), model("svm", coef=None, classes=[5.0])):
        found = ask_postgres(pg, f"({POSTGRES_MODEL}).payload", m)
        used = {field: m[field] for field in USED}
        assert found == ask_duckdb(duck, f"({DUCKDB_MODEL}).payload", used)
        assert found == ask_postgres(pg, f"model_payload({POSTGRES_MODEL})", m)
    kept = ask_postgres(pg, f"({POSTGRES_MODEL}).n_rows", model(n_rows=7))
    assert kept == 7
    assert value(pg, "SELECT with_payload(NULL) IS NULL")


def damaged(payload: bytes) -> str:
    """A model with this payload and nothing else."""
    fields = json.dumps({"payload": f"\\x{payload.hex()}"})
    return f"jsonb_populate_record(NULL::tuskml_model, '{fields}')"


def test_payloads_that_are_damaged_or_of_another_format(pg, duck):
    good = ask_postgres(pg, f"({POSTGRES_MODEL}).payload", model())
    later = good[:4] + b"\x09" + good[5:]
    cases = [(b"", "XX001"), (good[:-1], "XX001"), (good + b"x", "XX001"), (later, "0A000")]
    cases += [
        (good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :], "XX001") for i in range(6, len(good))
    ]
    for payload, state in cases:
        with pytest.raises(psycopg.Error) as raised:
            pg.execute(f"SELECT predict({damaged(payload)}, ARRAY[1, 2, 3])")
        assert raised.value.sqlstate == state
        told = sentence(raised.value)
        what = "has format 9, and this tuskml" if payload == later else "is damaged: restore"
        assert told.startswith(f"predict: the payload of the model {what}")
        blob = f"from_hex('{payload.hex()}')"
        assert ask_duckdb(duck, f"predict({{'payload': {blob}}}, [1, 2, 3])", None) == told
    without = 'jsonb_populate_record(NULL::tuskml_model, \'{"task": "linear"}\')'
    assert ask_postgres(pg, f"predict({without}, ARRAY[1])", None) == (
        "predict: the model has no payload, which predictions read: with_payload(model) makes it "
        "of the other fields"
    )


@pytest.fixture(scope="module")
def points(pg):
    """Rows with NULLs, and models that lie in the row, compressed there, and outside."""
    pg.execute("CREATE TABLE models (g int, model tuskml_model)")
    rng = np.random.default_rng(5)
    weights = {}
    for g, width in enumerate([1, 2, 300, 700, 2000]):
        weights[g] = rng.standard_normal(width)
        if width == 300:
            weights[g][:] = 0.5  # what compresses well
        m = model("linear", coef=weights[g].tolist(), intercept=float(g))
        pg.execute(f"INSERT INTO models VALUES (%(g)s, {POSTGRES_MODEL})", m | {"g": g})
    pg.execute("""
        CREATE TABLE points AS SELECT i, g, CASE WHEN i % 11 <> 3 THEN ARRAY(
            SELECT CASE WHEN i % 13 = 5 AND j = 1 THEN NULL ELSE sin(i + 3 * j) END
            FROM generate_series(0, cardinality((model).coef) - 1) AS j) END AS x
        FROM generate_series(1, 1000) AS i JOIN models ON g = (i * 7 / 3) % 5""")
    return weights


def expected_of(i, g, weights):
    w = weights[g]
    if i % 11 == 3 or (i % 13 == 5 and len(w) > 1):
        return None
    return float(w @ np.sin(i + 3 * np.arange(len(w)))) + g


@pytest.mark.parametrize("order", ["i", "g, i"])
def test_join_with_many_models(pg, points, order):
    query = f"""
        SELECT i, g, predict(model, x) FROM points JOIN models USING (g) ORDER BY {order}"""
    sorted_first = f"""
        SELECT i, g, predict(model, x) FROM (
            SELECT i, g, x, model FROM points JOIN models USING (g) ORDER BY {order} OFFSET 0) t"""
    for statement in (query, sorted_first):
        for i, g, found in pg.execute(statement):
            check(found, expected_of(i, g, points))


def test_models_in_plpgsql(pg, points):
    """Variables of a procedure are other memory than rows, and models take their places in it."""
    pg.execute("""
        CREATE FUNCTION pg_temp.score() RETURNS TABLE (i int, g int, p float8)
        LANGUAGE plpgsql AS $$
        DECLARE m tuskml_model; r record;
        BEGIN
            FOR r IN SELECT points.i, points.g, x FROM points ORDER BY points.i LIMIT 200 LOOP
                SELECT (model).* INTO m FROM models WHERE models.g = r.g;
                i := r.i; g := r.g; p := predict(m, r.x);
                RETURN NEXT;
                m.intercept := m.intercept + 1; m := with_payload(m); p := predict(m, r.x) - 1;
                RETURN NEXT;
            END LOOP;
        END $$""")
    rows = pg.execute("SELECT * FROM pg_temp.score()").fetchall()
    assert len(rows) == 400
    for i, g, found in rows:
        check(found, expected_of(i, g, points))


def test_a_model_that_was_refused_is_not_kept(pg):
    good = model("linear")
    pg.execute("CREATE TEMP TABLE pair (i int, m tuskml_model)")
    for i in range(3):
        pg.execute(f"INSERT INTO pair VALUES (%(i)s, {POSTGRES_MODEL})", good | {"i": i})
    pg.execute("UPDATE pair SET m.payload = overlay((m).payload PLACING 'x' FROM 20) WHERE i = 1")
    pg.execute("""
        CREATE FUNCTION pg_temp.try(m tuskml_model) RETURNS float8 LANGUAGE plpgsql AS $$
        BEGIN RETURN decision(m, ARRAY[1.0, 1.0, 1.0]);
        EXCEPTION WHEN data_corrupted THEN RETURN NULL; END $$""")
    rows = pg.execute("SELECT pg_temp.try(m) FROM pair ORDER BY i").fetchall()
    assert rows == [(-0.25,), (None,), (-0.25,)]


def test_predictions_in_parallel_workers(connect, points):
    session = connect()
    query = "SELECT sum(decision(model, x)) FROM points JOIN models USING (g)"
    session.execute("SET max_parallel_workers_per_gather = 0")
    serial = value(session, query)
    session.execute(PARALLEL)
    plan = "\n".join(line for (line,) in session.execute(f"EXPLAIN {query}"))
    assert "Parallel" in plan
    assert value(session, query) == pytest.approx(serial, rel=1e-9)


# --- model_summary ---


def summary(pg, m, columns="*"):
    return pg.execute(f"SELECT {columns} FROM model_summary({POSTGRES_ROW})", m).fetchall()


def test_summary(pg):
    m = model("linear", coef=[2.0, -3.0], std_err=[0.5, 1.0, 1.5], n_rows=10)
    p = [2 * stats.t.sf(t, 7) for t in (0.5, 2, 2)]
    rows = summary(pg, m)
    assert [row[:6] for row in rows] == [
        (0, "intercept", 0.25, 0.5, "t", 0.5),
        (1, "x1", 2.0, 1.0, "t", 2.0),
        (2, "x2", -3.0, 1.5, "t", -2.0),
    ]
    assert [row[6] for row in rows] == pytest.approx(p, rel=1e-12)
    m = model(coef=[2.0], std_err=[0.0, 1.0], n_rows=10)
    rows = summary(pg, m, "test, statistic, p_value")
    assert rows == [("z", math.inf, 0.0), ("z", 2.0, pytest.approx(2 * stats.norm.sf(2)))]


def test_summary_of_models_with_less(pg):
    assert summary(pg, model(coef=None)) == []
    assert pg.execute("SELECT * FROM model_summary(NULL)").fetchall() == []
    rows = summary(pg, model("svm", coef=[1.0]))
    assert [row[3:] for row in rows] == [
        (None, None, None, None, None, None, None, "no standard errors: 'svm' models have none")
    ] * 2
    rows = summary(pg, model("linear", coef=[0.0], intercept=0.0, std_err=[0.0, None], n_rows=3))
    undetermined = "the rows do not determine this coefficient"
    assert [(math.isnan(rows[0][5]), *rows[0][6:]), rows[1][5:]] == [
        (True, None, 0.0, 0.0, None, None), (None, None, None, None, None, undetermined)
    ]  # fmt: skip


def test_summary_of_each_row(pg, points):
    query = """
        SELECT g, count(*), max(feature) FROM models, LATERAL model_summary(model)
        GROUP BY g ORDER BY g"""
    rows = pg.execute(query).fetchall()
    assert rows == [(g, len(w) + 1, len(w)) for g, w in points.items()]


def test_summary_first_thing_in_a_session(connect):
    m = model("linear", coef=[2.0], std_err=[0.5, 1.0], n_rows=10)
    assert summary(connect(), m, "p_value")[1][0] == pytest.approx(2 * stats.t.sf(2, 8), rel=1e-12)


# --- rights ---


@contextmanager
def acting_as(pg, role):
    pg.execute(f"CREATE ROLE {role}")
    pg.execute(f"SET ROLE {role}")
    try:
        yield
    finally:
        pg.execute("RESET ROLE")
        pg.execute(f"DROP ROLE {role}")


def test_anybody_may_use_them_but_not_their_parts(pg):
    m = model("linear", coef=[2.0], std_err=[0.5, 1.0], n_rows=10)
    with acting_as(pg, "tusk_scalars_reader"):
        assert len(summary(pg, m)) == 2
        assert ask_postgres(pg, f"predict({POSTGRES_MODEL}, ARRAY[1.0])", m) == 2.25
        assert value(pg, "SELECT auc(i % 2, i) FROM generate_series(1, 4) AS i") == 0.25
    query = """
        SELECT proname FROM pg_proc
        WHERE proname LIKE '\\_tuskml\\_%' AND has_function_privilege('public', oid, 'EXECUTE')
          AND 'internal'::regtype = ANY (proargtypes)"""
    assert pg.execute(query).fetchall() == []


def test_no_function_follows_the_search_path(pg):
    """Who puts a schema first must not lend its functions and operators to those here."""
    query = """
        SELECT proname FROM pg_proc JOIN pg_depend ON objid = pg_proc.oid AND deptype = 'e'
        JOIN pg_extension e ON e.oid = refobjid AND extname = 'tuskml'
        JOIN pg_language l ON l.oid = prolang
        WHERE lanname <> 'c' AND prokind <> 'a' AND proconfig IS NULL"""
    assert pg.execute(query).fetchall() == []
