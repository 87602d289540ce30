"""Option `invalid`, in both databases: rows that no model can be trained on spoil no other group."""

# ruff: noqa: E501, SQL is read better on one line

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ERRORS = (duckdb.Error, psycopg.Error)
N_GROUPS, N_ROWS = 4, 30
BAD = 2
"""The group that has the bad rows."""
NAN, INFINITE = "CAST('NaN' AS DOUBLE PRECISION)", "CAST('Infinity' AS DOUBLE PRECISION)"
ROWS = """
CREATE {temp} TABLE t AS SELECT CAST(i AS INTEGER) AS i, CAST(i % {n} AS INTEGER) AS g,
CAST((i * 7919) % 13 AS DOUBLE PRECISION) AS a, CAST((i * 104729) % 11 AS DOUBLE PRECISION) AS b,
CAST((i * 31) % 5 AS DOUBLE PRECISION) AS y, CASE (i * 17) % 3 WHEN 0 THEN 'x' WHEN 1 THEN 'y' ELSE 'z' END AS c,
CASE WHEN (i * 37) % 7 < 3 THEN 'no' ELSE 'yes' END AS l
FROM generate_series(0, {last}) AS s(i)
"""


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        last = N_GROUPS * N_ROWS - 1
        session.execute(ROWS.format(temp="TEMP" if name == "post" else "", n=N_GROUPS, last=last))

    def list(self, *items: str) -> str:
        listed = ", ".join(items)
        return f"[{listed}]" if self.name == "duck" else f"ARRAY[{listed}]"

    def row(self, **columns: str) -> str:
        if self.name == "duck":
            return "{" + ", ".join(f"'{name}': {sql}" for name, sql in columns.items()) + "}"
        listed = ", ".join(f'{sql} AS "{name}"' for name, sql in columns.items())
        return f"(SELECT q FROM (SELECT {listed}) AS q)"

    def sparse(self, *items: str) -> str:
        return f"sparse({self.list(*map(str, range(len(items))))}, {self.list(*items)})"

    def features(self, kind: str, a: str) -> str:
        """Features of which `a` is the first number."""
        if kind == "list":
            return self.list(a, "b")
        return self.sparse(a, "b") if kind == "sparse" else self.row(a=a, c="c")

    def models(self, call: str, where: str = "true") -> dict[int, Any]:
        fields = "status", "n_rows", "n_skipped", "plan", "coef", "intercept", "classes"
        listed = ", ".join(f"(m).{field}" for field in fields)
        found = self.session.execute(
            f"SELECT g, {listed} FROM (SELECT g, {call} AS m FROM t WHERE {where} GROUP BY g) AS f"
        ).fetchall()
        return {row[0]: dict(zip(fields, row[1:], strict=True)) for row in found}


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


BAD_ROW = f"i = {BAD + 5 * N_GROUPS}"
SAME = {"threads": 1, "seed": 3}
TASKS: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "linear": ("y", ["list", "row", "sparse"], {}),
    "logistic": ("l", ["list", "row", "sparse"], {"l2": 0.1}),
    "svm": ("l", ["list"], {"l2": 0.1}),
    "poisson": ("y", ["list", "row"], {}),
    "quantile": ("y", ["list"], {}),
    "gbdt": ("y", ["list", "row"], {"trees": 3}),
    "random_forest": ("y", ["list"], {"trees": 3}),
    "mlp": ("y", ["list", "row"], {"max_iter": 2}),
    "fm": ("y", ["sparse", "row"], {"max_iter": 2}),
    "lasso": ("y", ["list", "sparse"], {"lambda": 0.1}),
}  # fmt: skip
CASES = [(task, kind) for task, (_, kinds, _) in TASKS.items() for kind in kinds]


def call(task: str, label: str, features: str, options: dict[str, Any], more: str = "") -> str:
    return f"train_model('{task}', {label}, {features}, '{json.dumps(SAME | options)}'{more})"


