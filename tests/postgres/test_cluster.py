"""The server that the other tests use."""

import psycopg


def test_the_extension_trains(pg: psycopg.Connection) -> None:
    row = pg.execute(
        "SELECT (train_model('linear', 2 * x + 1, ARRAY[x])).coef FROM generate_series(0, 9) x"
    ).fetchone()
    assert row is not None
    assert [round(c, 6) for c in row[0]] == [2.0]
