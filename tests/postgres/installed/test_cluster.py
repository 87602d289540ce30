"""The server that the other tests use."""

from pathlib import Path

import psycopg
import pytest
from cluster import SANITIZE, Cluster


def test_the_extension_trains(pg: psycopg.Connection) -> None:
    row = pg.execute(
        "SELECT (train_model('linear', 2 * x + 1, ARRAY[x])).coef FROM generate_series(0, 9) x"
    ).fetchone()
    assert row is not None
    assert [round(c, 6) for c in row[0]] == [2.0]


@pytest.mark.skipif(not SANITIZE, reason="make sanitize-postgres sets TUSKML_SANITIZE_POSTGRES")
def test_sanitizers_are_at_work(cluster: Cluster, pg: psycopg.Connection) -> None:
    pg.execute("LOAD 'tuskml'")
    code = cluster.server.library.read_bytes()
    mapped = Path(f"/proc/{pg.info.backend_pid}/maps").read_text()
    for name in SANITIZE.split(","):
        called, runtime = {
            "address": (b"__asan_report_load8", "libasan.so"),
            "undefined": (b"__ubsan_handle_shift_out_of_bounds_abort", "libubsan.so"),
        }[name]
        assert called in code
        assert runtime in mapped
