"""A model that does not fit into memory trains into a store unasked, where one is known."""

# ruff: noqa: E501, SQL is read better on one line

import json

import duckdb
import numpy as np
import pytest
from stored_fits import SPARSE

import tuskml
from tuskml.kvstore import StoreRoot, access

pytestmark = pytest.mark.native

WIDE = 500_000
ROWS = f"""
CREATE TABLE t AS SELECT i % 2 AS g, (hash(i) % 2)::DOUBLE AS y,
       [(hash(i * 50 + j) % {WIDE})::INTEGER FOR j IN range(50)] AS ids, [1.0 FOR j IN ids] AS vals
FROM range(12000) AS r(i);
INSERT INTO t SELECT 2, i % 2, [i % 7], [1.0] FROM range(100) AS r(i)
"""
QUERY = f"SELECT train_model('logistic', y, {SPARSE}, $1) FROM t"


def connected(limit="100MB", **given):
    con = tuskml.connect(threads=2, **given)
    con.execute(ROWS)
    con.execute(f"SET memory_limit = '{limit}'")
    return con


def one(con, query, **options):
    ((value,),) = con.execute(query, [json.dumps(options)]).fetchall()
    return value


@pytest.fixture(autouse=True)
def nowhere_told(monkeypatch):
    monkeypatch.delenv("TUSKML_STORE_ROOT", raising=False)


@pytest.mark.nightly
def test_it_trains_into_the_store(tmp_path) -> None:
    with connected(store_root=tmp_path) as con:
        model = one(con, QUERY, max_iter=3)
    assert model["store"].startswith("auto@1:")
    assert model["coef"] is None
    assert "in a store: to train 499,999 weights in memory takes 120 MB of" in model["plan"]
    assert json.loads(model["options"])["cache"] < 64e6, "a part of what there is"
    with StoreRoot(tmp_path).open(model["store"]) as sealed:
        assert np.count_nonzero(sealed.weights(np.arange(WIDE))) > 300_000


def test_with_enough_memory_it_does_not(tmp_path) -> None:
    with connected("1GB", store_root=tmp_path) as con:
        model = one(con, QUERY, max_iter=1)
    assert model["store"] is None
    assert len(model["coef"]) == WIDE - 1
    assert StoreRoot(tmp_path).names() == []


@pytest.mark.nightly
def test_other_groups_stay_in_memory(tmp_path) -> None:
    with connected(store_root=tmp_path) as con:
        query = f"SELECT g, train_model('logistic', y, {SPARSE}, '{{\"max_iter\": 2}}') FROM t GROUP BY g ORDER BY g"
        found = dict(con.execute(query).fetchall())
    assert sorted(found[g]["store"].split(":")[0] for g in (0, 1)) == ["auto@1", "auto@2"]
    assert found[2]["store"] is None
    assert len(found[2]["coef"]) == 7
    assert [found[g]["n_rows"] for g in (0, 1, 2)] == [6000, 6000, 100]


def test_without_a_place_the_refusal_names_the_option() -> None:
    with (
        connected() as con,
        pytest.raises(duckdb.Error, match="memory_limit, or give option 'store'"),
    ):
        one(con, QUERY, max_iter=3)


def test_where_files_are_forbidden_there_is_no_place(tmp_path, monkeypatch) -> None:
    with connected(store_root=tmp_path) as con:
        monkeypatch.setattr(access, "_rules", [lambda account, path: "no files here"])
        with pytest.raises(duckdb.Error, match="or give option 'store'"):
            one(con, QUERY, max_iter=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{"algorithm": "lbfgs"}, {"converge": "gradient"}])
def test_what_a_store_cannot_do_is_refused(tmp_path, options) -> None:
    with connected(store_root=tmp_path) as con, pytest.raises(duckdb.Error, match="no memory"):
        one(con, QUERY, max_iter=3, **options)
    assert StoreRoot(tmp_path).names() == []


def test_the_explanation_says_so(tmp_path) -> None:
    with connected(store_root=tmp_path) as con:
        text = one(con, QUERY.replace("train_model", "explain_training"), format="json")
    found = json.loads(text)
    assert "takes 120 MB of" in found["plan"]["because"]
    (chosen,) = found["candidates"]
    assert chosen["chosen"]
    assert chosen["store_requests"] > 0
    assert chosen["store_bytes"] > WIDE