@pytest.mark.parametrize("value", [NAN, INFINITE])
@pytest.mark.parametrize(("task", "kind"), CASES)
def test_a_group_with_a_bad_feature_spoils_no_other(
    db: Database, task: str, kind: str, value: str
) -> None:
    label, _, options = TASKS[task]
    bad = db.features(kind, f"CASE WHEN {BAD_ROW} THEN {value} ELSE a END")
    found = db.models(call(task, label, bad, options))
    plain = db.models(call(task, label, db.features(kind, "a"), options))
    assert {g: one for g, one in found.items() if g != BAD} == {
        g: one for g, one in plain.items() if g != BAD
    }
    lost = found[BAD]
    assert (lost["status"], lost["coef"], lost["intercept"]) == ("invalid rows", None, None)
    assert (lost["n_rows"], lost["n_skipped"]) == (0, N_ROWS)
    assert " in row 6 of the group" in lost["plan"]


@pytest.mark.parametrize(("task", "kind"), CASES)
def test_skipping_is_as_if_the_row_were_not_there(db: Database, task: str, kind: str) -> None:
    label, _, options = TASKS[task]
    bad = db.features(kind, f"CASE WHEN {BAD_ROW} THEN {INFINITE} ELSE a END")
    found = db.models(call(task, label, bad, options | {"invalid": "skip"}))
    plain = db.models(call(task, label, db.features(kind, "a"), options), where=f"NOT ({BAD_ROW})")
    assert found[BAD].pop("n_skipped") == 1
    assert plain[BAD].pop("n_skipped") == 0
    assert found == plain


WIDE = {
    "linear": ("y", {}), "logistic": ("l", {"l2": 0.1}), "svm": ("l", {"l2": 0.1}),
    "poisson": ("y", {}), "quantile": ("y", {}), "fm": ("y", {"max_iter": 2}),
    "ordinal": ("l = 'yes'", {"l2": 0.1}), "lasso": ("y", {"lambda": 0.1}), "sparse_logistic": ("l", {"lambda": 0.1}),
    "kmeans": ("NULL", {"clusters": 2}),
    "a search": ("y", {"l2": [0.1, 1], "folds": 3}),
}  # fmt: skip
"""Tasks that take sparse rows."""


@pytest.mark.parametrize("task", WIDE)
def test_an_id_beyond_31_bits_spoils_no_other_group(db: Database, task: str) -> None:
    """As an infinite number would: the group has no model, or the row is left out."""
    label, options = WIDE[task]
    task = "linear" if task == "a search" else task
    ids = db.list("0", f"CASE WHEN {BAD_ROW} THEN 3000000000 ELSE 1 END")
    wide, plain = f"sparse({ids}, {db.list('a', 'b')})", db.sparse("a", "b")
    right = db.models(call(task, label, plain, options))
    found = db.models(call(task, label, wide, options))
    lost = found.pop(BAD)
    assert found == {g: one for g, one in right.items() if g != BAD}
    assert (lost["status"], lost["coef"], lost["n_skipped"]) == ("invalid rows", None, N_ROWS)
    assert "a feature id above 2147483646" in lost["plan"]
    left = db.models(call(task, label, wide, options | {"invalid": "skip"}))
    right = db.models(
        call(task, label, plain, options | {"invalid": "skip"}), where=f"NOT ({BAD_ROW})"
    )
    assert left[BAD].pop("n_skipped") == 1
    assert right[BAD].pop("n_skipped") == 0
    assert left == right
    with pytest.raises(ERRORS, match="a feature id above 2147483646"):
        db.models(call(task, label, wide, options | {"invalid": "error"}))


def test_a_group_of_such_ids_alone_is_left_without_rows(db: Database) -> None:
    wide = f"sparse({db.list('3000000000')}, {db.list('a')})"
    options = {"invalid": "skip"}
    found = db.models(call("linear", "y", wide, options), where=f"g = {BAD}")
    assert (found[BAD]["status"], found[BAD]["n_skipped"]) == ("invalid rows", N_ROWS)


@pytest.mark.parametrize("task", TASKS)
def test_an_error_ends_the_statement(db: Database, task: str) -> None:
    label, kinds, options = TASKS[task]
    bad = db.features(kinds[0], f"CASE WHEN {BAD_ROW} THEN {NAN} ELSE a END")
    with pytest.raises(ERRORS, match="is NaN in row 6 of the group"):
        db.models(call(task, label, bad, options | {"invalid": "error"}))


