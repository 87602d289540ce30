"""`make installcheck`: PostgreSQL's own way to test an extension.

Sessions by themselves (pg_regress), and side by side (isolation/specs, by PostgreSQL's isolation
tester). After a change that is meant: TUSKML_WRITE=1 .venv/bin/pytest
tests/postgres/installed/test_regress.py, then read the difference.
"""

import os
import shutil
from pathlib import Path

import pytest
from cluster import Cluster

from tuskml.databases.extension import pgxs
from tuskml.errors import ExtensionError

pytestmark = pytest.mark.fault(family="concurrency")

SUITES = {
    "regress": ("ISOLATION=", Path(), "contrib_regression"),
    "isolation": ("REGRESS=", Path("output_iso"), "isolation_regression_tuskml"),
}


@pytest.mark.parametrize("suite", SUITES)
def test_installcheck(
    suite: str, cluster: Cluster, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_the_other, output, database = SUITES[suite]
    if not pgxs.sources().is_relative_to(root):
        pytest.skip("installcheck is for the checkout")
    monkeypatch.setenv("PGHOST", str(cluster.folder))
    monkeypatch.setenv("PGPORT", str(cluster.port))
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PGOPTIONS", "-c tuskml.progress=off")  # a NOTICE may come at any time
    try:
        told = pgxs.make(
            cluster.server, cluster.python_path, tmp_path, "installcheck", without_the_other
        )
        if "tests passed" not in told:
            pytest.skip("the server's headers came without PostgreSQL's isolation tester")
    except ExtensionError:
        differences = tmp_path / output / "regression.diffs"
        if not differences.exists():
            raise
        if os.environ.get("TUSKML_WRITE"):
            expected = root / "tests" / "postgres" / suite / "expected"
            for file in (tmp_path / output / "results").glob("*.out"):
                shutil.copy(file, expected / file.name)
        pytest.fail(differences.read_text(errors="replace"))
    finally:
        cluster.drop_database(database)
