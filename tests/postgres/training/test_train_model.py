"""train_model wherever SQL allows an aggregate."""

# ruff: noqa: E501, SQL is read better on one line

import json

import numpy as np
import psycopg
import pytest
from queries import (
    EXACT,
    LINEAR,
    ROWS,
    SERIAL,
    by_group,
    counted,
    fetch,
    least_squares,
    model,
    one,
    plan,
    settings,
    weights,
)

from tuskml.udas.model_fields import MODEL_FIELDS


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE rows")


def test_group_by(pg: psycopg.Connection) -> None:
    found = by_group(pg, "train_model('linear', y, x)")
    assert len(found) == 7
    for g, m in found:
        assert weights(m) == pytest.approx(least_squares(pg, f"g = {g}"), rel=1e-9)
        assert (m["n_rows"], m["n_skipped"], m["n_features"]) == (
            one(pg, f"SELECT count(*) FROM rows WHERE g = {g}"),
            0,
            2,
        )


def test_filter(pg: psycopg.Connection) -> None:
    sql = """SELECT to_json(train_model('linear', y, x) FILTER (WHERE even)), to_json(train_model('linear', y, x) FILTER (WHERE a < 0.5)),
                    train_model('linear', y, x) FILTER (WHERE a < 0) IS NULL FROM rows"""
    even, low, none = fetch(pg, sql)[0]
    assert weights(even) == pytest.approx(least_squares(pg, "even"), rel=1e-9)
    assert weights(low) == pytest.approx(least_squares(pg, "a < 0.5"), rel=1e-9)
    assert none


def test_no_rows(pg: psycopg.Connection) -> None:
    assert model(pg, "SELECT train_model('linear', y, x) FROM rows WHERE false") is None
    assert (
        fetch(pg, "SELECT g, train_model('linear', y, x) FROM rows WHERE false GROUP BY g") == []
    )
    assert one(pg, "SELECT explain_training('linear', y, x) FROM rows WHERE false") is None
    assert one(pg, "SELECT train_model('no task', y, x) FROM rows WHERE false") is None


def test_distinct_on_of_a_join(pg: psycopg.Connection) -> None:
    joined = """SELECT DISTINCT ON (r.a) r.a, r.b, r.y FROM rows AS r JOIN rows AS s ON r.g = s.g AND s.i < 50
                ORDER BY r.a, r.i DESC, s.i"""
    found = model(pg, f"SELECT train_model('linear', y, ARRAY[a, b]) FROM ({joined}) AS j")
    data = np.array(fetch(pg, f"SELECT 1, a, b, y FROM ({joined}) AS j"))
    assert found["n_rows"] == len(data) == 1000
    assert weights(found) == pytest.approx(
        np.linalg.lstsq(data[:, :3], data[:, 3], rcond=None)[0], rel=1e-9
    )


def test_order_by_and_distinct_within_the_call(pg: psycopg.Connection) -> None:
    usual = by_group(pg)
    assert by_group(pg, f"train_model('linear', y, x, {EXACT} ORDER BY i DESC)") == usual
    twice = "(SELECT * FROM rows UNION ALL SELECT * FROM rows) AS t"
    assert by_group(
        pg, f"train_model(DISTINCT 'linear', y, x, {EXACT})", source=twice
    ) == by_group(pg, LINEAR, source="(SELECT DISTINCT g, y, x FROM rows) AS t")


def test_tables_and_views(pg: psycopg.Connection) -> None:
    usual = by_group(pg)
    pg.execute(f"CREATE TABLE models AS SELECT g, {LINEAR} AS m FROM rows GROUP BY g")
    pg.execute(f"CREATE VIEW fresh AS SELECT g, {LINEAR} AS m FROM rows GROUP BY g")
    pg.execute("CREATE MATERIALIZED VIEW kept AS SELECT * FROM fresh")
    pg.execute(f"INSERT INTO models SELECT 100 + g, {LINEAR} FROM rows GROUP BY g")
    for relation in ("models WHERE g < 100", "fresh", "kept"):
        assert counted(fetch(pg, f"SELECT g, to_json(m) FROM {relation} ORDER BY g")) == usual
    assert (
        counted(fetch(pg, "SELECT g - 100, to_json(m) FROM models WHERE g >= 100 ORDER BY g"))
        == usual
    )
    pg.execute("DROP TABLE models; DROP VIEW fresh CASCADE")