def test_texts_of_rows_left_out_are_no_levels_or_classes(db: Database) -> None:
    """A row brings its own level and class, and is then refused."""
    fresh = f"CASE WHEN {BAD_ROW} THEN 'new' ELSE c END"
    label = f"CASE WHEN {BAD_ROW} THEN 'other' ELSE l END"
    row = db.row(a=f"CASE WHEN {BAD_ROW} THEN {INFINITE} ELSE a END", c=fresh)
    found = db.session.execute(
        "SELECT (m).features, (m).class_names FROM (SELECT "
        f"{call('logistic', label, row, {'l2': 0.1, 'invalid': 'skip'})} AS m FROM t WHERE g = {BAD}) AS f"
    ).fetchall()
    assert found == [(["a", "c[x]", "c[y]", "c[z]"], ["no", "yes"])]


IMPOSSIBLE = {
    "poisson": ("-1", "'poisson' needs a label of at least 0", {}),
    "negative_binomial": ("-1", "'negative_binomial' needs a label of at least 0", {}),
    "gamma": ("0", "'gamma' needs a label greater than 0", {}),
    "tweedie": ("-1", "'tweedie' needs a label of at least 0", {}),
    "gbdt": ("-1", "objective 'poisson' needs a label of at least 0", {"trees": 2, "objective": "poisson"}),
    "logistic": ("7", "expected 1 or 2 as option 'classes' has", {"l2": 0.1, "classes": [1, 2]}),
    "matrix_factorization": ("-1", "expected a number from 0", {"feedback": "implicit", "max_iter": 2}),
}  # fmt: skip


@pytest.mark.parametrize("task", IMPOSSIBLE)
def test_impossible_labels(db: Database, task: str) -> None:
    value, sentence, options = IMPOSSIBLE[task]
    own = "1 + i % 2" if task == "logistic" else "y + 1"
    label = f"CASE WHEN {BAD_ROW} THEN {value} ELSE {own} END"
    features = db.list("a", "b")
    found = db.models(call(task, label, features, options))
    assert found[BAD]["status"] == "invalid rows"
    assert f"label is {value} in row 6 of the group, {sentence}" in found[BAD]["plan"]
    left = db.models(call(task, label, features, options | {"invalid": "skip"}))
    plain = db.models(call(task, own, features, options), where=f"NOT ({BAD_ROW})")
    assert left[BAD].pop("n_skipped") == 1
    assert plain[BAD].pop("n_skipped") == 0
    assert left == plain
    assert all(found[g]["coef"] == plain[g]["coef"] for g in plain if g != BAD)
    with pytest.raises(ERRORS, match="label is"):
        db.models(call(task, label, features, options | {"invalid": "error"}))


