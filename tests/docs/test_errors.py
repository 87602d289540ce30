"""The errors that the manual shows are those that there are."""

import re
from pathlib import Path

import duckdb
import pytest

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "sql" / "errors.md").read_text()
ERROR = """'{"invalid": "error"}'"""
PROVOKED = {
    "unknown task": "SELECT train_model('logistc', 1, [1.0])",
    "unknown option": "SELECT train_model('svm', 1, [1.0], '{\"l3\": 1}')",
    "another task's option": "SELECT train_model('linear', 1, [1.0], '{\"rank\": 3}')",
    "an option that would change nothing": """SELECT train_model('gbdt', i, [i], '{"patience": 3}')
        FROM range(9) AS t(i)""",
    "impossible value": "SELECT train_model('svm', 1, [1.0], '{\"l2\": -1}')",
    "not JSON": "SELECT train_model('svm', 1, [1.0], '{l2}')",
    "third class": f"SELECT train_model('svm', y, [1.0], {ERROR}) FROM "
    "(VALUES (0), (1), (2)) AS t(y)",
    "NaN, infinity": f"SELECT train_model('linear', 1, [1.0, 'NaN'::DOUBLE], {ERROR})",
    "ragged rows": f"SELECT train_model('linear', 1, x, {ERROR}) FROM "
    "(VALUES ([1.0]), ([1.0]), ([1.0]), ([1.0, 2.0])) AS t(x)",
    "no features": f"SELECT train_model('linear', 1, []::DOUBLE[], {ERROR})",
    "bad sparse id": f"SELECT train_model('linear', 1, sparse([-1], [1.0]), {ERROR})",
    "lengths differ": f"SELECT train_model('linear', 1, sparse([1, 2], [1.0]), {ERROR})",
    "other length in `predict`": "SELECT predict(train_model('linear', 1, [1.0, 2.0]), [1.0])",
    "no probabilities": "SELECT predict_proba(train_model('linear', 1, [1.0]), [1.0])",
    "metric": "SELECT log_loss(1, 2)",
    "an average": "SELECT f1_score(1, 1, 'mean')",
    "text and numbers": "SELECT accuracy('a'::VARCHAR, 1)",
    "bits": "SELECT hash_features(['a'], 40)",
}
ELSEWHERE = {
    "a large sparse id": ("tests/faults/test_account.py", "or option 'store'"),
    "out of memory": (
        "tests/faults/test_memory.py",
        "memory_limit is reached and temp_directory cannot take more",
    ),
    "a call that DuckDB 1.5 leaves ambiguous": (
        "tests/sql/partition/test_partition.py",
        "need DuckDB 2.0",
    ),
    "cancelled": ("tests/faults/test_interrupt.py", "the training was interrupted"),
    "your own task or operator": (
        "tests/learners/linear/own/test_own_tasks_refused.py",
        "task 'mine': loss raised ",
    ),
    "a model of another version": (
        "tests/udas/duckdb/test_payload.py",
        "predict: the payload of the model has format 9, and this tuskml",
    ),
    "a damaged model": (
        "tests/udas/duckdb/test_payload.py",
        "predict: the payload of the model is damaged: restore the model",
    ),
}
"""Rows that need a fault or another version to be seen: the tests that see them, and the words."""


def shown() -> dict[str, str]:
    """The rows of the two tables: what is wrong, and the sentence."""
    found = {}
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 2 and cells[0] != "what":
            found[cells[0]] = cells[1]
    return found


def test_every_row_is_provoked_here_or_elsewhere() -> None:
    assert set(shown()) == PROVOKED.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("what", PROVOKED)
def test_the_sentence_is_what_is_said(what: str, con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error) as raised:
        con.execute(PROVOKED[what]).fetchall()
    sentence = shown()[what]
    parts = [re.escape(part) for part in re.split("…", sentence)]
    assert re.search(".*".join(parts), str(raised.value)), f"{raised.value} is not {sentence!r}"


@pytest.mark.parametrize("what", ELSEWHERE)
def test_the_others_are_seen_elsewhere(what: str, root: Path) -> None:
    path, words = ELSEWHERE[what]
    assert words in shown()[what]
    assert words in (root / path).read_text()
