"""The scorers of trees under AddressSanitizer, on forged models of exactly their size."""

import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import numpy as np
import pytest

from tuskml import Model

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
COMPILER = shutil.which(os.environ.get("CC", "cc"))
FLAGS = ["-std=gnu11", "-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
TRIES = 10000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("fuzz") / "fuzz_trees"
    scalars = ROOT / "udas/scalars"
    sources = [HERE / "fuzz_trees.c", scalars / "models/trees.c", *(scalars / "trees").glob("*.c")]
    command = [COMPILER, *FLAGS, f"-I{ROOT / 'udas'}", *map(str, sources), "-o", str(made), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return made


CASES = {
    "numbers": ("(i % 17) * (i % 13)", '{"trees": 4, "num_leaves": 9}'),
    "classes": ("i % 3", '{"trees": 3, "num_leaves": 6, "objective": "logistic"}'),
    "trees of more than 32 leaves": (
        "(i % 17) * (i % 13) + i % 40",
        '{"trees": 3, "num_leaves": 60, "min_child_rows": 2}',
    ),
    "categories": (
        "(i % 17) * (i % 5)",
        '{"trees": 3, "num_leaves": 6, "categorical": [1, 3], "min_category_rows": 1}',
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(one, marks=pytest.mark.nightly if one in ("numbers", "classes") else ())
        for one in CASES
    ],
)
def test_forged_trees_are_never_read_beyond_their_end(
    program: Path, con: duckdb.DuckDBPyConnection, tmp_path: Path, case: str
) -> None:
    """Cycles, children and features that are none, thresholds that are no numbers, sets of levels
    behind the end; some forged models predict, since values of leaves may be any number. Packed
    trees say what walks say."""
    label, options = CASES[case]
    sql = (
        f"SELECT train_model('gbdt', {label}, [i % 17, i % 13, i % 40], '{options}') "
        "FROM range(900) r(i)"
    )
    model = Model.of(con.execute(sql).fetchall()[0][0])
    path = tmp_path / "coef"
    path.write_bytes(np.array(model.coef, "<f8").tobytes())
    outputs = len(model.classes) if model.classes else 1
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [program, path, str(outputs), "7", str(TRIES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == 0, done.stderr[-3000:]
    for passed in map(int, done.stdout.split()):
        assert TRIES / 20 < passed < 0.95 * TRIES