OTHERS = {
    "weight": ("linear", "a", ", CASE WHEN {bad} THEN -1 ELSE 1 END", "weight is -1 in row 6"),
    "offset": ("poisson", "a", ", 1, CASE WHEN {bad} THEN CAST('-Infinity' AS DOUBLE PRECISION) ELSE 0 END", "offset is -infinity in row 6"),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_weights_and_offsets(db: Database, what: str) -> None:
    task, a, more, sentence = OTHERS[what]
    given = more.format(bad=BAD_ROW)
    found = db.models(call(task, "y", db.list(a, "b"), {}, given))
    assert found[BAD]["status"] == "invalid rows"
    assert sentence in found[BAD]["plan"]
    assert {one["status"] for g, one in found.items() if g != BAD} == {"ok"}
    left = db.models(call(task, "y", db.list(a, "b"), {"invalid": "skip"}, given))
    assert (left[BAD]["n_skipped"], left[BAD]["n_rows"]) == (1, N_ROWS - 1)


def test_lists_of_different_lengths(db: Database) -> None:
    """Nothing says which length is right, so no row is left out."""
    ragged = f"CASE WHEN {BAD_ROW} THEN {db.list('a')} ELSE {db.list('a', 'b')} END"
    for invalid in ("group", "skip"):
        found = db.models(call("linear", "y", ragged, {"invalid": invalid}))
        assert found[BAD]["status"] == "invalid rows"
        assert {one["status"] for g, one in found.items() if g != BAD} == {"ok"}


def test_three_classes_in_one_group(db: Database) -> None:
    found = db.models(
        call(
            "svm",
            f"CASE WHEN g = {BAD} THEN i % 3 ELSE i / {N_GROUPS} % 2 END",
            db.list("a", "b"),
            {"l2": 0.1},
        )
    )
    assert found[BAD]["status"] == "invalid rows"
    assert "'svm' needs two classes" in found[BAD]["plan"]
    assert {one["status"] for g, one in found.items() if g != BAD} == {"ok"}


@pytest.mark.parametrize("invalid", ["group", "skip"])
def test_searches(db: Database, invalid: str) -> None:
    label = f"CASE WHEN {BAD_ROW} THEN -1 ELSE y END"
    options = {"l2": [0.1, 1.0], "folds": 2, "invalid": invalid}
    found = db.models(call("poisson", label, db.list("a", "b"), options))
    assert {one["status"] for g, one in found.items() if g != BAD} == {"ok"}
    assert found[BAD]["status"] == ("ok" if invalid == "skip" else "invalid rows")
    assert found[BAD]["n_skipped"] == (1 if invalid == "skip" else N_ROWS)


@pytest.mark.parametrize("task", ["linear", "logistic", "ordinal", "gbdt", "random_forest", "mlp", "fm", "matrix_factorization", "lda", "kmeans"])  # fmt: skip
def test_predictions_of_an_invalid_model_are_null(db: Database, task: str) -> None:
    label = "NULL" if task in ("lda", "kmeans") else "y"
    value = "-1.0" if task == "lda" else NAN
    bad = db.sparse(value, "1.0") if task == "lda" else db.list(value, "1.0")
    good = db.sparse("1.0", "1.0") if task == "lda" else db.list("1.0", "1.0")
    asked = ["predict", "predict_proba", "predict_class"] if task != "lda" else ["predict_topics"]
    listed = ", ".join(f"{name}(m, {good})" for name in asked)
    found = db.session.execute(
        f"SELECT (m).status, {listed} FROM (SELECT train_model('{task}', {label}, {bad}) AS m FROM t) AS f"
    ).fetchall()
    assert found == [("invalid rows", *[None] * len(asked))]


def test_nan_is_a_null_where_rows_are_skipped(db: Database) -> None:
    """Trees keep a NULL, and so NaN."""
    nan, null = (f"CASE WHEN i % 3 = 0 THEN {one} ELSE a END" for one in (NAN, "NULL"))
    for kind in ("list", "row"):
        options = {"trees": 3, "invalid": "skip"}
        found = db.models(call("gbdt", "y", db.features(kind, nan), options))
        assert found == db.models(call("gbdt", "y", db.features(kind, null), options))
        assert {one["n_rows"] for one in found.values()} == {N_ROWS}


@pytest.fixture(scope="module")
def duckdb_alone() -> Iterator[Database]:
    """One connection for all examples: opening one takes longer than an example."""
    import tuskml

    with tuskml.connect() as connection:
        yield Database("duck", connection)


@settings(deadline=None)
@given(
    bad=st.sets(st.integers(0, 59), min_size=1, max_size=20),
    where=st.sampled_from(["label", "first", "second", "weight"]),
    value=st.sampled_from(["nan", "inf", "-inf"]),
    kind=st.sampled_from(["list", "row", "sparse"]),
    task=st.sampled_from(["linear", "quantile", "lasso"]),
)
def test_any_rows_may_be_bad(
    duckdb_alone: Database, bad: set[int], where: str, value: str, kind: str, task: str
) -> None:
    """What is skipped is exactly the bad rows, whichever they are."""
    wrong = f"CASE WHEN i IN ({', '.join(map(str, bad))}) THEN '{value}'::DOUBLE ELSE {{}} END"
    names = {"label": "y", "first": "a", "second": "b", "weight": "1.0 + i % 2"}
    plain, spoiled = dict(names), names | {where: wrong.format(names[where])}

    def trained(given: dict[str, str], rows: str) -> dict[int, Any]:
        if kind == "row":
            features = duckdb_alone.row(a=given["first"], b=given["second"], c="c")
        else:
            make = duckdb_alone.list if kind == "list" else duckdb_alone.sparse
            features = make(given["first"], given["second"])
        options = {"invalid": "skip"} | ({"lambda": 0.1} if task == "lasso" else {})
        return duckdb_alone.models(
            call(task, given["label"], features, options, f", {given['weight']}"),
            f"i < 60 AND {rows}",
        )

    found = trained(spoiled, "true")
    expected = trained(plain, f"i NOT IN ({', '.join(map(str, bad))})")
    skipped = {g: one.pop("n_skipped") for g, one in found.items()}
    for one in expected.values():
        one.pop("n_skipped")
    assert found == expected
    assert sum(skipped.values()) == len(bad)