def test_models_outlive_dump_and_copy(pg: psycopg.Connection) -> None:
    """A model is a value: as text and back it is the same."""
    pg.execute(f"CREATE TABLE models AS SELECT g, {LINEAR} AS m FROM rows GROUP BY g")
    pg.execute("CREATE TABLE again (g integer, m tuskml_model)")
    with pg.cursor().copy("COPY models TO STDOUT") as out:
        text = b"".join(bytes(part) for part in out)
    with pg.cursor().copy("COPY again FROM STDIN") as copy:
        copy.write(text)
    assert fetch(
        pg,
        "SELECT count(*) FROM models JOIN again USING (g) WHERE models.m IS NOT DISTINCT FROM again.m",
    ) == [(7,)]
    pg.execute("DROP TABLE models, again")


def test_prepared_statement(pg: psycopg.Connection) -> None:
    pg.execute(
        "PREPARE fit(text, float8) AS SELECT to_json(train_model('linear', y, x, $1)) FROM rows WHERE a < $2"
    )
    for _ in range(8):  # after five times the plan is generic
        for limit in (0.3, 0.9):
            found = one(pg, f"EXECUTE fit('{{}}', {limit})")
            assert weights(found) == pytest.approx(least_squares(pg, f"a < {limit}"), rel=1e-9)
    assert one(pg, "EXECUTE fit('{\"l2\": 1}', 1)")["options"].count('"l2":1.0') == 1
    pg.execute("DEALLOCATE fit")
    sql = "SELECT to_json(train_model(%s, y, x, %s)) FROM rows"
    for _ in range(8):
        found = pg.execute(sql, ("linear", '{"l2": 0}'), prepare=True).fetchone()[0]
        assert weights(found) == pytest.approx(least_squares(pg), rel=1e-9)


@pytest.mark.parametrize(
    "sets", ["GROUPING SETS ((g), (even), ())", "ROLLUP (g, even)", "CUBE (g, even)"]
)
@pytest.mark.parametrize("hashed", ["on", "off"])
def test_grouping_sets(pg: psycopg.Connection, sets: str, hashed: str) -> None:
    sql = f"SELECT g, even, to_json({LINEAR}) FROM rows GROUP BY {sets} ORDER BY g, even"
    with settings(pg, enable_hashagg=hashed):
        found = counted(fetch(pg, sql))
        shape = plan(pg, sql)
    assert ("MixedAggregate" in shape) == (hashed == "on"), shape
    assert len(found) == {"G": 7 + 2 + 1, "R": 14 + 7 + 1, "C": 14 + 7 + 2 + 1}[sets[0]]
    for g, even, m in found:
        where = " AND ".join(
            f"{key} = {value}" for key, value in (("g", g), ("even", even)) if value is not None
        )
        assert counted([(model(pg, f"SELECT {LINEAR} FROM rows WHERE {where or 'true'}"),)]) == [
            (m,)
        ]


def test_cursor_that_is_left_early(pg: psycopg.Connection) -> None:
    usual = dict(by_group(pg))
    for close in ("CLOSE c", "ROLLBACK", "COMMIT"):
        pg.execute("BEGIN")
        pg.execute(f"DECLARE c CURSOR FOR SELECT g, to_json({LINEAR}) FROM rows GROUP BY g")
        found = counted(fetch(pg, "FETCH 2 FROM c") + fetch(pg, "FETCH 1 FROM c"))
        assert len(found) == 3
        assert all(usual[g] == m for g, m in found)
        pg.execute(close)
        pg.execute("COMMIT" if close == "CLOSE c" else "SELECT 1")
    pg.execute(
        f"DECLARE kept CURSOR WITH HOLD FOR SELECT g, to_json({LINEAR}) FROM rows GROUP BY g"
    )
    assert dict(counted(fetch(pg, "FETCH ALL FROM kept"))) == usual
    pg.execute("CLOSE kept")


