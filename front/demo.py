"""`tuskml demo`: one model a carrier predicts at take-off whether a flight will arrive late."""

import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from textwrap import indent
from typing import Any

import duckdb

from tuskml.connection import connect
from tuskml.errors import TuskError
from tuskml.flights import load_flights
from tuskml.plots import plot_convergence
from tuskml.progress import progress
from tuskml.table import table

FEATURES = ("delay", "distance", "hour", "weekend", "summer")

TRIPS = """\
CREATE TABLE trips AS
SELECT carrier, arr_delay > 15 AS late,
       [dep_delay, distance, hour,                                -- delay, distance, hour
        isodow(date) >= 6, month(date) IN (6, 7, 8)]::FLOAT[]     -- weekend, summer
       AS features,
       day(date) % 5 = 0 AS held_out
FROM flights"""

TRAIN = """\
CREATE TABLE models AS
SELECT carrier, train_model('logistic', late, features) AS model
FROM trips WHERE NOT held_out GROUP BY carrier"""

SCORES = """\
CREATE TABLE scores AS
SELECT carrier, auc(late, predict_proba(model, features)) AS auc
FROM trips JOIN models USING (carrier) WHERE held_out GROUP BY carrier"""

EFFECTS = """\
CREATE TABLE spreads AS
SELECT carrier, [{}] AS spread
FROM trips WHERE NOT held_out AND late IS NOT NULL GROUP BY carrier""".format(
    ", ".join(f"stddev_pop(features[{k}])" for k in range(1, len(FEATURES) + 1))
)

REPORT = """\
SELECT coalesce(name, carrier) AS carrier, model.n_rows, model.n_skipped,
       split_part(model.plan, ',', 1) AS plan, model.iterations, auc, model.status,
       list_transform(range(1, len(spread) + 1),
                      lambda k: model.coef[k] * spread[k]) AS effects
FROM models JOIN scores USING (carrier) JOIN spreads USING (carrier)
LEFT JOIN airlines USING (carrier)
ORDER BY model.n_rows DESC, carrier"""

COMPARE = """\
SELECT train_model('logistic', late, features, $options)
FROM trips WHERE NOT held_out"""

CONTENDERS = {
    "newton": '{"algorithm": "newton", "epsilon": 0, "max_iter": 9}',
    "lbfgs": '{"algorithm": "lbfgs", "epsilon": 0, "max_iter": 30}',
    "svrg": '{"algorithm": "svrg", "epsilon": 1e-12, "max_iter": 30, "threads": 1}',
    "bgd": '{"algorithm": "bgd", "epsilon": 1e-12, "max_iter": 30}',
    "mgd": '{"algorithm": "mgd", "epsilon": 1e-12, "max_iter": 30, "threads": 1}',
}
"""epsilon 0 keeps newton and lbfgs from starting on a sample: their curves are of all rows."""

SUFFIX = re.compile(r"(?<=\w{3})( Air ?[Ll]ines| Airways)?( Corporation)?( Inc\.| Co\.)?$")

Clock = dict[str, float]


def demo(output: Path, rows: int | None = None) -> None:
    """Loads, trains, evaluates, prints a table and saves a picture.

    rows: use about as many flights only.
    """
    require_matplotlib()
    if not output.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(output))
    clock: Clock = {}
    with closing(connect()) as connection:
        with timed(clock, "load"):
            count = load_flights(connection, rows)
            connection.execute(TRIPS)
        carriers = connection.execute("SELECT count(DISTINCT carrier) FROM trips").fetchall()[0][0]
        say(f"{count:,} flights from New York City in 2013, {carriers} carriers. At take-off,")
        say("will a flight arrive more than 15 minutes late? Every fifth day is held out.")
        show_sql(TRIPS, TRAIN)
        with timed(clock, "train"), progress(carriers):
            connection.execute(TRAIN)
        show_sql(SCORES)
        with timed(clock, "evaluate"):
            connection.execute(SCORES)
        connection.execute(EFFECTS)
        print(report(connection), end="\n\n")
        with timed(clock, "compare and draw"):
            draw(connection, output)
    say("Effects: change of the log-odds of a late arrival by one standard deviation of the")
    say("feature. Skipped: flights without a departure or an arrival.")
    spent = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in clock.items())
    say(f"{spent}; {sum(clock.values()):.1f} s in all. Picture: {output}")


def require_matplotlib() -> None:
    """Says so before the work, not after it, when there can be no picture."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise TuskError("the demo needs matplotlib: pip install 'tuskml[demo]'") from None
    mpl.use("Agg")


@contextmanager
def timed(clock: Clock, name: str) -> Iterator[None]:
    """Writes down how long the context took."""
    began = time.perf_counter()
    yield
    clock[name] = time.perf_counter() - began


def say(text: str) -> None:
    """A line of the demo's own."""
    print(f"  {text}", flush=True)


def show_sql(*statements: str) -> None:
    """The SQL that runs now."""
    for statement in statements:
        print("\n" + indent(statement + ";", "    "))
    print(flush=True)


def report(connection: duckdb.DuckDBPyConnection) -> str:
    """The table: a row a carrier."""
    names = ("carrier", "rows", "skipped", "plan", "iter.", "AUC", "status", "largest effects")
    rows = [
        (
            SUFFIX.sub("", carrier),
            *(Count(number) for number in (n_rows, n_skipped)),
            plan,
            iterations,
            None if auc is None else Score(auc),
            status,
            largest(effects),
        )
        for carrier, n_rows, n_skipped, plan, iterations, auc, status, effects in (
            connection.execute(REPORT).fetchall()
        )
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


def largest(effects: list[float], most: int = 2) -> str:
    """The largest effects and their features' names."""
    ranked = sorted(zip(effects, FEATURES, strict=True), key=lambda pair: -abs(pair[0]))
    return ", ".join(f"{name} {effect:+.1f}" for effect, name in ranked[:most] if effect)


def draw(connection: duckdb.DuckDBPyConnection, output: Path) -> None:
    """Two panels: each carrier's training, and five algorithms on all flights."""
    import matplotlib.pyplot as plt

    fitted = connection.execute(
        "SELECT carrier || CASE model.status WHEN 'separable' THEN ' (separable)' ELSE '' END,"
        " model FROM models ORDER BY model.n_rows DESC, carrier"
    ).fetchall()
    contest: dict[str, Any] = {
        name: connection.execute(COMPARE, {"options": options}).fetchall()[0][0]
        for name, options in CONTENDERS.items()
    }
    if any(model is None for model in contest.values()):
        raise TuskError("no flight is left to train on: raise --rows")
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    plot_convergence(dict(fitted), left, title="One model a carrier, as planned")
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
