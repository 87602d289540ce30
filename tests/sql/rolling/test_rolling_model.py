"""`rolling_model` over frames of windows, in both databases: least squares of each frame's rows."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statsmodels.regression.rolling import RollingOLS

Session = tuple[str, Any]
N = 300
FIELDS = "(m).coef, (m).intercept, (m).std_err, (m).n_rows, (m).status, (m).loss"
few = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def series(
    n: int = N, d: int = 3, far: float = 0.0, seed: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, d), which lie `far` from 0, and labels (n,)."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, d)) + far
    return x, (x - far) @ np.arange(1, d + 1) + random.normal(size=n) + 5


def table(session: Session, x: np.ndarray, y: np.ndarray, **more: np.ndarray) -> None:
    """The table `days` of i, y, x and further columns."""
    name, connection = session
    mark = "?" if name == "duck" else "%s"
    rows = list(zip(y.tolist(), x.tolist(), *(v.tolist() for v in more.values()), strict=True))
    columns = "".join(f", {one} float8" for one in more)
    connection.execute(f"CREATE TABLE days (i int, y float8, x float8[]{columns})")
    values = ", ".join(f"({i}, {', '.join([mark] * len(row))})" for i, row in enumerate(rows))
    connection.execute(f"INSERT INTO days VALUES {values}", [v for row in rows for v in row])


def fitted(session: Session, frame: str, call: str = "y, x", source: str = "days") -> list[Any]:
    """FIELDS of the model of each row, in order."""
    query = f"SELECT {FIELDS} FROM (SELECT i, rolling_model({call}) OVER (ORDER BY i {frame}) AS m FROM {source}) AS t ORDER BY i"
    return list(session[1].execute(query).fetchall())


def check(found: Any, x: np.ndarray, y: np.ndarray, rtol: float = 1e-9) -> None:
    """A model against numpy's least squares of its rows and the textbook's standard errors."""
    coef, intercept, std_err, n_rows, status, loss = found
    design = np.column_stack([np.ones(len(x)), x])
    if len(x) < design.shape[1]:
        assert (status, coef, intercept, n_rows) == ("too few rows", None, None, len(x))
        return
    weights = np.linalg.lstsq(design, y, rcond=None)[0]
    squares = float(((y - design @ weights) ** 2).sum())
    assert (status, n_rows) == ("ok", len(x))
    np.testing.assert_allclose([intercept, *coef], weights, rtol=rtol, atol=rtol)
    assert loss == pytest.approx(squares / (2 * len(x)), rel=1e-6, abs=1e-12)
    if len(x) > design.shape[1]:
        spread = np.linalg.inv(design.T @ design) * squares / (len(x) - design.shape[1])
        np.testing.assert_allclose(std_err, np.sqrt(np.diag(spread)), rtol=1e-6)


FRAMES = {
    "of 5": ("ROWS 4 PRECEDING", lambda i: slice(max(i - 4, 0), i + 1)),
    "of 17": ("ROWS 16 PRECEDING", lambda i: slice(max(i - 16, 0), i + 1)),
    "of 100": ("ROWS BETWEEN 100 PRECEDING AND 1 PRECEDING", lambda i: slice(max(i - 100, 0), i)),
    "by range": ("RANGE BETWEEN 40 PRECEDING AND 10 PRECEDING", lambda i: slice(max(i - 40, 0), max(i - 9, 0))),
    "around": ("ROWS BETWEEN 30 PRECEDING AND 30 FOLLOWING", lambda i: slice(max(i - 30, 0), i + 31)),
    "expanding": ("ROWS UNBOUNDED PRECEDING", lambda i: slice(0, i + 1)),
    "all": ("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", lambda i: slice(0, N)),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_least_squares_of_each_frame(session: Session, name: str) -> None:
    x, y = series()
    table(session, x, y)
    frame, rows = FRAMES[name]
    for i, found in enumerate(fitted(session, frame)):
        seen = rows(i)
        if len(y[seen]) == 0:
            assert found == (None,) * 6
        else:
            check(found, x[seen], y[seen], 1e-8)


def test_as_statsmodels_rolls(session: Session) -> None:
    x, y = series()
    table(session, x, y)
    truth = RollingOLS(y, sm.add_constant(x), window=60).fit()
    for found, weights, errors in list(
        zip(fitted(session, "ROWS 59 PRECEDING"), truth.params, truth.bse, strict=True)
    )[59:]:
        np.testing.assert_allclose([found[1], *found[0]], weights, rtol=1e-9)
        np.testing.assert_allclose(found[2], errors, rtol=1e-9)


@few
@given(
    st.integers(1, 40), st.integers(0, 12), st.sampled_from([0.0, 1e3, -1e6]), st.integers(0, 99)
)
def test_no_drift(session: Session, width: int, jump: int, far: float, seed: int) -> None:
    """Values of very different sizes enter and leave: what they leave behind is not seen."""
    x, y = series(120, 2, far, seed)
    x[::7, 0] *= 10.0**jump
    y[::11] *= 10.0 ** (jump / 2)
    session[1].execute("DROP TABLE IF EXISTS days")
    table(session, x, y)
    for i, found in enumerate(fitted(session, f"ROWS {width} PRECEDING")):
        seen = slice(max(i - width, 0), i + 1)
        if found[4] != "ok":
            assert found[4] in ("too few rows", "collinear features", "constant feature")
            continue
        design = np.column_stack([np.ones(len(y[seen])), x[seen]])
        residual = y[seen] - design @ np.array([found[1], *found[0]])
        least = y[seen] - design @ np.linalg.lstsq(design, y[seen], rcond=1e-15)[0]
        size = np.abs(y[seen]).max()
        assert np.linalg.norm(residual) <= np.linalg.norm(least) * (1 + 1e-6) + 1e-6 * size


def bound(offset: int | None, end: str) -> str:
    """The bound of a frame that is so many rows, values or peer groups away; None: none."""
    if offset is None:
        return f"UNBOUNDED {end}"
    return (
        f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}" if offset else "CURRENT ROW"
    )


@st.composite
def windows(draw: st.DrawFn) -> str:
    """What OVER takes, with frames of any form; rows of ROWS have an order of their own."""
    unit = draw(st.sampled_from(["ROWS", "RANGE", "GROUPS"]))
    first, last = sorted(draw(st.tuples(*[st.integers(-50, 50)] * 2)))
    begin = bound(draw(st.sampled_from([first, first, first, None])), "PRECEDING")
    end = bound(draw(st.sampled_from([last, last, last, None])), "FOLLOWING")
    excluded = draw(
        st.sampled_from(["", "", "EXCLUDE CURRENT ROW", "EXCLUDE GROUP", "EXCLUDE TIES"])
    )
    parts = draw(st.sampled_from(["", "PARTITION BY i % 2"]))
    order = "i" if unit == "ROWS" else "i - i % 3"
    return f"({parts} ORDER BY {order} {unit} BETWEEN {begin} AND {end} {excluded})"


@few
@given(windows(), st.integers(1, 120), st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_any_frame_is_a_training_of_its_rows(
    session: Session, window: str, n: int, d: int, weighted: bool, seed: int
) -> None:
    """Frames of any form, with rows that are skipped, in widths that vectors hold or do not."""
    x, y = series(n, d, 3.0, seed)
    random = np.random.default_rng(seed)
    session[1].execute("DROP TABLE IF EXISTS days")
    table(session, x, y, w=random.choice([0.5, 1.0, 3.0], n))
    if weighted:
        session[1].execute("UPDATE days SET y = NULL WHERE i % 7 = 3")
        session[1].execute("UPDATE days SET w = NULL WHERE i % 11 = 5")
    more, counted = (", w", ", '{}', w") if weighted else ("", "")
    rolled = f"SELECT i, rolling_model(y, x{more}) OVER {window} AS m, array_agg(i) OVER {window} AS rows FROM days"
    found = session[1].execute(f"SELECT i, {FIELDS} FROM ({rolled}) AS t ORDER BY i").fetchall()
    each = f"SELECT i, unnest(rows) AS k FROM ({rolled}) AS t"
    trained = f"SELECT f.i, train_model('linear', y, x{counted}) AS m FROM ({each}) AS f JOIN days AS d ON d.i = f.k GROUP BY f.i"
    truth = {
        i: fields
        for i, *fields in session[1]
        .execute(f"SELECT i, {FIELDS} FROM ({trained}) AS t")
        .fetchall()
    }
    assert len(found) == n
    for i, *fields in found:
        coef, intercept, std_err, n_rows, status, loss = fields
        if n_rows is None or status != "ok":
            assert n_rows is None or (status == "too few rows" and n_rows <= d)
            assert i not in truth or (truth[i][3] or 0) <= d
            continue
        expected = truth[i]
        assert n_rows == expected[3] > d
        if n_rows < 2 * d + 4:
            continue  # so few rows may determine coefficients badly
        np.testing.assert_allclose([intercept, *coef], [expected[1], *expected[0]], 1e-6, 1e-6)
        np.testing.assert_allclose(std_err, expected[2], 1e-5)
        assert loss == pytest.approx(expected[5], rel=1e-6)


def test_as_train_model(session: Session) -> None:
    """The same model of a group as a training, with weights, and its predictions."""
    x, y = series()
    table(session, x, y, w=1.0 + np.arange(N) % 3)
    for call, more in (("y, x", ""), ("y, x, w", ", '{}', w"), ("y, CAST(x AS real[])", "")):
        features = call.split(", ")[1]
        own = f"rolling_model({call})"
        trained = f"train_model('linear', y, {features}{more})"
        query = "SELECT i % 4 AS g, {} AS m FROM days GROUP BY i % 4 ORDER BY g"
        read = f"SELECT {FIELDS}, (m).n_features, (m).task, predict(m, ARRAY[1.0, 2, 3]) FROM ({{}}) AS t"
        both = [
            session[1].execute(read.format(query.format(one))).fetchall() for one in (own, trained)
        ]
        for found, truth in zip(*both, strict=True):
            for one, other in zip(found, truth, strict=True):
                assert one == (other if isinstance(other, str) else pytest.approx(other, rel=1e-6))
        summary = "SELECT s.* FROM ({}) AS t, LATERAL (SELECT * FROM model_summary(t.m)) AS s"
        tests = [
            session[1].execute(summary.format(query.format(one))).fetchall()
            for one in (own, trained)
        ]
        for found, truth in zip(*tests, strict=True):
            for one, other in zip(found, truth, strict=True):
                assert one == (
                    pytest.approx(other, rel=1e-6) if isinstance(other, float) else other
                )


def test_partitions(session: Session) -> None:
    """A panel: the frames of one do not see the rows of another."""
    x, y = series()
    table(session, x, y)
    query = f"SELECT {FIELDS} FROM (SELECT i, rolling_model(y, x) OVER (PARTITION BY i % 3 ORDER BY i ROWS 19 PRECEDING) AS m FROM days) AS t ORDER BY i"
    for i, found in enumerate(session[1].execute(query).fetchall()):
        seen = np.arange(i % 3, i + 1, 3)[-20:]
        check(found, x[seen], y[seen], 1e-8)


def test_rows_that_do_not_count(session: Session) -> None:
    """NULLs and weights of 0 are skipped, rows that are no numbers make their frames invalid."""
    x, y = series(60)
    table(session, x, y, w=np.ones(60))
    session[1].execute("UPDATE days SET y = NULL WHERE i = 10")
    session[1].execute("UPDATE days SET w = 0 WHERE i = 11")
    session[1].execute("UPDATE days SET w = 'Infinity' WHERE i = 40")
    query = "SELECT i, (m).n_rows, (m).n_skipped, (m).status, predict(m, ARRAY[1.0, 2, 3]) FROM (SELECT i, rolling_model(y, x, w) OVER (ORDER BY i ROWS 9 PRECEDING) AS m FROM days) AS t ORDER BY i"
    for i, n_rows, skipped, status, predicted in session[1].execute(query).fetchall():
        seen = range(max(i - 9, 0), i + 1)
        invalid, few_rows = 40 in seen, len(seen) - (10 in seen) - (11 in seen) < 4
        assert status == ("invalid rows" if invalid else "too few rows" if few_rows else "ok"), i
        assert skipped == (len(seen) if invalid else (10 in seen) + (11 in seen)), i
        assert n_rows == len(seen) - skipped, i
        assert (predicted is None) == (status != "ok"), i


def test_features_that_depend_on_each_other(session: Session) -> None:
    """A feature that is constant, or determined by those before it, gets 0, as R leaves it out."""
    x, y = series(200)
    x = np.column_stack([x[:, 0], np.repeat(np.arange(4.0), 50) + 1e6, x[:, 1], x[:, 0] + x[:, 1]])
    table(session, x, y)
    found = fitted(session, "ROWS 29 PRECEDING")
    for i in range(29, 200):
        seen = slice(i - 29, i + 1)
        coef, _, std_err, _, status, loss = found[i]
        constant = np.ptp(x[seen, 1]) == 0
        assert status == "collinear features"
        assert (coef[1] == 0.0, std_err[2] is None) == (constant, constant), i
        assert (coef[3], std_err[4]) == (0.0, None)
        design = np.column_stack([np.ones(30), x[seen] - x[seen].mean(axis=0)])
        least = y[seen] - design @ np.linalg.lstsq(design, y[seen], rcond=1e-12)[0]
        assert loss == pytest.approx(float((least**2).sum()) / 60, rel=1e-6)
    constants = fitted(session, "ROWS 29 PRECEDING", "y, ARRAY[x[1], 3.5]")
    assert {one[4] for one in constants[29:]} == {"constant feature"}


def test_degrees_of_freedom(session: Session) -> None:
    """Options note them where they are not the rows less the coefficients, for `model_summary`."""
    x, y = series(30, 1)
    table(session, x, y, w=np.full(30, 2.0))
    query = "SELECT (rolling_model(y, x)).options, (rolling_model(y, x, w)).options FROM days"
    plain, weighted = map(json.loads, session[1].execute(query).fetchone())
    assert "freedom" not in plain
    assert weighted["freedom"] == 58


def test_features_of_very_different_sizes(session: Session) -> None:
    """Units of a feature change its coefficient and nothing else, powers of two not even digits."""
    x, y = series(60)
    sizes = np.array([2.0**450, 1.0, 2.0**-490])
    table(session, x, y)
    plain = fitted(session, "ROWS 19 PRECEDING")
    session[1].execute("DROP TABLE days")
    table(session, x * sizes, y)
    for one, other in zip(fitted(session, "ROWS 19 PRECEDING"), plain, strict=True):
        coef, intercept, std_err, *rest = one
        assert rest == pytest.approx(other[3:]) if other[4] == "ok" else rest == list(other[3:])
        if other[0]:
            assert intercept == pytest.approx(other[1])
            np.testing.assert_allclose(np.array(coef) * sizes, other[0], 1e-9)
        if other[2]:
            np.testing.assert_allclose(np.array(std_err[1:]) * sizes, other[2][1:], 1e-9)


def test_numbers_out_of_range(session: Session) -> None:
    x, y = series(20, 1)
    table(session, x, y * 1e300)
    status = {one[4] for one in fitted(session, "ROWS 9 PRECEDING")}
    assert status == {"too few rows", "out of range"}


def test_refused(session: Session) -> None:
    x, y = series(20)
    table(session, x, y)
    for call, sentence in (
        (
            "y, CASE WHEN i = 7 THEN ARRAY[1.0] ELSE ARRAY[1.0, 2.0] END",
            "a list of features has length ., expected . as in other rows",
        ),
        (
            "y, CAST(array_fill AS float8[])",
            "a list of features has length 257, expected at most 256",
        ),
    ):
        source = "days"
        if "array_fill" in call:
            filled = (
                "list_transform(range(257), lambda v: i)"
                if session[0] == "duck"
                else "array_fill(i, ARRAY[257])"
            )
            source = f"(SELECT i, y, {filled} AS array_fill FROM days) AS d"
        with pytest.raises(Exception, match=sentence):
            fitted(session, "ROWS 9 PRECEDING", call, source)


def test_no_rows(session: Session) -> None:
    x, y = series(5)
    table(session, x, y)
    assert session[1].execute("SELECT rolling_model(y, x) FROM days WHERE i > 9").fetchone() == (
        None,
    )
