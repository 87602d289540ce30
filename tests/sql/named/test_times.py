"""Times of day and intervals as features by name: seconds, in both databases and in Python."""

# ruff: noqa: E501, SQL is read better on one line

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import tuskml

Session = tuple[str, Any]
N = 200
SPANS = (
    "3 days",
    "-2 hours 30 seconds",
    "14 months 1 day",
    "0.25 seconds",
    "-1 year -1 month",
    "40 years",
)


@pytest.fixture
def table(session: Session) -> Session:
    """Rows of a time of day `tod`, an interval `span` and a label `y`."""
    random = np.random.default_rng(11)
    session[1].execute(
        "CREATE TABLE clock (i int, tod time, span interval, zoned timestamptz, y float8)"
    )
    rows = ", ".join(
        f"({i}, '{tod}', '{SPANS[i % len(SPANS)]}', TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL '97 minutes' * {i}, {label})"
        for i, (tod, label) in enumerate(
            zip(
                [
                    str(
                        (
                            datetime.datetime.min
                            + datetime.timedelta(seconds=int(s), microseconds=250_000)
                        ).time()
                    )
                    for s in random.integers(0, 86400, N)
                ],
                random.normal(size=N).round(3),
                strict=True,
            )
        )
    )
    session[1].execute(f"INSERT INTO clock VALUES {rows}")
    return session


def trained(session: Session, columns: str, **options: Any) -> Any:
    """The model of a row with these columns, in the table `clock_model`, as features, coef and
    intercept."""
    text = json.dumps({"epsilon": 1e-12} | options)
    run = session[1].execute
    run("DROP TABLE IF EXISTS clock_model")
    run(
        f"CREATE TABLE clock_model AS SELECT train_model('linear', y, r, '{text}') AS m FROM clock, LATERAL (SELECT {columns}) AS r"
    )
    return run(
        "SELECT (m).features, (m).coef, (m).intercept, (m).status FROM clock_model"
    ).fetchone()


def test_seconds_are_those_of_extract(table: Session) -> None:
    run = table[1].execute
    found = trained(table, "tod, span")
    seen = np.array(
        run(
            "SELECT EXTRACT(EPOCH FROM tod), EXTRACT(EPOCH FROM span), y FROM clock ORDER BY i"
        ).fetchall(),
        float,
    )
    truth = sm.OLS(seen[:, 2], sm.add_constant(seen[:, :2])).fit()
    assert (found[0], found[3]) == (["tod", "span"], "ok")
    assert [found[2], *found[1]] == pytest.approx(truth.params.tolist(), rel=1e-6)
    expected = run(
        "SELECT predict(m, r) FROM clock_model, clock, LATERAL (SELECT tod, span) AS r ORDER BY i"
    ).fetchall()
    assert [one for (one,) in expected] == pytest.approx(truth.fittedvalues.tolist(), abs=1e-6)


def test_a_gap_in_time_of_day_is_a_missing_row(table: Session) -> None:
    table[1].execute(
        "UPDATE clock SET tod = NULL WHERE i < 3; UPDATE clock SET span = NULL WHERE i = 5"
    )
    trained(table, "tod, span")
    assert table[1].execute("SELECT (m).n_rows, (m).n_skipped FROM clock_model").fetchone() == (
        N - 4,
        4,
    )


def test_times_are_categories_and_order_rows(table: Session) -> None:
    """As numbers are: by `categories` a level each, by `time_by` an order with a gap in seconds."""
    found = trained(table, "span", categories=["span"], l2=0.1)
    assert len(found[0]) == len(SPANS)
    trained(table, "i, tod", time_by="tod", folds=3, gap=3600, metric="rmse")
    ((trials,),) = table[1].execute("SELECT (m).trials FROM clock_model").fetchall()
    assert len(json.loads(trials)["trials"][0]["folds"]) == 3


def test_train_takes_times_by_name(table: Session) -> None:
    model = tuskml.train(
        table[1], "linear", source="clock", label="y", features=["tod", "span", "i"]
    )
    frame = table[1].execute("SELECT tod, span, i FROM clock ORDER BY i")
    rows = frame.fetchall()
    X = pd.DataFrame(rows, columns=["tod", "span", "i"])
    truth = [
        v
        for (v,) in table[1]
        .execute("SELECT EXTRACT(EPOCH FROM tod) FROM clock ORDER BY i")
        .fetchall()
    ]
    assert list(model.features) == ["tod", "span", "i"]
    seconds = pd.DataFrame(
        {
            "tod": truth,
            "span": [
                s.total_seconds() if i % 6 in (0, 1, 3) else np.nan
                for i, (_, s, _) in enumerate(rows)
            ],
            "i": X.i,
        }
    ).astype(float)
    X.loc[seconds.span.isna(), "span"] = None  # months are no fixed span in Python
    for given in (X, X.assign(span=pd.to_timedelta(X.span))):
        assert model.predict(given)[~seconds.span.isna()] == pytest.approx(
            model.predict(seconds)[~seconds.span.isna()], abs=1e-9
        )
        assert np.isnan(model.predict(given)[seconds.span.isna()]).all()


def test_dates_in_a_time_zone(table: Session) -> None:
    """`AT TIME ZONE` gives the local time, whose parts features have."""
    zone = "America/New_York"
    trained(table, f"zoned AT TIME ZONE '{zone}' AS at", dates="parts", l2=0.1)
    ((features,),) = table[1].execute("SELECT (m).features FROM clock_model").fetchall()
    when = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(np.arange(N) * 97, "m")
    local = when.tz_convert(zone)
    found = {int(name[len("at.hour[") : -1]) for name in features if name.startswith("at.hour[")}
    assert found == set(local.hour)
    assert {
        int(name[len("at.month[") : -1]) for name in features if name.startswith("at.month[")
    } == set(local.month)
