"""Sparse ids may be large: a model is that of the ids that occur, in the places of the ids.

What it is compared with is the same training with the ids numbered 0, 1, 2, ... in their order.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import pytest

pytestmark = pytest.mark.fault(family="bad input by name")

ROWS = """
CREATE OR REPLACE TABLE r AS SELECT i % 3 AS g, (i * 7919) % 1000 < 400 + 100 * (i % 7) AS y,
    [i % 7, 7 + i % 5, 12 + (i * 31) % 40] AS ids, [1.0, sin(i), cos(i % 11)]::{type}[] AS x
FROM range({rows}) t(i)
"""
STRIDE = 1_500
"""52 ids as multiples of it: 78,000 features."""
PATHS = {"by a bitmap": 6_000, "by sorting": 600}
"""Rows, of three entries in three groups: ids are sorted where entries are few for them."""


def trained(
    con: duckdb.DuckDBPyConnection, stride: int, options: str, task: str = "logistic"
) -> dict[int, dict[str, Any]]:
    ids = (
        f"list_transform(ids, lambda k: (k * {stride} + k % 3)::INTEGER)" if stride > 1 else "ids"
    )
    query = f"SELECT g, train_model('{task}', y::INT, sparse({ids}, x), '{options}') FROM r GROUP BY g ORDER BY g"
    return dict(con.execute(query).fetchall())


def compact(coef: list[float], stride: int) -> list[float]:
    """The coefficients of ids that occur; all others must be 0."""
    found = [coef[k * stride + k % 3] for k in range(52)]
    assert sum(c != 0 for c in coef) == sum(c != 0 for c in found)
    return found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("task", "options"),
    [("logistic", {"algorithm": a, "max_iter": 5, "l2": 0.01}) for a in ("lbfgs", "newton_cg", "newton", "bgd", "sgd", "svrg")]
    + [("svm", {"algorithm": "dcd", "l2": 0.1}), ("linear", {}), ("logistic", {"l1": 0.001})],
)  # fmt: skip
def test_the_model_of_the_ids_that_occur(
    con: duckdb.DuckDBPyConnection, path: str, task: str, options: dict[str, Any]
) -> None:
    con.execute(ROWS.format(type="DOUBLE", rows=PATHS[path]))
    text, stride = json.dumps(options | {"deterministic": True}), STRIDE
    plain, large = trained(con, 1, text, task), trained(con, stride, text, task)
    for g in range(3):
        a, b = plain[g], large[g]
        width = 1 + max(k * stride + k % 3 for k in range(52))
        assert (b["n_features"], len(b["coef"])) == (width, width)
        assert b["intercept"] == pytest.approx(a["intercept"], rel=1e-9, abs=1e-12)
        assert compact(b["coef"], stride) == pytest.approx(a["coef"], rel=1e-9, abs=1e-12)
        assert (b["loss"], b["status"], b["n_rows"]) == pytest.approx(
            (a["loss"], a["status"], a["n_rows"])
        )


def test_alone_and_in_groups_it_is_the_same(con: duckdb.DuckDBPyConnection) -> None:
    """To the bit, though groups have other ids."""
    con.execute(ROWS.format(type="FLOAT", rows=600))
    con.execute("UPDATE r SET ids = [ids[1] * 9000, ids[2] * 9000, ids[3] * 9000 + g]")
    options = '{"deterministic": true, "l2": 0.01}'
    query = "SELECT train_model('logistic', y, sparse(ids, x), '{}') FROM r WHERE g = {}"
    for g, model in trained(con, 1, options).items():
        ((alone,),) = con.execute(query.format(options, g)).fetchall()
        assert alone["coef"] == model["coef"]
        assert alone["intercept"] == model["intercept"]


def test_a_warm_start_goes_to_its_ids(con: duckdb.DuckDBPyConnection) -> None:
    """At the optimum already: no iteration, and the same coefficients."""
    con.execute(ROWS.format(type="DOUBLE", rows=600))
    stride = STRIDE
    for g, model in trained(con, stride, '{"l2": 0.01, "epsilon": 1e-9}').items():
        start = json.dumps({"coef": model["coef"], "intercept": model["intercept"]})
        again = con.execute(
            f"SELECT train_model('logistic', y::INT, sparse(list_transform(ids, lambda k: (k * {stride} + k % 3)::INTEGER), x), $1) FROM r WHERE g = {g}",
            [f'{{"l2": 0.01, "epsilon": 1e-6, "algorithm": "lbfgs", "warm_start": {start}}}'],
        ).fetchall()[0][0]
        assert again["iterations"] <= 1
        assert compact(again["coef"], stride) == pytest.approx(
            compact(model["coef"], stride), abs=1e-5
        )


def test_a_warm_start_longer_than_the_features(con: duckdb.DuckDBPyConnection) -> None:
    text = json.dumps({"warm_start": {"coef": [1.0] * 70_002}})
    with pytest.raises(
        duckdb.Error, match="warm_start has 70002 coefficients, expected 70001 as the features"
    ):
        con.execute(
            "SELECT train_model('linear', i, sparse([0, 70000], [1.0, i]), $1) FROM range(20) t(i)",
            [text],
        )


def test_predictions_of_ids_that_never_occurred(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE m AS SELECT train_model('linear', 3 * i + 1, sparse([100000], [i]), '{\"epsilon\": 1e-12}') AS m FROM range(20) t(i)"
    )
    found = con.execute(
        "SELECT predict(m, sparse([100000, 5, 99999], [2.0, 9.0, 9.0])) FROM m"
    ).fetchall()
    assert found[0][0] == pytest.approx(7, abs=1e-6)


def test_the_explanation_is_that_of_the_training(con: duckdb.DuckDBPyConnection) -> None:
    rows = "sparse([0, 5000000], [1.0, sin(i)]) FROM range(200) t(i)"
    ((text,),) = con.execute(
        f"SELECT explain_training('linear', i, {rows.replace(' FROM', ') FROM', 1)}"
    ).fetchall()
    ((plan,),) = con.execute(
        f"SELECT train_model('linear', i, {rows.replace(' FROM', ').plan FROM', 1)}"
    ).fetchall()
    assert plan.split()[0] in text


@pytest.mark.parametrize("kind", ["TINYINT", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE",
                                  "DECIMAL(9, 2)"])  # fmt: skip
@pytest.mark.parametrize("form", ["[7, NULL, 0]::{}[]", "[7, NULL, 0]::{}[3]"])
def test_whole_ids_of_any_type(con: duckdb.DuckDBPyConnection, kind: str, form: str) -> None:
    found = con.execute(f"SELECT sparse({form.format(kind)}, [1.0, 2.0, 3.0]) AS s FROM range(3)")
    assert [row[0]["indices"] for row in found.fetchall()] == [[7, None, 0]] * 3
    rows = con.execute(
        f"SELECT sparse(CASE WHEN i % 3 > 0 THEN list_transform(range(i % 7), lambda j: i + j)::{kind}[] END, "
        "[1]) FROM range(100) t(i)"
    ).fetchall()
    for i, (row,) in enumerate(rows):
        assert row["indices"] == (list(range(i, i + i % 7)) if i % 3 else None)
