"""What sessions of different roles get, or why they get nothing."""

import psycopg

FIT = "SELECT (train_model('linear', y, x)).n_rows FROM t"


def fetch(connection: psycopg.Connection, sql: str) -> list[tuple]:
    return connection.execute(sql).fetchall()


def failure(connection: psycopg.Connection, sql: str) -> str:
    """The SQLSTATE, or nothing; 'lost' when the server ended the session."""
    try:
        connection.execute(sql).fetchall()
    except psycopg.Error as error:
        return error.sqlstate or "lost"
    return ""
