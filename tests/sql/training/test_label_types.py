"""Classifiers of labels of every type, in both databases, against scikit-learn's metrics."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuskml
from tuskml.udas.tasks import TASK_TABLE

OPTIONS: dict[str, dict[str, Any]] = {
    "logistic": {"l2": 0.01},
    "svm": {"l2": 0.01},
    "squared_hinge": {"l2": 0.01},
    "sparse_logistic": {"lambda": 0.01},
    "gbdt": {"trees": 4, "objective": "logistic"},
    "random_forest": {"trees": 4, "objective": "gini"},
    "mlp": {"max_iter": 20, "objective": "logistic"},
    "fm": {"max_iter": 20, "objective": "logistic"},
}
TWO = ("svm", "squared_hinge", "sparse_logistic", "fm")
"""Tasks of two classes at most."""
TYPES = {
    "boolean": ("k = 1", ["false", "true"]),
    "text": ("CASE k WHEN 0 THEN 'm' WHEN 1 THEN 'Z' WHEN 2 THEN 'a b' ELSE 'new' END", ["m", "Z", "a b"]),
    "digits": ("CASE k WHEN 0 THEN '9' WHEN 1 THEN '20' WHEN 2 THEN '100' ELSE '7' END", ["9", "20", "100"]),
    "enum": ("CAST(CASE k WHEN 0 THEN 'sad' WHEN 1 THEN 'ok' WHEN 2 THEN 'glad' ELSE 'new' END AS mood)", ["sad", "ok", "glad"]),
    "smallint": ("CAST(7 - k AS smallint)", ["7", "6", "5"]),
    "integer": ("CAST(k * 3 - 1 AS integer)", ["-1", "2", "5"]),
    "bigint": ("CAST(k AS bigint) + 1000000000000", ["1000000000000", "1000000000001", "1000000000002"]),
    "real": ("CAST(k AS real)", ["0", "1", "2"]),
    "double": ("CAST(k * 2 AS double precision)", ["0", "2", "4"]),
    "numeric": ("CAST(k + 1 AS numeric(6, 2))", ["1", "2", "3"]),
}  # fmt: skip
"""SQL of a label of class k, and what models call its classes."""
TEXTS = ("text", "digits", "enum")
N = 90


def test_every_classifier_is_here() -> None:
    kinds = {name for name, row in TASK_TABLE.items() if row.labels in ("two", "classes", "either", "either_two")}  # fmt: skip
    assert kinds == OPTIONS.keys()


@pytest.fixture
def mood(session: tuple[str, Any]) -> tuple[str, Any]:
    session[1].execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad', 'new')")
    return session


@given(
    task=st.sampled_from(sorted(OPTIONS)),
    kind=st.sampled_from(sorted(TYPES)),
    many=st.booleans(),
    seed=st.integers(0, 10_000),
)
@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_labels_of_every_type(
    mood: tuple[str, Any], task: str, kind: str, many: bool, seed: int
) -> None:
    """Of three groups: all classes, one class, and a class among the scored rows that training
    did not see; a label is missing now and then."""
    name, connection = mood
    many = many and task not in TWO and kind != "boolean"
    names = TYPES[kind][1][: 3 if many else 2]
    rows = drawn(len(names), seed, unseen=kind != "boolean")
    columns = "g integer, fold integer, k integer, a double precision, b double precision"
    connection.execute(f"DROP TABLE IF EXISTS r; CREATE TEMP TABLE r ({columns})")
    values = ", ".join(str(row).replace("None", "NULL") for row in rows)
    connection.execute(f"INSERT INTO r VALUES {values}")
    label = f"CASE WHEN k IS NOT NULL THEN {TYPES[kind][0]} END"
    x = "[a, b]" if name == "duck" else "ARRAY[a, b]"
    options = json.dumps(OPTIONS[task])
    models = f"SELECT g, train_model('{task}', {label}, {x}, '{options}') AS m FROM r WHERE fold = 0 GROUP BY g"
    connection.execute(f"DROP TABLE IF EXISTS f; CREATE TEMP TABLE f AS {models}")
    numbers = kind not in TEXTS or kind == "digits"
    predicted = "predict(m, {x})" if numbers else "NULL"
    scored = connection.execute(
        f"SELECT g, k, predict_class(m, {x}), {predicted.format(x=x)} FROM r JOIN f USING (g) WHERE k IS NOT NULL ORDER BY g"
    ).fetchall()
    assert scored
    for g in range(3):
        (known,) = connection.execute(f"SELECT (m).class_names FROM f WHERE g = {g}").fetchone()
        assert sorted(known) == sorted(names[:1] if g == 1 else names)
    for _, _, shown, number in scored:
        assert shown in names
        if kind == "boolean":
            assert number == (shown == "true")
        elif numbers:
            assert number == float(shown)
    own = f"CAST({label} AS text)" if kind in TEXTS else label
    guess = f"predict_class(m, {x})" if kind in TEXTS else f"predict(m, {x})"
    for g in range(3):
        pairs = [((*names, "other")[k], shown) for h, k, shown, _ in scored if h == g]
        truth, said = map(np.array, zip(*pairs, strict=True))
        shown = f"accuracy({own}, {guess}), f1_score({own}, {guess}, 'macro'), f1_score({own}, {guess}, 'binary', '{names[0]}')"
        found = connection.execute(f"SELECT {shown} FROM r JOIN f USING (g) WHERE g = {g} AND k IS NOT NULL").fetchone()  # fmt: skip
        assert found[0] == pytest.approx(np.mean(truth == said))
        assert found[1] == pytest.approx(reference.f1_score(truth, said, average="macro", zero_division=0))  # fmt: skip
        binary = reference.f1_score(truth == names[0], said == names[0], zero_division=0)
        assert (found[2] or 0.0) == pytest.approx(binary)
    if len(names) == 2 and task not in ("svm", "squared_hinge"):
        shown = f"SELECT k, predict_proba(m, {x}, '{names[0]}'), auc({own}, predict_proba(m, {x}, '{names[0]}'), '{names[0]}') OVER () FROM r JOIN f USING (g) WHERE g = 0 AND k IS NOT NULL"
        k, p, area = zip(*connection.execute(shown).fetchall(), strict=True)
        assert area[0] == pytest.approx(reference.roc_auc_score(np.array(k) == 0, p))
    check_evaluate(connection, name, label, kind, scored, names)


def check_evaluate(
    connection: Any, name: str, label: str, kind: str, scored: list[Any], names: list[str]
) -> None:
    """`tuskml.evaluate` counts as `accuracy` does, for a group with all classes."""
    rows = [(names[k], shown) for g, k, shown, _ in scored if g == 0]
    found = tuskml.evaluate(
        connection,
        "SELECT m AS model FROM f WHERE g = 0",
        source="SELECT * FROM r WHERE g = 0",
        label=f"CAST({label} AS text)" if kind == "enum" else label,
        features=["a", "b"],
    )
    assert found["n_rows"] == len(rows)
    assert found["accuracy"] == pytest.approx(np.mean([one == other for one, other in rows]))


def drawn(n: int, seed: int, unseen: bool) -> list[tuple[Any, ...]]:
    """Rows (g, fold, k, a, b) of n classes; fold 1 is not trained on."""
    random = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for i in range(N):
        g, fold = i % 3, int(i >= 2 * N // 3)
        k = i // 3 % n
        if g == 1:
            k = 0 if fold == 0 else i // 3 % n
        if g == 2 and fold == 1 and i % 4 == 0 and unseen:
            k = n  # a class that was not seen
        a, b = random.normal(k if k < n else 0, 1.0), random.normal()
        missing = random.random() < 0.05
        rows.append((g, fold, None if missing else k, float(a), float(b)))
    return rows


@pytest.mark.parametrize("task", ["logistic", "gbdt", "random_forest", "mlp"])
def test_models_are_of_their_own_groups(session: tuple[str, Any], task: str) -> None:
    """Groups of three, of one and of two classes in one statement, each with its own rows."""
    name, connection = session
    x = "[a]" if name == "duck" else "ARRAY[a]"
    rows = f"SELECT i % 3 AS g, CASE i % 3 WHEN 0 THEN CAST(floor(i / 3.0) AS integer) % 3 WHEN 1 THEN 7 ELSE 4 + CAST(floor(i / 3.0) AS integer) % 2 END AS k, i * 1.5 AS a FROM generate_series(0, {3 * N}) AS s(i)"
    label = "CAST(floor(k) AS integer)"
    model = f"train_model('{task}', {label}, {x}, '{json.dumps(OPTIONS[task])}')"
    found = connection.execute(
        f"SELECT g, (m).classes, (m).n_rows FROM (SELECT g, {model} AS m FROM ({rows}) AS r GROUP BY g) AS f ORDER BY g"
    ).fetchall()
    n = {g: len([i for i in range(3 * N + 1) if i % 3 == g]) for g in range(3)}
    assert found == [(0, [0, 1, 2], n[0]), (1, [7], n[1]), (2, [4, 5], n[2])]
