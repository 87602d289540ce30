"""All tasks, algorithms and storages under a small limit, measured from outside.

The most memory that the process ever had is the kernel's VmHWM, which is set back before each
statement; that includes what is spilled, while it is mapped.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from accounts import LIMIT, RATINGS, ROWS, STORED, TOLERANCE, TRAINS, cases
from hostile import is_sentence

pytestmark = pytest.mark.fault(family="memory limits")

CHILD = """
import faulthandler, json, re, sys
faulthandler.dump_traceback_later(280, exit=True)
import duckdb, tuskml

def status(field):
    return int(re.search(rf"^{field}:\\s*(\\d+)", open("/proc/self/status").read(), re.M)[1]) // 1024

def run(con, sql):
    try:
        return str(con.execute(sql).fetchall())
    except duckdb.Error as error:
        return str(error)

con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
con.execute(f"SET memory_limit = '{sys.argv[1]}MB'")
con.execute("SET preserve_insertion_order = false")
small = "SELECT train_model('logistic', i % 3 = 0, [i % 7, i], '{\\"algorithm\\": \\"newton\\"}').n_rows FROM range(999) t(i)"
run(con, small)
for name, sql in json.load(sys.stdin).items():
    open("/proc/self/clear_refs", "w").write("5")
    before = status("VmRSS")
    told = run(con, sql)
    print(json.dumps([name, told, status("VmHWM") - before]), flush=True)
    assert con.execute(small).fetchall() == [(999,)], name
"""


OTHERS = [name for name in ROWS if name != "many groups"]
LIKE_OTHERS = ("bgd", "mgd", "hogwild", "svrg", "newton_cg", "penalty", "linear")
"""Ends of the cases that only the nightly run has."""


def measured(given: dict[str, str], limit: int = LIMIT) -> list[tuple[str, str, int]]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(limit)],
        input=json.dumps(given), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.sample(1)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "storage",
    [pytest.param("many groups", marks=pytest.mark.nightly), *OTHERS, "stored", "the rest"],
)
def test_a_statement_stays_within_its_limit(
    storage: str, some: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """some: one algorithm of each kind that keeps other things in memory."""
    monkeypatch.setenv("TUSKML_STORE_ROOT", str(tmp_path / "stores"))
    ids = ", ".join(f"(i * {7919 + 104729 * k} + {k}) % 3000000" for k in range(20))
    given = {name: sql for name, sql in (cases() | STORED).items() if name.startswith(storage)}
    given = given or {name: sql.replace("{ids}", ids) for name, sql in RATINGS.items()}
    if some:
        given = {name: sql for name, sql in given.items() if not name.endswith(LIKE_OTHERS)}
    found = measured(given)
    print(*found, sep="\n")
    assert len(found) == len(given) > 0
    for name, told, grown in found:
        assert grown <= LIMIT + TOLERANCE, (name, told, grown)
        assert told.startswith("[(") or not name.startswith(TRAINS), told
        if not told.startswith("[("):
            sentence = told.split(": ", 1)[1]
            assert is_sentence(sentence), told
            assert "memory" in sentence, told


LARGE = 'SELECT m.n_features, len(m.coef), m.coef[1], m.coef[4000001], m.intercept, list_sum(list_transform(m.coef, lambda c: abs(c))), m.std_err FROM (SELECT train_model(\'linear\', 3 * sin(i) - 2 * cos(i) + 7, sparse([0, {large}], [sin(i), cos(i)]), \'{"algorithm": "%s", "epsilon": 1e-10}\') AS m FROM range(40) t(i)) AS s'


@pytest.mark.nightly
def test_the_largest_id_changes_nothing_but_the_length() -> None:
    """y = 3 sin i - 2 cos i + 7 exactly."""
    for name, told, _ in measured(
        {a: LARGE.replace("{large}", "4000000") % a for a in ("lbfgs", "newton", "auto")}, 512
    ):
        n_features, length, low, high, intercept, total, std_err = eval(told)[0]
        assert (n_features, length, std_err) == (4000001, 4000001, None), name
        assert (low, high, intercept) == pytest.approx((3, -2, 7), abs=1e-6)
        assert total == abs(low) + abs(high), "all others are 0"


def test_a_list_beyond_the_limit_suggests_a_store() -> None:
    for name, told, grown in measured(
        {large: LARGE.replace("{large}", large) % "auto" for large in ("10000000", "2147483646")}
    ):
        assert f"the model has {int(name) + 1} coefficients, of which 2 occur" in told
        assert "or option 'store'" in told
        assert grown <= TOLERANCE
