"""Writes what later versions must read: python write.py VERSION, once for each release.

VERSION.json: payloads of models of each kind, and what they answer. VERSION.tar.gz: a root of
stores with two versions and a checkpoint. test_formats.py reads all that are there.
"""

import json
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np

import tuskml
from tuskml.kvstore import StoreRoot
from tuskml.partitioner import IndexMap

HERE = Path(__file__).parent
ROWS = """(SELECT i, i % 7 AS a, i % 5 AS b, chr(CAST(97 + i % 3 AS INT)) AS t,
          i * 7919 % 13 > 6 AS c,
          (i % 7) * (i % 5) % 6 AS y FROM range(90) t(i)) AS r"""
MODELS = {
    "linear": ("train_model('linear', y, [a, b])", "[1, 2]"),
    "sparse": ("train_model('linear', y, sparse([a, 9], [b, 1]))", "sparse([1, 9], [2, 1])"),
    "logistic": ("train_model('logistic', c, [a, b], '{\"l2\": 0.1}')", "[1, 2]"),
    "classes": ("train_model('logistic', y, [a, b], '{\"l2\": 0.1}')", "[1, 2]"),
    "svm": ("train_model('svm', c, [a, b])", "[1, 2]"),
    "poisson": ("train_model('poisson', y, [a, b])", "[1, 2]"),
    "named": (
        "train_model('linear', y, {'a': a, 't': t}, '{\"l2\": 0.1}')",
        "{'a': 1, 't': 'b'}",
    ),
    "gbdt": ("train_model('gbdt', y, [a, b], '{\"trees\": 3}')", "[1, 2]"),
    "gbdt, named": (
        "train_model('gbdt', y, {'a': a, 't': t})",
        "{'a': 1, 't': 'b'}",
    ),
    "random_forest": ("train_model('random_forest', c, [a, b], '{\"trees\": 3}')", "[1, 2]"),
    "mlp": ("train_model('mlp', y, [a, b], '{\"layers\": [3], \"max_iter\": 5}')", "[1, 2]"),
    "matrix_factorization": (
        "train_model('matrix_factorization', y, [a, b], '{\"rank\": 2}')",
        "[1, 2]",
    ),
    "lasso": ("train_model('lasso', y, [a, b], '{\"lambda\": 0.01}')", "[1, 2]"),
}  # fmt: skip
CALLS = ("predict", "predict_proba", "decision")
WEIGHTS = np.arange(5000) % 97 - 48.0


def models() -> dict[str, dict[str, object]]:
    """Payloads as hexadecimal text, features in SQL, and answers or None."""
    found: dict[str, dict[str, object]] = {}
    with tuskml.connect(threads=1) as con:
        for name, (call, x) in MODELS.items():
            payload = con.execute(f"SELECT ({call}).payload FROM {ROWS}").fetchall()[0][0]
            answers = {site: answer(con, payload.hex(), site, x) for site in CALLS}
            found[name] = {"payload": payload.hex(), "x": x, "answers": answers}
    return found


def answer(con: duckdb.DuckDBPyConnection, payload: str, site: str, x: str) -> object:
    """None where the function is not for such a model."""
    try:
        sql = f"SELECT {site}({{'payload': from_hex('{payload}')}}, {x})"
        return con.execute(sql).fetchall()[0][0]
    except Exception:
        return None


def stores(folder: Path) -> None:
    """Two versions and a training that can be resumed."""
    root = StoreRoot(folder)
    root.publish_weights("m", WEIGHTS + 1)
    with root.create("m", IndexMap([2, 77], [0, 0], 64), "float64", warm_start="m") as store:
        store.checkpoint({"epoch": 1})
        store.add_weights(np.arange(1000), np.full(1000, -1.0))
        store.checkpoint({"epoch": 2})
    root.publish_weights("m", WEIGHTS)


def main() -> None:
    version = sys.argv[1]
    (HERE / f"{version}.json").write_text(json.dumps(models(), indent=1) + "\n")
    with TemporaryDirectory() as folder, tarfile.open(HERE / f"{version}.tar.gz", "w:gz") as file:
        stores(Path(folder, "stores"))
        file.add(Path(folder, "stores"), "stores")


if __name__ == "__main__":
    main()
