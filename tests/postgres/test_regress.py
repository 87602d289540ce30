"""`make installcheck`: PostgreSQL's own way to test an extension.

After a change that is meant: TUSKML_WRITE=1 .venv/bin/pytest tests/postgres/test_regress.py, then
read the difference.
"""

import os
import shutil
from pathlib import Path

import pytest
from cluster import Cluster

from tuskml import pgxs
from tuskml.errors import ExtensionError


def test_installcheck(cluster: Cluster, root: Path, tmp_path: Path, monkeypatch) -> None:
    expected = root / "tests" / "postgres" / "regress" / "expected"
    if not pgxs.sources().is_relative_to(root):
        pytest.skip("installcheck is for the checkout")
    monkeypatch.setenv("PGHOST", str(cluster.folder))
    monkeypatch.setenv("PGPORT", str(cluster.port))
    monkeypatch.setenv("PGUSER", "postgres")
    try:
        pgxs.make(cluster.server, cluster.python_path, tmp_path, "installcheck")
    except ExtensionError:
        differences = tmp_path / "regression.diffs"
        if not differences.exists():
            raise
        if os.environ.get("TUSKML_WRITE"):
            for file in (tmp_path / "results").glob("*.out"):
                shutil.copy(file, expected / file.name)
        pytest.fail(differences.read_text(errors="replace"))
    finally:
        cluster.drop_database("contrib_regression")
