"""Models whose text a row cannot hold are refused before anything is stored."""

import psycopg
import pytest

LIMIT = 64
"""kB of text; the server's own limit is 1 GB, less 16 MB for other columns."""
MODELS = {
    "logistic": (
        "train_model('logistic', i % 2, sparse(ARRAY[i * {0}], ARRAY[1.0]))",
        "smaller ids of features, or option 'store'",
    ),
    "linear": (
        "train_model('linear', i::float8, (SELECT array_agg(((i * k * k) % 97)::float8) "
        "FROM generate_series(1, {0}) k), '{{\"l2\": 1}}')",
        "smaller ids of features, or option 'store'",
    ),
    "random_forest": (
        "train_model('random_forest', (i * 7 % 13)::float8, ARRAY[i, i * 5 % 17]::float8[], "
        '\'{{"trees": {0}, "min_child_rows": 1}}\')',
        "fewer trees or leaves",
    ),
    "matrix_factorization": (
        "train_model('matrix_factorization', (i % 5)::float8, ARRAY[i % 29, i % 31], "
        '\'{{"rank": {0}, "max_iter": 1}}\')',
        "a smaller option 'rank', or option 'store'",
    ),
    "mlp": (
        "train_model('mlp', (i + i % 3)::float8, ARRAY[i, i % 3]::float8[], "
        '\'{{"layers": [{0}], "max_iter": 1}}\')',
        "smaller layers",
    ),
    "fm": (
        "train_model('fm', (i % 5)::float8, sparse(ARRAY[i], ARRAY[1.0]), "
        '\'{{"rank": {0}, "max_iter": 1}}\')',
        "a smaller option 'rank'",
    ),
    "kmeans": (
        "train_model('kmeans', NULL, sparse(ARRAY[i], ARRAY[1.0]), "
        '\'{{"clusters": {0}, "starts": 1}}\')',
        "fewer centres",
    ),
    "lda": (
        "train_model('lda', NULL::text, (SELECT array_agg(md5((i * 1000 + k)::text)) "
        'FROM generate_series(1, {0}) k), \'{{"topics": 2, "max_iter": 1}}\')',
        "fewer words, or fewer topics",
    ),
}
SIZES = {
    "logistic": 50,
    "linear": 2000,
    "random_forest": 300,
    "matrix_factorization": 64,
    "mlp": 1000,
    "fm": 32,
    "kmeans": 60,
    "lda": 40,
}


@pytest.mark.parametrize("task", MODELS)
def test_large_models(pg: psycopg.Connection, task: str) -> None:
    """What is refused is close to what would be too long, and nothing longer passes."""
    call, smaller = MODELS[task]
    pg.execute("SELECT predict(NULL::tuskml_model, ARRAY[1.0])")
    sizes = (max(2, SIZES[task] // k) for k in (50, 10, 5, 3, 2, 1))
    passed, refused = 0, 0
    for size in sizes:
        asked = f"SELECT {call.format(size)} FROM generate_series(1, 100) AS t(i)"
        pg.execute("RESET tuskml.model_limit")
        [length] = pg.execute(f"SELECT length(m::text) FROM ({asked}) AS q(m)").fetchone()
        pg.execute(f"SET tuskml.model_limit = {LIMIT}")
        if length > LIMIT * 1024:
            with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=smaller):
                pg.execute(asked)
            refused += 1
        elif length < LIMIT * 1024 / 2:
            pg.execute(asked)
            passed += 1
    pg.execute("RESET tuskml.model_limit")
    assert (refused > 0, passed > 0) == (True, True)


def test_names_count(pg: psycopg.Connection) -> None:
    """So do long levels of categories, which are in several fields."""
    pg.execute("SELECT predict(NULL::tuskml_model, ARRAY[1.0])")
    pg.execute(f"SET tuskml.model_limit = {LIMIT}")
    with pytest.raises(
        psycopg.errors.ProgramLimitExceeded, match="as text is more than the 64 kB"
    ):
        pg.execute(
            "SELECT train_model('linear', i::float8, r) FROM generate_series(1, 100) AS t(i), "
            "LATERAL (SELECT repeat((i % 20)::text, 1000) AS k) AS r"
        )
    pg.execute("RESET tuskml.model_limit")


@pytest.mark.parametrize("character", ['"', "\\", "\n", "\t", "a"])
@pytest.mark.parametrize("named", ["levels", "classes"])
def test_characters_that_copy_escapes(pg: psycopg.Connection, character: str, named: str) -> None:
    """COPY, by which pg_dump writes, adds backslashes to what `model::text` has."""
    pg.execute("SELECT predict(NULL::tuskml_model, ARRAY[1.0])")
    call = {
        "levels": "train_model('linear', i::float8, r) AS m FROM generate_series(1, 100) AS t(i), "
        "LATERAL (SELECT repeat({0}, {1}) || i % 20 AS k) AS r",
        "classes": "train_model('logistic', repeat({0}, {1}) || i % 5, ARRAY[i::float8]) AS m "
        "FROM generate_series(1, 100) AS t(i)",
    }[named]
    passed, refused = 0, 0
    for length in (10, 100, 230, 300, 1600, 25_600):
        pg.execute("RESET tuskml.model_limit")
        asked = "SELECT " + call.format("'" + character + "'", length)
        with pg.cursor().copy(f"COPY ({asked}) TO STDOUT") as rows:
            written = sum(len(bytes(row)) for row in rows)
        pg.execute(f"SET tuskml.model_limit = {LIMIT}")
        if written > LIMIT * 1024:
            with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="as text is more than"):
                pg.execute(asked)
            refused += 1
        elif written < LIMIT * 1024 / 2:
            pg.execute(asked)
            passed += 1
    pg.execute("RESET tuskml.model_limit")
    assert (refused > 0, passed > 0) == (True, True)


def test_payloads(pg: psycopg.Connection) -> None:
    """A payload that SQL makes anew has the same limit."""
    pg.execute("SELECT predict(NULL::tuskml_model, ARRAY[1.0])")
    pg.execute(
        "CREATE TABLE kept AS SELECT train_model('logistic', i % 2, sparse(ARRAY[i * 50], "
        "ARRAY[1.0])) AS model FROM generate_series(1, 100) AS t(i)"
    )
    pg.execute(f"SET tuskml.model_limit = {LIMIT}")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="model_payload: a model of"):
        pg.execute("SELECT model_payload(model) FROM kept")
    pg.execute("RESET tuskml.model_limit")


def test_the_default(pg: psycopg.Connection) -> None:
    """Is below what a text may have."""
    pg.execute("SELECT predict(NULL::tuskml_model, ARRAY[1.0])")
    assert pg.execute("SHOW tuskml.model_limit").fetchone() == ("1032191kB",)
    with pytest.raises(psycopg.Error, match="outside the valid range"):
        pg.execute("SET tuskml.model_limit = '1GB'")
