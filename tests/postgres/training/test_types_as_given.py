"""Types of a caller's own: domains, options as json and jsonb, and ids that doubles round."""

import json

import psycopg
import pytest
from psycopg.types.json import Json, Jsonb

DOMAINS = """
CREATE DOMAIN quantity AS numeric CHECK (VALUE >= -1000);
CREATE DOMAIN few AS quantity CHECK (VALUE < 1000);
CREATE DOMAIN word AS text;
CREATE DOMAIN word_list AS word[];
CREATE DOMAIN pair AS float8[];
CREATE TABLE given AS
SELECT i % 3 AS g, (i * 7 % 11)::few AS x, (i % 5)::quantity AS z,
       (3 * (i * 7 % 11) + i % 5)::few AS y,
       (CASE WHEN i % 11 > 4 THEN 'late' ELSE 'on time' END)::word AS arrival,
       ARRAY['a', 'b']::word_list AS words
FROM generate_series(1, 120) AS t(i);
"""
OPTIONS = {"l2": 0.5, "max_iter": 40}


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    """A table whose columns are domains."""
    pg.execute(DOMAINS)


def coefficients(pg: psycopg.Connection, call: str, *given: object) -> list[float]:
    """Of a model that a call in SQL makes of the table."""
    found = pg.execute(f"SELECT (m).intercept || (m).coef FROM (SELECT {call} AS m) q", given)
    return found.fetchone()[0]


def of_rows(call: str) -> str:
    """A training as an expression."""
    return f"(SELECT {call} FROM given)"


@pytest.mark.parametrize("task", ["linear", "gbdt", "quantile", "mlp"])
@pytest.mark.parametrize(
    "features",
    [
        "ARRAY[x, z]",
        "ARRAY[x, z]::quantity[]",
        "ARRAY[x, z]::few[]",
        "ARRAY[x, z]::pair",
        "sparse(ARRAY[0, 1]::few[], ARRAY[x, z]::pair)",
        "given",
    ],
)
def test_domains(pg: psycopg.Connection, task: str, features: str) -> None:
    """A domain is what it is made of: in labels, arrays, rows and predictions."""
    if features.startswith("sparse") and task in ("gbdt", "mlp"):
        pytest.skip("they take no such features")
    row = "(SELECT r FROM (SELECT x, z) AS r)" if features == "given" else features
    plain = row.replace("x, z", "x::float8, z::float8")
    plain = (
        plain.replace("::quantity[]", "")
        .replace("ARRAY[0, 1]::few[]", "ARRAY[0, 1]")
        .replace("::few[]", "")
        .replace("::pair", "")
    )
    found = {}
    for label, given in (("y", row), ("y::float8", plain)):
        model = of_rows(f"train_model('{task}', {label}, {given}, '{{\"max_iter\": 30}}')")
        model = model.replace("max_iter", "trees") if task == "gbdt" else model
        asked = f"SELECT sum(predict(m, {given})) FROM given, {model} AS q(m)"
        found[label] = pg.execute(asked).fetchone()[0]
    assert found["y"] == pytest.approx(found["y::float8"], rel=1e-12)


def test_domains_of_text(pg: psycopg.Connection) -> None:
    """Labels, categories and documents."""
    model = of_rows("train_model('logistic', arrival, ARRAY[x, z]::few[])")
    asked = f"SELECT (m).class_names, predict_class(m, ARRAY[9, 1]::few[]) FROM {model} AS q(m)"
    assert pg.execute(asked).fetchone() == (["late", "on time"], "late")
    topics = of_rows("train_model('lda', NULL::text, words, '{\"topics\": 2}')")
    assert pg.execute(f"SELECT (m).status FROM {topics} AS q(m)").fetchone()