def test_two_cursors_side_by_side(pg: psycopg.Connection) -> None:
    usual = dict(by_group(pg))
    with pg.transaction():
        for name in ("c", "d"):
            pg.execute(
                f"DECLARE {name} CURSOR FOR SELECT g, to_json({LINEAR}) FROM rows GROUP BY g"
            )
        found = [fetch(pg, f"FETCH 1 FROM {name}") for _ in range(7) for name in ("c", "d")]
    assert all(usual[g] == m for [(g, m)] in map(counted, found))


def test_plpgsql(pg: psycopg.Connection) -> None:
    usual = dict(by_group(pg))
    pg.execute(f"""CREATE FUNCTION fit(wanted integer) RETURNS tuskml_model LANGUAGE plpgsql AS $$
        DECLARE m tuskml_model;
        BEGIN
            m := (SELECT {LINEAR} FROM rows WHERE g = wanted);
            RETURN m;
        END $$""")
    pg.execute("""CREATE FUNCTION fit_all() RETURNS TABLE (wanted integer, m tuskml_model) LANGUAGE plpgsql AS $$
        BEGIN
            FOR wanted IN SELECT DISTINCT g FROM rows LOOP
                m := fit(wanted);
                RETURN NEXT;
            END LOOP;
        END $$""")
    for _ in range(2):
        assert dict(counted(fetch(pg, "SELECT wanted, to_json(m) FROM fit_all()"))) == usual
    pg.execute("DROP FUNCTION fit_all; DROP FUNCTION fit")


def test_a_training_within_a_training(pg: psycopg.Connection) -> None:
    """The label of the outer one is a coefficient of the inner ones."""
    pg.execute("""CREATE FUNCTION slope_of(wanted integer) RETURNS float8 LANGUAGE sql AS
                  $$ SELECT (train_model('linear', y, x)).coef[1] FROM rows WHERE g = wanted $$""")
    found = model(
        pg, "SELECT train_model('linear', slope_of(g), ARRAY[g]) FROM generate_series(0, 6) AS g"
    )
    slopes = [least_squares(pg, f"g = {g}")[1] for g in range(7)]
    assert weights(found) == pytest.approx(
        np.polynomial.polynomial.polyfit(range(7), slopes, 1), rel=1e-6
    )
    pg.execute("DROP FUNCTION slope_of")


def test_all_fields_of_one_training(pg: psycopg.Connection) -> None:
    """`.*` is an expression per field: the seconds tell trainings apart."""
    cursor = pg.execute(
        "SELECT train_model('linear', y, x) AS m, (train_model('linear', y, x)).* FROM rows"
    )
    names = [column.name for column in cursor.description or []]
    assert names[1:] == [field.name for field in MODEL_FIELDS]
    row = cursor.fetchone()
    again = one(pg, "SELECT (%s::tuskml_model).seconds", (row[0],))
    assert again == row[names.index("seconds")] > 0


def test_having(pg: psycopg.Connection) -> None:
    pg.execute(
        "CREATE TABLE mixed AS SELECT g, y, x FROM rows WHERE g < 5 AND i < 500 OR g = 5 AND i < 10"
    )
    sql = "SELECT g FROM mixed GROUP BY g HAVING (train_model('linear', y, x)).status = 'ok' ORDER BY g"
    assert fetch(pg, sql) == [(g,) for g in range(5)]
    pg.execute("DROP TABLE mixed")


def test_lateral(pg: psycopg.Connection) -> None:
    sql = f"SELECT k, to_json(m) FROM generate_series(0, 6) AS k, LATERAL (SELECT {LINEAR} AS m FROM rows WHERE g = k) AS t ORDER BY k"
    assert counted(fetch(pg, sql)) == by_group(pg)
    sql = f"SELECT k, to_json((SELECT {LINEAR} FROM rows WHERE g = k)) FROM generate_series(0, 6) AS k ORDER BY k"
    assert counted(fetch(pg, sql)) == by_group(pg)


def test_rescans_of_one_hash_table(pg: psycopg.Connection) -> None:
    """The inner side of a nested loop is asked for the same groups again: it need not train again."""
    sql = f"""SELECT k, g, to_json(m) FROM generate_series(1, 3) AS k
              LEFT JOIN (SELECT g, {LINEAR} AS m FROM rows GROUP BY g) AS t ON k + g < 100 ORDER BY k, g"""
    with settings(
        pg, enable_material="off", enable_hashjoin="off", enable_mergejoin="off", **SERIAL
    ):
        shape = plan(pg, sql, analyze=True)
        found = fetch(pg, sql)
    assert "Nested Loop" in shape
    assert "HashAggregate (actual rows=7 loops=3)" in shape
    assert [row[1:] for row in counted(found)] == by_group(pg) * 3
    assert len({row[2]["seconds"] for row in found}) <= 7


