"""Run with faults.c preloaded: spoils each call on the file that rows spill to.

    spill_sweep.py FOLDER MODE FIRST STEP

Each case is a training in this process: the same model, or one sentence. One JSON object on
stdout: calls, cases, and those that were neither.
"""

import ctypes
import json
import sys

import duckdb

import tuskml

FAULTS = ctypes.CDLL(None)
OPTIONS = '{"deterministic": true, "algorithm": "lbfgs", "max_iter": 2, "epsilon": 0}'
FIT = f"SELECT k, (train_model('linear', i, [i % 7, i % 11], '{OPTIONS}')).coef FROM "
ROWS = "(SELECT i, i % {} AS k FROM range({}) AS t(i)) GROUP BY k ORDER BY k"
STATEMENTS = (FIT + ROWS.format(1, 60_000), FIT + ROWS.format(40, 40_000))


def main() -> None:
    folder, mode = sys.argv[1:3]
    number, step = int(sys.argv[3]), int(sys.argv[4])
    con = tuskml.connect(threads=2)
    con.execute("SELECT tuskml_set_memory(0, ?)", [folder]).fetchall()
    right = [con.execute(sql).fetchall() for sql in STATEMENTS]
    cases, calls, broken = 0, number, []
    while calls >= number:
        calls = 0
        for sql, expected in zip(STATEMENTS, right, strict=True):
            FAULTS.fault_arm(folder.encode(), mode.encode(), ctypes.c_long(number))
            found = answer(con, sql, expected)
            calls = max(calls, FAULTS.fault_calls())
            FAULTS.fault_arm(folder.encode(), b"count", ctypes.c_long(-1))
            if found or con.execute(sql).fetchall() != expected:
                broken.append({"call": number, "found": found or "the next training is wrong"})
            cases += 1
        number += step
    left = con.execute("SELECT tuskml_memory()").fetchall()[0][0]
    assert left["spilled"] == 0, left
    print(json.dumps({"calls": calls, "cases": cases, "broken": broken}))


def answer(con: duckdb.DuckDBPyConnection, sql: str, expected: object) -> str:
    """What is wrong with the answer, or nothing."""
    try:
        return "" if con.execute(sql).fetchall() == expected else "another model"
    except duckdb.Error as error:
        text = str(error).split(": ", 1)[1]
        return "" if text.startswith("train_model: ") and text.isprintable() else text


if __name__ == "__main__":
    main()