@pytest.mark.parametrize("features", [["x"], ["x", "z"]])
def test_domains_in_a_table(pg: psycopg.Connection, features: list[str]) -> None:
    """train('t', ...) of columns that are domains, of domains too."""
    listed = "ARRAY[" + ", ".join(f"'{one}'" for one in features) + "]"
    array = "ARRAY[" + ", ".join(f"{one}::float8" for one in features) + "]"
    expected = coefficients(pg, of_rows(f"train_model('linear', y::float8, {array})"))
    found = coefficients(pg, f"train('given', 'linear', 'y', {listed})")
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["json", "jsonb"])
@pytest.mark.parametrize(
    "features", ["ARRAY[x, z]::float8[]", "sparse(ARRAY[0, 1], ARRAY[x, z]::float8[])", "r"]
)
@pytest.mark.parametrize("extras", ["", ", 2.0::float8", ", 2.0::float8, 0.0::float8"])
def test_options(pg: psycopg.Connection, kind: str, features: str, extras: str) -> None:
    """As json and jsonb they are what they are as text, beside any features."""
    task = "poisson" if extras.count(",") > 1 else "linear"
    source = "(SELECT *, (SELECT r FROM (SELECT x, z) AS r) AS r FROM given) AS s"
    text = json.dumps({**OPTIONS, "deterministic": True})
    asked = "SELECT (m).coef, (m).intercept FROM (SELECT {0}) AS q(m)"
    call = f"train_model('{task}', y::float8 + 1, {features}, {{}}{extras}) FROM {source}"
    expected = pg.execute(asked.format(call.format(f"'{text}'"))).fetchone()
    coef, intercept = pg.execute(asked.format(call.format(f"'{text}'::{kind}"))).fetchone()
    assert [*coef, intercept] == pytest.approx([*expected[0], expected[1]], rel=1e-12)
    plan = f"explain_training('{task}', y::float8, {features}, '{text}'::{kind}{extras})"
    assert pg.execute(f"SELECT {plan} FROM {source}").fetchone()


@pytest.mark.parametrize("kind", [Json, Jsonb])
def test_options_as_parameters(pg: psycopg.Connection, kind: type) -> None:
    """As a client sends a dictionary, by model, by table and by group."""
    expected = coefficients(
        pg, of_rows("train_model('linear', y, ARRAY[x], '{\"l2\": 0.5, \"max_iter\": 40}')")
    )
    call = of_rows("train_model('linear', y, ARRAY[x], %s)")
    assert coefficients(pg, call, kind(OPTIONS)) == expected
    table = "train('given', 'linear', 'y', ARRAY['x'], %s)"
    assert coefficients(pg, table, kind(OPTIONS)) == expected
    groups = pg.execute(
        "SELECT g, (model).status FROM train('given', 'linear', 'y', ARRAY['x'], ARRAY['g'], %s) "
        "AS t(g integer, model tuskml_model) ORDER BY g",
        [kind(OPTIONS)],
    ).fetchall()
    assert groups == [(0, "ok"), (1, "ok"), (2, "ok")]


def test_options_of_other_types(pg: psycopg.Connection) -> None:
    """One sentence for others; an unknown option is refused as in text."""
    for given, sentence in (
        ("0.1", "options is numeric, expected an object of JSON as text, json or jsonb"),
        ("""'{"l3": 1}'::jsonb""", "option 'l3'"),
    ):
        with pytest.raises(psycopg.Error, match=sentence):
            pg.execute(f"SELECT train_model('linear', y, ARRAY[x], {given}) FROM given")


@pytest.mark.parametrize("kind", ["bigint", "numeric", "float8"])
@pytest.mark.parametrize("role", ["categories", "cluster", "fold_by", "time_by"])
def test_rounded_numbers(pg: psycopg.Connection, kind: str, role: str) -> None:
    """Ids of 2^53 and more name nothing, as doubles round them."""
    options = {role: ["id"] if role == "categories" else "id"}
    options |= {"l2": [0.1, 1]} if role.endswith("_by") else {}
    source = (
        f"(SELECT y, r FROM (SELECT x, (9007199254740993 + g)::{kind} AS id, y FROM given) AS s, "
        "LATERAL (SELECT s.x, s.id) AS r) AS t"
    )
    call = f"train_model('linear', y, r, '{json.dumps(options)}')"
    found = pg.execute(f"SELECT ({call}).status, ({call}).plan FROM {source}").fetchone()
    assert found is not None
    assert found[0] == "invalid rows"
    assert found[1].startswith(f"option '{role}' names column 'id', which has ")
