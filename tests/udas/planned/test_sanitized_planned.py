"""Models that are laid out for many rows by name, under AddressSanitizer, on forged payloads.

Of the night, since compiling takes long: tests/udas/duckdb/test_forged_preparation.py forges them
each time, without a sanitizer.
"""

# ruff: noqa: E501, SQL is read better on one line

import os
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

import tuskml

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
COMPILER = shutil.which(os.environ.get("CC", "cc"))
FLAGS = ["-std=gnu11", "-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS += ['-DTUSKML_VERSION="0"']
PARTS = ("models", "named", "planned", "trees", "nets", "fm", "topics", "clusters", "explaining")
PARTS += ("metrics",)
FOLDERS = [f"udas/scalars/{name}" for name in PARTS]
FOLDERS += ["udas/rowblock", "kvstore/mapped"]
OPTIONS = (
    '{"l2": 1, "categories": ["k"]}',
    '{"l2": 1, "categories": ["k"], "missing": "level"}',
    '{"l2": 1, "categories": ["k"], "unseen": "error", "missing": "impute"}',
    '{"l2": 1, "categories": ["k"], "max_categories": 2}',
)
LABELS = ("linear", "sin(i)"), ("logistic", "i % 3"), ("logistic", "i % 2")
MANY = "CASE WHEN i % 2 = 0 THEN 'x' ELSE 'level ' || i END"
"""Far more levels than the other models have, so that they are laid out as pairs."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("fuzz") / "fuzz_planned"
    sources = [HERE / "fuzz_planned.c", ROOT / "udas" / "scalars" / "student.c"]
    for folder in FOLDERS:
        sources += sorted((ROOT / folder).glob("*.c"))
    command = [COMPILER, *FLAGS, f"-I{ROOT / 'udas'}", *map(str, sources)]
    command += ["-o", str(made), "-lm", "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A file for each model."""
    folder = tmp_path_factory.mktemp("payloads")
    few = "['x', 'y', 'zz', 'a level of many bytes 1', 'a level of many bytes 2'][1 + i % 5]"
    files = []
    with tuskml.connect(threads=1) as con:
        for options, (task, label) in product(OPTIONS, LABELS):
            for c in (few, MANY):
                ((payload,),) = con.execute(
                    f"SELECT train_model('{task}', {label}, {{'a': i % 7 + 0.5, 'c': {c}, 'k': i % 5}}, '{options}').payload FROM range(600) t(i)"
                ).fetchall()
                files.append(folder / str(len(files)))
                files[-1].write_bytes(payload)
    return files


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1])
def test_forged_payloads_are_never_read_beyond_their_end(
    program: Path, payloads: list[Path], seed: int
) -> None:
    """Those that nobody changed have the margins of rows that are scored one by one."""
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [program, str(seed), "3000", *payloads]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == 0, done.stderr[-3000:]
    made, laid_out = map(int, done.stdout.split())
    assert 400 < made < 3000
    assert laid_out > 10_000
