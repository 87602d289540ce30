"""Training in Node, by DuckDB's package for it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tuskml
from tuskml.udas.duckdb import extension_path

TRAIN = "SELECT (train_model('logistic', hash(i) % 3 = 0, [sin(i), cos(i)])).coef AS c FROM range(999) t(i)"  # noqa: E501
SCRIPT = """
import { DuckDBInstance } from '@duckdb/node-api';
const instance = await DuckDBInstance.create(':memory:', { allow_unsigned_extensions: 'true' });
const one = await instance.connect(), other = await instance.connect();
const [extension, train] = process.argv.slice(2);
await one.run(`LOAD '${extension}'`);
const rows = await one.runAndReadAll(train);
console.log(JSON.stringify(rows.getRowObjectsJson()[0].c));
const options = '{"algorithm": "bgd", "epsilon": 0, "max_iter": 100000000}';
const long = `SELECT (train_model('linear', i, [sin(i)], '${options}')).status FROM range(9) t(i)`;
const said = one.run(long).then(() => 'done', error => error.message);
let over = false;
said.then(() => { over = true; });
while (!over) {
    await other.run('SELECT tuskml_cancel()');
    await new Promise(next => setTimeout(next, 20));
}
console.log(JSON.stringify(await said));
"""


@pytest.mark.nightly
@pytest.mark.parametrize("helper", ["off", "on"])
def test_numbers_and_cancels_in_node(helper: str, tmp_path: Path) -> None:
    """The same bits as in Python; another connection ends a training."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no Node.js")
    (tmp_path / "package.json").write_text('{"private": true}')
    install = [npm, "install", "--silent", "@duckdb/node-api"]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "train.mjs").write_text(SCRIPT)
    command = [node, "train.mjs", str(extension_path()), TRAIN]
    given = os.environ | {"TUSKML_PYTHON": sys.executable, "TUSKML_HELPER": helper}
    done = subprocess.run(
        command, cwd=tmp_path, env=given, capture_output=True, text=True, check=True
    )
    found, said = map(json.loads, done.stdout.splitlines())
    with tuskml.connect() as con:
        assert found == con.execute(TRAIN).fetchall()[0][0]
    assert "the training was interrupted" in said
