"""Payloads and stores that earlier versions wrote answer as they did then, bit by bit."""

import json
import sys
import tarfile
from pathlib import Path

import duckdb
import numpy as np
import pytest
from tried import Tally

from tuskml.kvstore import ModelStore, StoreRoot

sys.path.append(str(Path(__file__).parent / "formats"))

from write import CALLS, WEIGHTS, answer

pytestmark = pytest.mark.fault(family="upgrades")

VERSIONS = sorted(path.stem for path in (Path(__file__).parent / "formats").glob("*.json"))


@pytest.mark.parametrize("version", VERSIONS)
def test_payloads_answer(con: duckdb.DuckDBPyConnection, tally: Tally, version: str) -> None:
    kept = json.loads((Path(__file__).parent / "formats" / f"{version}.json").read_text())
    for name, model in kept.items():
        found = {site: answer(con, model["payload"], site, model["x"]) for site in CALLS}
        tally.tried += 1
        tally.wrong += found != model["answers"]
        assert found == model["answers"], name
        assert any(value is not None for value in found.values()), name


@pytest.mark.parametrize("version", VERSIONS)
def test_stores_are_read(tmp_path: Path, tally: Tally, version: str) -> None:
    with tarfile.open(Path(__file__).parent / "formats" / f"{version}.tar.gz") as file:
        file.extractall(tmp_path, filter="data")
    root = StoreRoot(tmp_path / "stores")
    tally.tried = 3
    for reference, expected in (("m", WEIGHTS), ("m@1", WEIGHTS + 1), ("m@2", WEIGHTS)):
        with root.open(reference) as model:
            model.verify()
            assert (model.weights(np.arange(5000)) == expected).all()
    (path,) = root.working("m")
    with ModelStore.resume(path) as store:
        assert store.last_checkpoint.metadata == {"epoch": 2}
        found = store.weights(np.arange(5000))
    assert (found[:1000] == WEIGHTS[:1000]).all()
    assert (found[1000:] == WEIGHTS[1000:] + 1).all()
    root.publish_weights("m", WEIGHTS + 2)
    with root.open("m@3") as model:
        assert (model.weights(np.arange(5000)) == WEIGHTS + 2).all()
