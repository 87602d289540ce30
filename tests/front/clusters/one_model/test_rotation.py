"""Topics and vectors of large groups, by blocks of words or items that rotate over parts."""

import json
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from documents import planted, recovered
from topic_blob import Topics, read

import tuskml
from tuskml.cluster import units
from tuskml.cluster.parts import part_rows
from tuskml.groups.execution import leading
from tuskml.groups.execution.leading import Ran
from tuskml.learners import rotation
from tuskml.learners.learner import Request
from tuskml.learners.registry import learner_of, options_of, task_named
from tuskml.learners.topics.training import topics_of_payload

LDA: dict[str, Any] = {
    "features": "words", "topics": 5, "alpha": 0.2, "beta": 0.05, "max_iter": 30, "seed": 1,
}  # fmt: skip
MF: dict[str, Any] = {"label": "y", "features": "[u, i]", "rank": 3, "max_iter": 12, "seed": 1}
PARTS, USERS, ITEMS, RATINGS = 3, 120, 80, 9_000
TOKENS, PHI, _ = planted(450, topics=5, words=200, mean=40)
Files = Callable[[str], str]


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 100)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """Documents of planted topics, and ratings of planted vectors; `n` is the file."""
    rng = np.random.default_rng(4)
    p, q = rng.normal(size=(USERS, 3)), rng.normal(size=(ITEMS, 3))
    u, i = rng.integers(USERS, size=RATINGS), rng.integers(ITEMS, size=RATINGS)
    y = 3 + (p[u] * q[i]).sum(axis=1) + 0.3 * rng.normal(size=RATINGS)
    with tuskml.connect() as connection:
        connection.execute("CREATE TABLE docs (n INT, words VARCHAR[])")
        connection.executemany(
            "INSERT INTO docs VALUES (?, ?)",
            [(k % PARTS, [f"w{w:03d}" for w in one]) for k, one in enumerate(TOKENS)],
        )
        ratings = {"k": np.arange(RATINGS), "u": u, "i": i, "y": y}  # noqa: F841
        connection.execute(f"CREATE TABLE ratings AS SELECT *, k % {PARTS} AS n FROM ratings")
        yield connection


