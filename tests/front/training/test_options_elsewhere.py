"""Options act wherever a group's rows and weights lie, or are refused there.

`Acts.where` in the table of options says where they act: in parts a group of others is trained in
one place instead, with a warning; beside other groups, and with a store, they are refused; where
rows are read by row group, all rows are read instead.
"""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from option_tries import ROWS, Try, tasks, trained, tries

import tuskml
from tuskml import ClusterError, DataError
from tuskml.cluster import units
from tuskml.learners.learner import Request
from tuskml.learners.linear.streamed import training as streamed
from tuskml.learners.options.kinds import (
    LIST,
    ONE_PLACE,
    PARTS,
    POOLED,
    ROW,
    SPARSE,
    STREAMED,
)
from tuskml.learners.options.table import acts_where
from tuskml.learners.registry import learner_of, options_of, task_named

FEATURES = ["a", "b", "n"]
FIELDS = ("coef", "intercept", "std_err", "loss", "iterations", "plan", "classes", "trials")
OF_FIELDS = (
    *("feature_names", "unseen", "format", "threads", "time", "store", "resume", "cache"),
    "invalid",
)
"""Options that show in other fields or rows, or are refused with workers by name."""
BY_PARTS = ("linear", "logistic", "poisson", "gbdt", "random_forest", "mlp")
QUICK = ("linear",)
OF_UPDATES = ("lasso", "elastic_net", "sparse_logistic")
"""Tasks with an option for workers alone, which `clusters/parted/test_parted_paths.py` tests."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: Any) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """A connection with the rows that are trained on, and files with the same rows."""
    folder = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch, tuskml.connect() as con:
        patch.setattr(units, "BATCH_ROWS", 50)
        patch.setattr(units, "LEAST_PARTS", 1)
        con.execute(ROWS)
        for part in range(3):
            con.execute(
                f"COPY (SELECT 1 AS part, * FROM tried WHERE i % 3 = {part}) "
                f"TO '{folder}/{part}.parquet' (FORMAT parquet)"
            )
        yield con, folder


def model_of(con: Any, one: Try, options: Any, **where: Any) -> dict[str, str] | str:
    """What the first model has, or why there is none; a warning is a reason too."""
    given = {name: value for name, value in options.items() if name != "threads"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", tuskml.ClusterWarning)
            models = tuskml.train(
                con, one.task, label=one.label, features=FEATURES, **where, **given
            )
    except (tuskml.TuskError, tuskml.ClusterWarning) as error:
        return str(error)
    model = models[1] if isinstance(models, tuskml.Models) else models
    return {name: repr(getattr(model, name)) for name in FIELDS}


def vanishing(con: Any, task: str, **where: Any) -> tuple[int, list[str]]:
    """How many options of lists were tried, and those that change nothing without a word."""
    bases: dict[str, Any] = {}
    found, count = [], 0
    for one in tries(task, (LIST,)):
        option = learner_of(task_named(task)).options.by_name[one.option]
        if option.unseen or one.option in OF_FIELDS:
            continue
        key = json.dumps([one.label, one.base()])
        if key not in bases:
            bases[key] = model_of(con, one, one.base(), **where)
        if isinstance(bases[key], str):
            continue
        count += 1
        if model_of(con, one, one.base() | {one.option: one.value()}, **where) == bases[key]:
            found.append(str(one))
    return count, found


@pytest.mark.parametrize("task", QUICK)
def test_options_beside_other_groups(rows: Any, task: str) -> None:
    count, found = vanishing(rows[0], task, source="tried", group_by="g", pooled=True)
    assert not found
    assert count > 20


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["linear", pytest.param("logistic", marks=pytest.mark.nightly)])
def test_options_of_stored_models(tmp_path: Path, task: str) -> None:
    """Sparse ones, whose weights lie in the store while they are trained, and others."""
    with tuskml.connect(threads=1, store_root=tmp_path) as con:
        con.execute(ROWS)
        for kind in (SPARSE, LIST):
            bases: dict[str, Any] = {}
            found, count = [], 0
            for one in tries(task, (kind,)):
                option = learner_of(task_named(task)).options.by_name[one.option]
                if option.unseen or "store" in one.beside or one.option in ("store", "invalid"):
                    continue
                base = one.base() | {"store": "kept"}
                key = json.dumps([one.label, base])
                if key not in bases:
                    bases[key] = trained(con, one, base)
                if isinstance(bases[key], str):
                    continue
                count += 1
                if trained(con, one, base | {one.option: one.value()}) == bases[key]:
                    found.append(str(one))
            assert not found
            assert count > 20


def test_what_a_stored_model_cannot_keep_is_refused(tmp_path: Path) -> None:
    features = {LIST: "[a, b]", SPARSE: "sparse([1, 2 + n], [a, 1])", ROW: "{'a': a, 'g': g}"}
    refused = [(LIST, {"covariance": "HC1"}), (SPARSE, {"covariance": "HC1"}),
               (SPARSE, {"fit": True}), (LIST, {"fit": True, "likelihood_ratio": True}),
               (ROW, {"cluster": "g"})]  # fmt: skip
    with tuskml.connect(threads=1, store_root=tmp_path) as con:
        con.execute(ROWS)
        for kind, options in refused:
            text = json.dumps({"store": "kept", **options})
            with pytest.raises(duckdb.Error, match=f"option '{list(options)[-1]}'"):
                con.execute(
                    f"SELECT train_model('linear', y, {features[kind]}, '{text}') FROM tried"
                )


@pytest.fixture(scope="module")
def row_groups(tmp_path_factory: Any) -> str:
    """A file of 30 row groups with the columns of `tried`."""
    path = tmp_path_factory.mktemp("groups") / "rows.parquet"
    duckdb.execute(
        f"""COPY (SELECT i % 7 + sin(i) AS a, (i * 37) % 23 / 3.0 AS b, i % 5 AS n,
        2 * (i % 7) + cos(3 * i) + (i * 7919 % 101) / 20.0 AS y,
        ((i * 7919) % 101 / 101.0 < 0.2 + (i % 7) / 12.0)::INT AS two FROM range(60000) t(i))
        TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)"""
    )
    return str(path)


@pytest.mark.parametrize("task", ["linear", pytest.param("logistic", marks=pytest.mark.nightly)])
def test_options_where_rows_are_read_by_row_group(
    con: Any, row_groups: str, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    monkeypatch.setattr(streamed, "CHUNK_ROWS", 4096)
    monkeypatch.setattr(streamed, "LEAST_HELD", 1024)
    bases: dict[str, Any] = {}
    count = 0
    for one in tries(task, (LIST,)):
        table = learner_of(task_named(task)).options.by_name
        option = table[one.option]
        if option.unseen and one.option not in ("fit", "likelihood_ratio"):
            continue
        if one.option in OF_FIELDS or one.option in ("algorithm", "transform"):
            continue
        base = {"algorithm": "sgd", "epsilon": 0.05} | one.base()
        key = json.dumps([one.label, base])
        if key not in bases:
            bases[key] = model_of(con, one, base, source=row_groups)
        before = bases[key]
        after = model_of(con, one, base | {one.option: one.value()}, source=row_groups)
        if isinstance(before, str) or isinstance(after, str):
            continue
        if not acts_where(option, one.value(), STREAMED):
            assert "row groups" not in after["plan"], one
        else:
            assert before != after, one
        count += 1
    assert count > 8


@pytest.mark.nightly
@pytest.mark.parametrize("task", BY_PARTS)
def test_options_in_parts(rows: Any, task: str) -> None:
    con, folder = rows
    where = {"source": f"{folder}/*.parquet", "group_by": "part", "executor": "threads"}
    count, found = vanishing(con, task, placement="gap", **where)
    assert count > 10
    assert not [one for one in found if "patience" not in one]  # of so few rows nothing is lost


def test_speculate_needs_all_rows_in_one_place(rows: Any) -> None:
    con, folder = rows
    one = Try("linear", LIST, "speculate")
    where = {"source": f"{folder}/*.parquet", "group_by": "part", "executor": "threads"}
    found = model_of(con, one, {"speculate": {"sample": 50}}, placement="gap", **where)
    assert "option 'speculate' needs all rows in one place" in found
    assert isinstance(model_of(con, one, {}, placement="gap", **where), dict)


@pytest.mark.parametrize("task", BY_PARTS)
def test_options_that_act_in_one_place_alone_keep_a_group_there(task: str) -> None:
    """The learner says so of each of them, and of no other value."""
    chosen = task_named(task)
    learner = learner_of(chosen)
    for one in tries(task, (LIST,)):
        option = learner.options.by_name[one.option]
        if one.option in ("algorithm", "objective", "store") or "store" in one.beside:
            continue
        try:
            options = options_of(chosen, json.dumps(one.base() | {one.option: one.value()}))
        except tuskml.OptionError:
            continue
        why = learner.by_parts.whole(Request(chosen, options))
        if not acts_where(option, getattr(options, one.option), PARTS):
            assert why is not None, one
        if why is not None and f"'{one.option}'" in why:
            assert not acts_where(option, getattr(options, one.option), PARTS), one


@pytest.mark.parametrize("task", tasks())
def test_every_option_acts_in_one_place(task: str) -> None:
    table = learner_of(task_named(task)).options.by_name
    others = {
        one.name for one in table.values() if any(ONE_PLACE not in case.where for case in one.acts)
    }
    assert others == ({"schedule"} if task in OF_UPDATES else set())
    pooled = {one.name for one in table.values() if any(POOLED in x.where for x in one.acts)}
    assert pooled in ({"l2", "seed", "threads"}, set())


SAMPLED = {"algorithm": "sgd", "epsilon": 0.02}


@pytest.mark.parametrize("source", ["t", "SELECT * FROM t", "parquet"])
@pytest.mark.parametrize(
    ("features", "more"),
    [
        (["a", "b"], {}),
        (["a", "b"], SAMPLED),
        (["a", "b"], {"group_by": "g"}),
        (["a", "b"], {"executor": "threads"}),
        ("[a, b]", {}),
        ("[a, b]", SAMPLED),
    ],
)
def test_names_that_are_given_are_those_of_the_model(
    con: Any, tmp_path: Any, source: str, features: Any, more: dict[str, Any]
) -> None:
    columns = "i % 3 AS g, i * 7 % 13 AS a, i * 5 % 11 AS b, 2.0 * a + b AS y"
    con.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(30000) r(i)")
    if source == "parquet":
        source = f"{tmp_path}/t.parquet"
        con.execute(f"COPY t TO '{source}' (ROW_GROUP_SIZE 2048)")
    given = {"source": source, "label": "y", "features": features, **more}
    found = tuskml.train(con, "linear", **given, feature_names=["p", "q"])
    models = [*found.values()] if isinstance(found, dict) else [found]
    assert {model.features for model in models} == {("p", "q")}
    with pytest.raises((DataError, ClusterError), match="'feature_names' has 1 names"):
        tuskml.train(con, "linear", **given, feature_names=["p"])


def test_what_a_call_says_twice_is_refused(con: Any) -> None:
    columns = "i % 3 AS g, i * 7 % 13 AS a, 2.0 * a AS y, 'k' || g AS c"
    con.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(30) r(i)")
    given: dict[str, Any] = {"source": "t", "label": "y", "features": ["a"]}
    for more, sentence in [
        ({"features": ["a", "a"]}, "features names 'a' twice, expected each once"),
        ({"group_by": ["g", "g"]}, "group_by names 'g' twice, expected each once"),
        ({"group_by": "y"}, "group_by has the label 'y' itself: expected other columns"),
        ({"group_by": "Y"}, "group_by has the label 'y' itself, as 'Y'"),
        ({"features": ["a", "c"], "feature_names": ["p", "q"]}, "these rows have names"),
    ]:
        with pytest.raises(DataError, match=sentence):
            tuskml.train(con, "linear", **{**given, **more})
