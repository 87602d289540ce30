"""The step of a stored training depends on the rows alone, and raises no loss above the start."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import tuskml
from tuskml.kvstore import StoreRoot
from tuskml.learners.linear.stored import run as stored_run

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


def trained(con: Any, name: str, label: str = "y", **more: Any) -> dict[str, Any]:
    given = json.dumps({**HOW, "store": name, **more})
    features = "sparse(ids::BIGINT[], list_transform(ids, lambda _: 1.0))"
    call = f"train_model('logistic', {label}, {features}, '{given}')"
    model = con.execute(f"SELECT {call} FROM t").fetchall()[0][0]
    return model | {"step": json.loads(model["options"])["step"]}


def test_neither_cache_nor_layout_changes_the_step(con: Any) -> None:
    plain = trained(con, "plain")
    others = (
        {"cache": "16MB"},
        {"partition": 0, "cache": "16MB"},
        {"method": "kv", "cache": "16MB"},
        {"method": "kv-vp", "cache": "16MB"},
        {"partition": 1000, "cache": "16MB"},
    )
    for k, given in enumerate(others):
        found = trained(con, f"s{k}", **given)
        assert found["step"] == plain["step"]
        assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)
    assert plain["loss"] < 0.1


@pytest.fixture
def noise(con: Any) -> Any:
    """Labels that few features tell little of, with which long steps lead far away."""
    con.execute("UPDATE t SET ids = list_distinct([id % 50 FOR id IN ids])")
    return con


@pytest.mark.parametrize(
    "more",
    [{}, {"validation": 0.1}, {"l1": 1e-6}, {"partition": 0}, {"time": "0.000001s"}],
    ids=["plain", "held", "penalty", "single", "late"],
)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_what_ends_above_its_start_is_the_start(
    noise: Any, tmp_path: Path, more: dict[str, Any], warm: bool
) -> None:
    start = {"warm_start": "plain"} if warm else {}
    first = trained(noise, "plain", max_iter=10)
    found = trained(noise, "s", step=1e5, l2=0.0, **start, **more)
    assert found["status"] == ("time limit" if "time" in more else "diverged")
    assert not found["converged"]
    assert found["step"] <= 1e5
    with StoreRoot(tmp_path).open(found["store"]) as sealed:
        weights = dict(pairs(sealed))
    if not warm:
        assert found["loss"] == pytest.approx(math.log(2), abs=0.01)
        assert weights == {}
        return
    with StoreRoot(tmp_path).open(first["store"]) as sealed:
        assert weights == dict(pairs(sealed))
    assert found["intercept"] == first["intercept"]
    if not more:
        assert found["loss"] == pytest.approx(first["loss"], rel=1e-4)


def pairs(sealed: Any) -> list[tuple[int, float]]:
    """Ids and weights of a version that are not 0."""
    parts = [zip(ids.tolist(), weights.tolist(), strict=True) for ids, weights in sealed.items()]
    return [(place, weight) for part in parts for place, weight in part if weight]


@pytest.mark.parametrize("label", ["y", "i % 3"])
def test_weights_that_travel_go_back_to_the_start(
    noise: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    monkeypatch.setattr(stored_run, "all_fit", lambda *_: False)
    found = trained(noise, "s", label, step=1e5)
    assert "weights travel" in found["plan"]
    assert found["status"] == "diverged"
    assert found["loss"] == pytest.approx(math.log(2 if label == "y" else 3), abs=0.01)


def test_a_start_that_is_nearly_the_optimum_is_not_lost(noise: Any) -> None:
    """A long step moves its loss by less than a hundredth."""
    first = trained(noise, "plain", max_iter=100, step=0.02)
    for step in (0.05, 0.2, 0.8):
        found = trained(noise, "s", warm_start="plain", max_iter=1, step=step)
        assert found["loss"] <= first["loss"] * (1 + 1e-6)
        assert found["status"] in ("not converged", "diverged")