def test_rescans_with_other_rows(pg: psycopg.Connection) -> None:
    sql = f"""SELECT k, g, to_json(m) FROM generate_series(1, 3) AS k,
              LATERAL (SELECT g, {LINEAR} AS m FROM rows WHERE i % k = 0 GROUP BY g OFFSET 0) AS t ORDER BY k, g"""
    for hashed in ("on", "off"):
        with settings(pg, enable_hashagg=hashed, **SERIAL):
            found = counted(fetch(pg, sql))
        for k in (1, 2, 3):
            source = f"(SELECT * FROM rows WHERE i % {k} = 0) AS t"
            assert [row[1:] for row in found if row[0] == k] == by_group(pg, source=source)


def test_no_window(pg: psycopg.Connection) -> None:
    for over in ("OVER ()", "OVER (PARTITION BY g)", "OVER (ORDER BY i)"):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="use as a window function"):
            pg.execute(f"SELECT train_model('linear', y, x) {over} FROM rows")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        pg.execute("SELECT explain_training('linear', y, x) OVER () FROM rows")


def test_several_in_one_query(pg: psycopg.Connection) -> None:
    """Same rows, other settings: each its own model."""
    tasks = ["linear', y", "logistic', positive", "svm', positive", "linear', a"]
    calls = [f"train_model('{task}, x, {EXACT})" for task in tasks]
    sql = f"SELECT g, {', '.join(f'to_json({call})' for call in calls)} FROM rows GROUP BY g ORDER BY g"
    found = counted(fetch(pg, sql))
    for place, call in enumerate(calls, 1):
        assert [(row[0], row[place]) for row in found] == by_group(pg, call)


def test_task_and_options_by_group(pg: psycopg.Connection) -> None:
    call = """train_model(CASE WHEN g < 3 THEN 'linear' ELSE 'logistic' END, CASE WHEN g < 3 THEN y ELSE positive::int END, x,
                          CASE WHEN g % 2 = 0 THEN '{"deterministic": true, "l2": 0.01}' ELSE '{"deterministic": true, "l2": 1}' END)"""
    for g, m in by_group(pg, call):
        task, label = ("linear", "y") if g < 3 else ("logistic", "positive::int")
        options = f"'{json.dumps({'deterministic': True, 'l2': 0.01 if g % 2 == 0 else 1})}'"
        assert counted(
            [
                (
                    model(
                        pg,
                        f"SELECT train_model('{task}', {label}, x, {options}) FROM rows WHERE g = {g}",
                    ),
                )
            ]
        ) == [(m,)]


def test_a_model_of_the_hinge_is_ok_within_half_of_epsilon_alone(pg: psycopg.Connection) -> None:
    """Whatever trains it: rows whose least objective newton's gap tells to nine digits."""
    rows = "(SELECT i % 3 = 0 OR i % 7 = 1 AS y, sin(i) AS a, 1000 * cos(i) AS b FROM generate_series(1, 400) t(i)) r"
    asked = {
        name: f'{{"algorithm": "{name}", "l2": 0.01, "epsilon": 0.001}}'
        for name in ("newton", "lbfgs", "dcd", "svrg", "sgd", "hogwild")
    }
    exact = '{"algorithm": "newton", "l2": 0.01, "epsilon": 1e-9}'
    calls = [f"train_model('svm', y, ARRAY[a, b], '{text}')" for text in (exact, *asked.values())]
    fields = ", ".join(f"({call}).loss, ({call}).status" for call in calls)
    found = pg.execute(f"SELECT {fields} FROM {rows}").fetchone()
    assert found is not None
    least, status, *others = found
    assert status == "ok"
    ends = dict(zip(asked, zip(others[::2], others[1::2], strict=True), strict=True))
    assert ends["newton"][1] == "ok"
    for loss, status in ends.values():
        assert status in ("ok", "not converged")
        assert status == "not converged" or loss <= least + 0.001 / 2 + 1e-9