@pytest.fixture
def files(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> Files:
    """The rows of a table in several files."""

    def of(rows: str) -> str:
        for n in range(PARTS):
            con.execute(
                f"COPY (SELECT * EXCLUDE (n) FROM ({rows}) WHERE n = {n}) "
                f"TO '{tmp_path}/{n}.parquet' (FORMAT parquet)"
            )
        return f"{tmp_path}/*.parquet"

    return of


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """What workers ran for leaders."""
    found: list[Ran] = []
    monkeypatch.setattr(leading, "heard", [found.append])
    return found


def rotated(con: duckdb.DuckDBPyConnection, task: str, **given: Any) -> Any:
    """The model of threads; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        return tuskml.train(con, task, executor="threads", **given)


def topics_of(model: tuskml.Model) -> Topics:
    assert model.payload is not None
    found = topics_of_payload(model.payload)
    assert found is not None
    return read(np.array(found).view(np.uint8))


def test_topics_are_those_of_one_place(con: duckdb.DuckDBPyConnection, files: Files) -> None:
    source = files("FROM docs")
    found = rotated(con, "lda", source=source, **LDA)
    one = tuskml.train(con, "lda", source=source, **LDA)
    assert isinstance(one, tuskml.Model)
    assert found.loss == pytest.approx(one.loss, rel=0.01)
    assert (found.status, found.iterations, found.n_rows) == ("ok", 30, len(TOKENS))
    mine, its = topics_of(found), topics_of(one)
    occurring = np.array([int(word[1:]) for word in mine.words or ()])
    assert recovered(mine, PHI[:, occurring]) > 0.9
    assert mine.words == its.words
    assert mine.n_kw.sum(axis=0).tolist() == its.n_kw.sum(axis=0).tolist(), "each token once"
    assert mine.totals.tolist() == mine.n_kw.sum(axis=1).tolist()
    assert {k: int(mine.head[k]) for k in ("tokens", "words", "documents")} == {
        k: int(its.head[k]) for k in ("tokens", "words", "documents")
    }
    assert "30 rotations of 10 blocks of words over 10 parts" in found.plan


def test_options_of_words_and_of_alpha_act(con: duckdb.DuckDBPyConnection, files: Files) -> None:
    source = files("FROM docs")
    given = LDA | {"min_count": 9, "stop_words": ["w000", "w001"], "max_categories": 60, "seed": 3}
    found = rotated(con, "lda", source=source, **given, optimize_interval=7)
    one = tuskml.train(con, "lda", source=source, **given, optimize_interval=7)
    assert isinstance(one, tuskml.Model)
    mine, its = topics_of(found), topics_of(one)
    assert (mine.n_kw.sum(axis=0) > 0).tolist() == (its.n_kw.sum(axis=0) > 0).tolist()
    assert len(set(mine.alpha.tolist())) == 5
    assert mine.alpha.sum() == pytest.approx(its.alpha.sum(), rel=0.25)
    assert found.loss == pytest.approx(one.loss, rel=0.07), "modes differ by as much"
    late = rotated(con, "lda", source=source, **LDA | {"max_iter": 10**9}, time="0.3s")
    assert late.status == "time limit"


def test_documents_without_words_have_a_status(
    con: duckdb.DuckDBPyConnection, files: Files
) -> None:
    found = rotated(con, "lda", source=files("SELECT n, []::VARCHAR[] AS words FROM docs"), **LDA)
    assert (found.status, found.n_rows) == ("no words", len(TOKENS))
    assert topics_of(found).n_kw.shape == (5, 0)


@pytest.mark.nightly
@pytest.mark.parametrize(("task", "given", "rows"), [
    ("lda", LDA | {"max_iter": 60}, "docs"), ("matrix_factorization", MF, "ratings"),
])  # fmt: skip
def test_losses_are_within_the_noise_of_seeds(
    con: duckdb.DuckDBPyConnection, files: Files, task: str, given: dict[str, Any], rows: str
) -> None:
    source, more = files(f"FROM {rows}"), {} if task == "lda" else {"algorithm": "sgd"}
    pairs = []
    for seed in range(8):
        one = tuskml.train(con, task, source=source, **given | more | {"seed": seed})
        assert isinstance(one, tuskml.Model)
        pairs.append((rotated(con, task, source=source, **given | {"seed": seed}).loss, one.loss))
    ours, its = np.array(pairs).T
    noise = float(np.sqrt((ours.var(ddof=1) + its.var(ddof=1)) / len(its)))
    assert abs(ours.mean() - its.mean()) < 4 * noise + 0.002 * its.mean()


def test_words_may_be_ids(con: duckdb.DuckDBPyConnection, files: Files) -> None:
    text = "sparse(list_transform(list_distinct(words), lambda w: w[2:]::INT), counts)"
    counts = "[len(list_filter(words, lambda v: v = w)) for w in list_distinct(words)]"
    source = files(f"SELECT n, words, {counts} AS counts FROM docs")
    given = LDA | {"features": text}
    found = rotated(con, "lda", source=source, **given)
    one = tuskml.train(con, "lda", source=source, **given)
    assert isinstance(one, tuskml.Model)
    assert topics_of(found).n_kw.sum(axis=0).tolist() == topics_of(one).n_kw.sum(axis=0).tolist()
    assert found.loss == pytest.approx(one.loss, rel=0.07), "modes differ by as much"


def rmse(con: duckdb.DuckDBPyConnection, model: Any, rows: str) -> float:
    """Of the predictions of a model."""
    con.execute("CREATE OR REPLACE TABLE model AS SELECT ?::BLOB AS payload", [model.payload])
    rows = f"SELECT rmse(y, predict(payload, [u, i])) FROM ({rows}), model"
    return float(con.execute(rows).fetchall()[0][0])


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"biases": False, "max_iter": 40},
        {"weight": "1 + k % 3"},
        {"features": ["who", "what"]},
    ],
)
def test_vectors_are_those_of_one_place(
    con: duckdb.DuckDBPyConnection, files: Files, more: dict[str, Any]
) -> None:
    train, test = "k < 8100", "k >= 8100"
    named = "SELECT *, 'u' || u AS who, 'i' || i AS what FROM ratings"
    source, given = files(f"{named} WHERE {train}"), MF | more
    found = rotated(con, "matrix_factorization", source=source, **given)
    one = tuskml.train(con, "matrix_factorization", source=source, algorithm="sgd", **given)
    assert isinstance(one, tuskml.Model)
    assert found.loss == pytest.approx(one.loss, rel=0.02)
    assert (found.status, found.iterations) == (one.status, one.iterations)
    assert found.classes == one.classes
    assert found.intercept == pytest.approx(one.intercept, abs=1e-9)
    assert "rotations of 32 blocks of items over 81 parts" in found.plan
    if "biases" in more or "features" in more:
        return
    new = []
    for model in (found, one):
        coef = np.array(model.coef).reshape(-1, 4)
        u, i, y = con.execute(f"SELECT u, i, y FROM ratings WHERE {test}").fetchnumpy().values()
        p, q = coef[u], coef[int(model.classes[0]) + i]
        at = model.intercept + p[:, 0] + q[:, 0] + (p[:, 1:] * q[:, 1:]).sum(axis=1)
        new.append(float(np.sqrt(np.mean((at - y) ** 2))))
    assert new[0] == pytest.approx(new[1], rel=0.05)
    assert new[0] < 0.6, "the noise has 0.3"


@pytest.mark.parametrize(("task", "given", "rows"), [
    ("lda", LDA | {"optimize_interval": 7}, "docs"), ("matrix_factorization", MF, "ratings"),
])  # fmt: skip
def test_a_state_that_is_lost_changes_no_bit(
    con: duckdb.DuckDBPyConnection,
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
    given: dict[str, Any],
    rows: str,
) -> None:
    """As with a worker: the rotations since the last checkpoint are repeated."""
    source = files(f"FROM {rows}")
    expected = rotated(con, task, source=source, **given)
    messages, opened = [0], [0]
    answer, lock = part_rows.run_unit, threading.Lock()

    def losing(payload: bytes) -> bytes:
        with lock:
            messages[0] += 1
            lost = messages[0] in (25, 160, 330)
        if lost:
            part_rows.forget({part_rows.pin_of(payload)})
        return answer(payload)

    restored = rotation.Rotation.run

    def counted(self: Any, rotations: int, *others: Any) -> Any:
        opened[0] += 1
        return restored(self, rotations, *others)

    monkeypatch.setattr(part_rows, "run_unit", losing)
    monkeypatch.setattr(rotation.Rotation, "run", counted)
    found = rotated(con, task, source=source, **given)
    assert (found.payload, found.history) == (expected.payload, expected.history)
    assert opened[0] > 3, "rotations began again"


def test_states_that_are_lost_again_and_again_end_the_training(
    con: duckdb.DuckDBPyConnection, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = part_rows.run_unit

    def losing(payload: bytes) -> bytes:
        if b'"visit"' in payload and b'"sweep": 5' in payload:
            part_rows.forget({part_rows.pin_of(payload)})
        return answer(payload)

    monkeypatch.setattr(part_rows, "run_unit", losing)
    with pytest.raises(tuskml.ClusterError, match=r"were lost 4 times.*placement 'gtp'"):
        rotated(con, "lda", source=files("FROM docs"), **LDA)


def test_an_engine_s_workers_are_the_parts(
    con: duckdb.DuckDBPyConnection, files: Files, ran: list[Ran]
) -> None:
    rotated(con, "lda", source=files("FROM docs"), **LDA)
    by_part: dict[Any, int] = {}
    for one in ran:
        by_part[one.unit.pin] = by_part.get(one.unit.pin, 0) + 1
    assert len(by_part) == 10
    assert min(by_part.values()) > 31 * 10, "each block visits each part in each rotation"


@pytest.mark.parametrize(("task", "given", "rows", "why"), [
    ("lda", LDA | {"algorithm": "online_vb"}, "docs", "'online_vb' needs all rows in one place"),
    ("matrix_factorization", MF | {"algorithm": "als"}, "ratings", "expected 'auto' or 'sgd'"),
    ("matrix_factorization", MF | {"validation": 0.1}, "ratings", "option 'validation' of"),
    ("matrix_factorization", {**MF, "label": "1", "feedback": "implicit"}, "ratings",
     "option 'feedback' 'implicit'"),
])  # fmt: skip
def test_what_needs_one_place_says_so(
    con: duckdb.DuckDBPyConnection,
    files: Files,
    ran: list[Ran],
    task: str,
    given: dict[str, Any],
    rows: str,
    why: str,
) -> None:
    with pytest.warns(tuskml.ClusterWarning, match=why):
        tuskml.train(con, task, source=files(f"FROM {rows}"), executor="threads", **given)
    assert not ran


def test_a_gpu_needs_one_place() -> None:
    task = task_named("matrix_factorization")
    request = Request(task, options_of(task, '{"device": "gpu"}'))
    why = learner_of(task).by_parts.whole(request)
    assert why == "option 'device' 'gpu' of 'matrix_factorization' needs all rows in one place"


def test_sql_trains_the_same_model(
    con: duckdb.DuckDBPyConnection, files: Files, ran: list[Ran]
) -> None:
    source = files("FROM ratings")
    one = rotated(con, "matrix_factorization", source=source, **MF)
    ran.clear()
    options = json.dumps({"rank": 3, "max_iter": 12, "seed": 1, "cluster": "threads"})
    query = f"train('''{source}''', 'matrix_factorization', 'y', '[u, i]', '{options}')"
    ((found,),) = con.execute(f"SELECT payload FROM {query}").fetchall()
    assert found == one.payload
    assert ran


def test_ids_that_doubles_round_are_those_of_all_parts(
    con: duckdb.DuckDBPyConnection, files: Files
) -> None:
    """Parts number ids that differ in the last bit as they number small ones."""
    source = files("FROM ratings WHERE k < 900")
    more = MF | {"max_iter": 3}
    found = [
        rotated(con, "matrix_factorization", source=source, **more | {"features": features})
        for features in (
            "{'u': 9007199254740990 + u, 'i': 18446744073709551615::UBIGINT - (99 - i)::UBIGINT}",
            "{'u': u, 'i': i}",
        )
    ]
    assert found[0].coef == found[1].coef
    levels = json.loads(found[0].preparation)["columns"][0]["levels"]
    assert len(set(levels)) == len(levels) == found[0].classes[0]
