"""`drift` in both databases, against SciPy, NumPy and the metrics of SQL."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, few, here, there

from tuskml.text.type_errors import explain_message

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(47)
NULL = -99.0
"""Stands for NULL in columns of numbers."""
LEAST_SHARE = 1e-4
LIST = f"ARRAY[NULLIF(c0, {NULL}), NULLIF(c1, {NULL})]"
NAMED = {
    "a": f"NULLIF(c0, {NULL})",
    "k": "CASE WHEN c1 >= 0 THEN 'k' || CAST(c1 AS integer) END",
}
NAMES = "feature, psi, ks_low, ks_high, nulls_before, nulls_now, new_levels, missing_levels"
SHOWN = ", ".join(f"(e).{name}" for name in NAMES.split(", "))


def keep(client: Client, x: Any, features: Any = LIST, **more: Any) -> dict[str, Any]:
    """Trains the model m of the table `kept`, and returns its histogram; more: the task, the label
    and the weights as SQL, and options."""
    task, y, w = (more.pop(name, None) for name in ("task", "label", "weight"))
    source, parameters = client.rows(x, np.arange(len(x)) % 7)
    if isinstance(features, dict):
        features, source = client.by_name(features, source)
    options = json.dumps({"histogram": True} | more) + (f"', {w}" if w else "'")
    call = f"train_model('{task or 'linear'}', {y or 'y'}, {features}, '{options})"
    client.connection.execute("DROP TABLE IF EXISTS kept")
    client.connection.execute(f"CREATE TABLE kept AS SELECT {call} AS m FROM {source}", parameters)
    (text,) = client.connection.execute("SELECT (m).histogram FROM kept").fetchone()
    return text and json.loads(text)


def drift(client: Client, x: Any, features: Any = LIST, more: str = "") -> dict[str, Any]:
    """The lines of the model in `kept` by feature; more: the weight."""
    source, parameters = client.rows(x, np.arange(len(x)) % 7)
    if isinstance(features, dict):
        features, source = client.by_name(features, source)
    sql = f"SELECT {SHOWN} FROM (SELECT unnest(drift(m, {features}{more})) AS e FROM {source}, kept) AS t"
    rows = client.connection.execute(sql, parameters).fetchall()
    names = NAMES.split(", ")[1:]
    return {name: dict(zip(names, values, strict=True)) for name, *values in rows}


def known(x: Any, column: int) -> Any:
    return x[:, column][x[:, column] != NULL]


def quantiles(x: Any, n: int) -> Any:
    """The least numbers that 1/n, 2/n, ... of all do not exceed."""
    return np.sort(x)[-(-np.arange(1, n) * len(x) // n) - 1]


def psi(old: Any, new: Any) -> float:
    """The index over the deciles of old numbers; a number equal to a decile is below it."""
    cuts = quantiles(old, 10)
    bins = [np.bincount(np.searchsorted(cuts, one), minlength=10) for one in (old, new)]
    before, now = (np.maximum(counts / counts.sum(), LEAST_SHARE) for counts in bins)
    return float(((now - before) * np.log(now / before)).sum())


OLD = np.column_stack([RANDOM.normal(size=400), RANDOM.integers(0, 5, 400)])
NEW = np.column_stack([RANDOM.normal(0.7, 2, 300), RANDOM.integers(1, 8, 300)])
OLD[::10, 0] = OLD[5::20, 1] = NEW[::4, 0] = NULL


def test_numbers_are_those_of_scipy(client: Client) -> None:
    histogram = keep(client, OLD, task="gbdt", trees=2)  # which keeps rows with a NULL
    found = drift(client, NEW)
    assert list(found) == ["x1", "x2"]
    for j, line in enumerate(found.values()):
        old, new = known(OLD, j), known(NEW, j)
        exact = ks_2samp(old, new).statistic
        assert line["ks_low"] - 1e-12 <= exact <= line["ks_high"] + 1e-12
        assert line["ks_high"] - line["ks_low"] < 0.1
        assert line["psi"] == pytest.approx(psi(old, new))
        nulls = [np.mean(x[:, j] == NULL) for x in (OLD, NEW)]
        assert [line["nulls_before"], line["nulls_now"]] == pytest.approx(nulls)
        assert line["new_levels"] is line["missing_levels"] is None
        column = histogram["columns"][j]
        edges = np.unique(quantiles(old, 20))
        assert column["edges"] == pytest.approx(edges)
        assert (
            column["counts"]
            == np.bincount(np.searchsorted(edges, old), minlength=len(edges) + 1).tolist()
        )
        assert column["ties"] == [int(np.sum(old == edge)) for edge in edges]
    few_values = found["x2"]
    assert few_values["ks_low"] == few_values["ks_high"], "each value is an edge"
    assert few_values["ks_low"] == pytest.approx(ks_2samp(known(OLD, 1), known(NEW, 1)).statistic)


def test_the_index_is_that_of_the_metric(here: Client) -> None:
    keep(here, OLD, task="gbdt", trees=2)
    both = np.concatenate([known(OLD, 0), known(NEW, 0)])
    age = np.repeat([0.0, 1.0], [len(known(OLD, 0)), len(known(NEW, 0))])
    source, parameters = here.rows(both[:, None], age)
    (exact,) = here.connection.execute(
        f"SELECT psi(y = 1, c0) FROM {source}", parameters
    ).fetchone()
    assert drift(here, NEW)["x1"]["psi"] == pytest.approx(exact)


def test_categories_have_new_and_missing_levels(client: Client) -> None:
    keep(client, OLD, NAMED, missing="level")
    line = drift(client, NEW, NAMED)["k"]
    assert line["new_levels"] == "k5, k6, k7"
    assert line["missing_levels"] == "k0"
    assert line["ks_low"] is line["ks_high"] is None
    shares = [
        np.bincount(known(x, 1).astype(int), minlength=8) / len(known(x, 1)) for x in (OLD, NEW)
    ]
    before, now = (np.maximum([*s[:5], s[5:].sum()], LEAST_SHARE) for s in shares)
    assert line["psi"] == pytest.approx(((now - before) * np.log(now / before)).sum())
    assert line["nulls_before"] == pytest.approx(np.mean(OLD[:, 1] == NULL))


OWN = {
    "list": (LIST, {}),
    "named": (NAMED, {}),
    "imputed": (NAMED, {"missing": "impute"}),
    "kept": (LIST, {"task": "gbdt", "trees": 2}),
}


@pytest.mark.parametrize("case", OWN)
def test_the_rows_of_the_training_have_not_drifted(client: Client, case: str) -> None:
    """Rows that the training left out count in neither distribution, and their NULLs in both."""
    features, options = OWN[case]
    keep(client, OLD, features, **options)
    for line in drift(client, OLD, features).values():
        assert line["psi"] == pytest.approx(0, abs=1e-12)
        assert line["ks_low"] in (None, 0)
        assert line["nulls_now"] == pytest.approx(line["nulls_before"])
        assert line["new_levels"] is line["missing_levels"] is None


@few
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=60),
    st.lists(st.integers(-2, 14), min_size=1, max_size=60),
)
def test_few_values_are_exact(here: Client, old: list[int], new: list[int]) -> None:
    """Of at most 19 values that are frequent enough each is an edge, and others are in bounds."""
    keep(here, np.column_stack([old, old]))
    line = drift(here, np.column_stack([new, new]))["x1"]
    exact = ks_2samp(old, new, method="asymp").statistic
    assert line["ks_low"] - 1e-12 <= exact <= line["ks_high"] + 1e-12
    assert line["psi"] == pytest.approx(psi(np.array(old, float), np.array(new, float)), abs=1e-12)


def test_a_row_of_weight_2_is_two_rows(client: Client) -> None:
    twice = np.repeat(OLD, 1 + (np.arange(len(OLD)) % 2), axis=0)
    source = np.column_stack([OLD, 1 + (np.arange(len(OLD)) % 2)])
    more = np.column_stack([NEW, 1 + (np.arange(len(NEW)) % 3)])
    weighted = keep(client, source, task="gbdt", trees=2, weight="c2")
    found = drift(client, more, more=", CAST(c2 AS double precision)")
    assert weighted == keep(client, twice, task="gbdt", trees=2)
    repeated = drift(client, np.repeat(NEW, 1 + (np.arange(len(NEW)) % 3), axis=0))
    for name, line in repeated.items():
        assert found[name] == pytest.approx(line)


def test_both_databases_keep_and_find_the_same(here: Client, there: Client) -> None:
    for features in (LIST, NAMED):
        assert keep(here, OLD, features) == keep(there, OLD, features)
        assert drift(here, NEW, features) == drift(there, NEW, features)


TASKS: dict[str, dict[str, Any]] = {
    "linear": {},
    "logistic": {"label": "y > 3"},
    "poisson": {},
    "quantile": {},
    "gbdt": {"trees": 2},
    "random_forest": {"trees": 2},
    "mlp": {"max_iter": 2, "layers": [3]},
    "fm": {"max_iter": 2},
    "lasso": {"lambda": 0.1},
    "kmeans": {"label": "NULL", "clusters": 2},
    "svm": {"label": "y > 3", "l2": [0.1, 1.0], "folds": 3},
    "huber": {"fold_by": "k", "l2": [0.1, 1.0]},
}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_keeps_the_same(here: Client, task: str) -> None:
    plain = np.where(OLD == NULL, 0, OLD)
    kept = keep(here, plain, NAMED, task=task, **TASKS[task])
    names = [column["name"] for column in kept["columns"]]
    assert names == (["a"] if "fold_by" in TASKS[task] else ["a", "k"]), (
        "a column of folds is no feature"
    )
    keep(here, plain, {"a": "c0", "k": "'k' || CAST(c1 AS integer)"})
    linear = json.loads(here.connection.execute("SELECT m.histogram FROM kept").fetchone()[0])
    assert kept["columns"][0] == linear["columns"][0]


def test_groups_and_threads_are_combined(here: Client) -> None:
    keep(here, OLD)
    once = drift(here, NEW)
    source, parameters = here.rows(NEW, np.arange(len(NEW)) % 3)
    run = here.connection.execute
    run("SET threads = 4")
    run(f"CREATE TABLE many AS SELECT * FROM {source}, range(1500) AS n(i) ORDER BY i", parameters)
    sql = f"SELECT {SHOWN} FROM (SELECT unnest(drift(m, {LIST})) AS e FROM many, kept)"
    names = NAMES.split(", ")[1:]
    for name, *values in run(sql).fetchall():
        assert dict(zip(names, values, strict=True)) == pytest.approx(once[name])
    of_one = f"SELECT {SHOWN} FROM (SELECT y, unnest(drift(m, {LIST})) AS e FROM many, kept GROUP BY y) WHERE y = 1"
    alone = drift(here, NEW[np.arange(len(NEW)) % 3 == 1])
    for name, *values in run(of_one).fetchall():
        assert dict(zip(names, values, strict=True)) == pytest.approx(alone[name])


def test_parallel_workers_find_the_same(there: Client) -> None:
    keep(there, OLD, NAMED)
    once = drift(there, NEW, NAMED)
    source, parameters = there.rows(NEW, np.zeros(len(NEW)))
    run = there.connection.execute
    run("DROP TABLE IF EXISTS many")
    run(f"CREATE TABLE many AS SELECT * FROM {source}, generate_series(1, 100)", parameters)
    for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
        run(f"SET {name} = 0")
    features, source = there.by_name(NAMED, "many")
    call = f"SELECT drift((SELECT m FROM kept), {features}) AS all_of_them FROM {source}"
    plan = "\n".join(line for (line,) in run(f"EXPLAIN {call}").fetchall())
    found = run(f"SELECT {SHOWN} FROM unnest(({call})) AS e").fetchall()
    assert "Partial Aggregate" in plan
    for name, *values in found:
        assert dict(zip(NAMES.split(", ")[1:], values, strict=True)) == pytest.approx(once[name])


def test_a_model_without_the_option_is_as_before(client: Client) -> None:
    keep(client, OLD, NAMED)
    run = client.connection.execute
    (with_it,) = run("SELECT (m).payload FROM kept").fetchone()
    assert keep(client, OLD, NAMED, histogram=False) is None
    assert run("SELECT (m).payload FROM kept").fetchone() == (with_it,)
    with pytest.raises((duckdb.Error, psycopg.Error), match="expected one trained with option"):
        drift(client, NEW, NAMED)


def test_a_group_of_invalid_rows_has_no_drift(client: Client) -> None:
    spoiled = np.array(OLD)
    spoiled[3, 0] = np.inf
    assert keep(client, spoiled) is None
    assert drift(client, NEW) == {}


WRONG = {
    "a name": (LIST, {"a": "c0"}, "the model was trained on lists of numbers"),
    "a list": (NAMED, LIST, "the model was trained on rows with names"),
    "few": (LIST, "ARRAY[c0]", "a row has 1 features, and the model has 2"),
    "no column": (NAMED, {"a": "c0", "b": "c1"}, "the row has no column 'k'"),
    "text": (
        NAMED,
        {"a": "'x'", "k": "'y'"},
        "column 'a' is text, and the model was trained on numbers",
    ),
    "sparse": (LIST, "sparse(ARRAY[1], ARRAY[c0])", "expected a row with names"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_compared_is_named(client: Client, case: str) -> None:
    trained, given, sentence = WRONG[case]
    keep(client, OLD, trained)
    with pytest.raises((duckdb.Error, psycopg.Error), match=sentence):
        drift(client, NEW, given)


def test_what_keeps_no_histogram_is_refused(client: Client) -> None:
    for call, sentence in (
        (
            "'linear', y, sparse(ARRAY[1], ARRAY[c0])",
            "option 'histogram' is for features that are lists or rows with names",
        ),
        (
            "'matrix_factorization', y, ARRAY[c1, c1]",
            "option 'histogram' is not available with task 'matrix_factorization'",
        ),
    ):
        source, parameters = client.rows(np.abs(OLD), np.arange(len(OLD)))
        with pytest.raises((duckdb.Error, psycopg.Error), match=sentence):
            client.connection.execute(
                f"SELECT train_model({call}, '{{\"histogram\": true}}') FROM {source}", parameters
            )


def test_rows_of_two_models_are_refused(client: Client) -> None:
    keep(client, OLD)
    run = client.connection.execute
    run("DROP TABLE IF EXISTS two")
    run("CREATE TABLE two AS SELECT m FROM kept")
    keep(client, NEW)
    source, parameters = client.rows(NEW, np.zeros(len(NEW)))
    with pytest.raises(
        (duckdb.Error, psycopg.Error), match="rows of a group have different models"
    ):
        run(
            f"SELECT drift(m, {LIST}) FROM {source}, (SELECT * FROM two UNION ALL SELECT * FROM kept) AS t",
            parameters,
        )


def test_the_most_frequent_levels_are_kept(here: Client) -> None:
    """Of more than 1,000 the others are counted together, and no level is called new."""
    levels = np.concatenate([np.repeat(np.arange(999), 2), np.arange(999, 1200)])
    rows = np.column_stack([levels, levels])
    column = keep(here, rows, NAMED)["columns"][1]
    assert len(column["levels"]) == 1000
    assert column["levels"] == sorted(column["levels"])
    assert column["counts"][-1] == 200
    line = drift(here, np.array([[1.0, 5000.0]]), NAMED)["k"]
    assert line["new_levels"] is None
    assert line["missing_levels"].endswith(", ...")


def test_numbers_may_be_categories(client: Client) -> None:
    names = {"k": "c1", "when": "DATE '2024-01-01' + CAST(c1 AS integer)", "even": "c1 < 2"}
    plain = np.abs(OLD)
    found = {one["name"]: one for one in keep(client, plain, names, categories=["k"])["columns"]}
    assert found["k"]["levels"] == ["0", "1", "2", "3", "4", "99"]
    assert found["when"]["edges"][0] == 19723, "days since 1970"
    assert found["even"]["levels"] == ["false", "true"]
    assert drift(client, np.abs(NEW), names)["k"]["new_levels"] == "5, 6, 7"


def test_a_histogram_survives_files(here: Client, tmp_path: Path) -> None:
    from tuskml.model.model import Model

    kept = keep(here, OLD, NAMED)
    once = drift(here, NEW, NAMED)
    run = here.connection.execute
    run(f"COPY kept TO '{tmp_path / 'kept.parquet'}'")
    run(f"COPY kept TO '{tmp_path / 'kept.json'}'")
    model = Model.of(run("SELECT m FROM kept").fetchone()[0])
    model.save(tmp_path / "model.json")
    assert json.loads(Model.load(tmp_path / "model.json").histogram) == kept
    for file in ("kept.parquet", "kept.json"):
        run(f"CREATE OR REPLACE TABLE kept AS FROM '{tmp_path / file}'")
        assert drift(here, NEW, NAMED) == once
    run("UPDATE kept SET m = with_payload(m)")
    assert drift(here, NEW, NAMED) == once


def test_a_damaged_histogram_is_refused(here: Client) -> None:
    text = json.dumps(keep(here, OLD, NAMED))
    for old, new in (
        ('"version": 1', '"version": 2'),
        ('"counts": [', '"counts": [1, '),
        ('"ties": [', '"ties": [1, '),
        ('"edges": [', '"borders": ['),
        ('"levels": [', '"levels": ["z", '),
        ("}]}", "}]"),
    ):
        assert old in text
        run = here.connection.execute
        damaged = text.replace(old, new, 1)
        run("UPDATE kept SET m = struct_update(m, histogram := ?)", [damaged])
        with pytest.raises(duckdb.Error, match="is not the JSON that train_model wrote"):
            drift(here, NEW, NAMED)


def test_wrong_types_are_explained(here: Client) -> None:
    with pytest.raises(duckdb.Error) as caught:
        here.connection.execute("SELECT drift(1, 2, 3, 4)")
    assert "drift" in explain_message(str(caught.value))


@pytest.mark.parametrize("task", ["linear", "gbdt", "mlp"])
def test_rows_in_several_places_keep_none(task: str) -> None:
    """A histogram is of all rows of a group, which are then packed in one place."""
    from tuskml.learners.options.table import idle_where, needs_one_place
    from tuskml.learners.registry import learner_of, options_of, task_named

    table = learner_of(task_named(task)).options.by_name
    options = options_of(task_named(task), '{"histogram": true}')
    assert needs_one_place(table, options) == "option 'histogram' needs all rows in one place"
    assert idle_where(table, options, "streamed") == "histogram"
    assert idle_where(table, options, "pooled") == "histogram"
