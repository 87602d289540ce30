"""The step of a stored training depends on the rows alone, and raises no loss above the start."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import tuskml

HOW = {"algorithm": "hogbatch", "l2": 1e-6, "max_iter": 3, "deterministic": True}


@pytest.fixture
def con(tmp_path: Path) -> Any:
    found = tuskml.connect(store_root=tmp_path)
    found.execute(
        "CREATE TABLE t AS SELECT i, list(id ORDER BY id) AS ids, hash(i) % 2 = 0 AS y FROM "
        "(SELECT DISTINCT i, 1 + hash(i * 131 + k) % 200000 AS id "
        "FROM range(600) t(i), range(30) u(k)) "
        "GROUP BY i"
    )
    return found


def trained(con: Any, name: str, **more: Any) -> dict[str, Any]:
    given = json.dumps({**HOW, "store": name, **more})
    features = "sparse(ids::BIGINT[], list_transform(ids, lambda _: 1.0))"
    call = f"train_model('logistic', y, {features}, '{given}')"
    model = con.execute(f"SELECT {call} FROM t").fetchall()[0][0]
    return model | {"step": json.loads(model["options"])["step"]}


def test_neither_cache_nor_layout_changes_the_step(con: Any) -> None:
    plain = trained(con, "plain")
    others = (
        {"cache": "16MB"},
        {"partition": 0, "cache": "16MB"},
        {"partition": 1000, "layout": "auto", "cache": "16MB"},
        {"layout": "paper", "cache": "16MB"},
    )
    for k, given in enumerate(others):
        found = trained(con, f"s{k}", **given)
        assert found["step"] == plain["step"]
        assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)
    assert plain["loss"] < 0.1


@pytest.mark.parametrize("more", [{}, {"validation": 0.1}, {"warm_start": "plain"}])
def test_no_loss_is_above_the_start_without_a_status(con: Any, more: dict[str, Any]) -> None:
    start = trained(con, "plain")["loss"] if "warm_start" in more else math.log(2)
    for step in ("auto", 1e5):
        found = trained(con, "s", step=step, **more)
        assert found["loss"] <= start * 1.02 or found["status"] == "diverged"
        assert found["step"] < 1e5
