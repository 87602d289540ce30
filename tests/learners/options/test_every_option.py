"""Every option with every task and kind of features changes the model, or is refused.

The tries come from the tables of options (`Option.acts`); `option_tries.py` has a value of each.
What an option changes is looked for in all fields of the model but those that repeat the options.
"""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import duckdb
import pytest
from option_tries import (
    BY_TASK,
    FEATURES,
    NO_WORD_IS_INVALID,
    ROWS,
    SPOILED,
    VALUES,
    Model,
    Try,
    choices,
    holds,
    tasks,
    trained,
    tries,
)

from tuskml.errors import OptionError
from tuskml.learners.options.kinds import CATEGORY, DATE, LIST, PAIRS, SPARSE, WORDS
from tuskml.learners.options.table import value_of
from tuskml.learners.registry import learner_of, task_named

SOME = ("linear", "logistic", "huber", "gbdt", "random_forest", "mlp", "lasso", "sparse_logistic")
QUICK = (*SOME, "lda", "kmeans", "matrix_factorization", "fm", "ordinal")
NO_ERRORS = "standard errors are those of a training that converges"
KNOWN = {
    "covariance": NO_ERRORS,
    "cluster": NO_ERRORS,
    "intervals": NO_ERRORS,
    "weight_kind": NO_ERRORS,
    "schedule": "line_search is the default of its algorithm",
}
"""What may leave a linear model as it is beside some algorithms, and why."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the rows that are trained on, and a directory of stores."""
    import tuskml

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUSKML_STORE_ROOT", str(tmp_path_factory.mktemp("stores")))
        with tuskml.connect() as con:
            con.execute(ROWS)
            con.execute(SPOILED)
            yield con


@pytest.mark.parametrize("task", tasks())
def test_whole_numbers_are_not_rounded(task: str) -> None:
    """Digits alone are read as they are; a number that a double may have rounded is refused."""
    table = learner_of(task_named(task)).options.by_name
    whole = [one for one in table.values() if one.kind.allowed.startswith("a whole number")]
    assert whole
    for option in whole:
        for given in (2.0**53, 1e17, float("1e300")):
            with pytest.raises(OptionError, match="digits alone"):
                value_of(option, given)
        with pytest.raises(OptionError, match=f"is {2**53 + 1}, expected"):
            value_of(option, 2**53 + 1)


UNTRIED = {
    "speculate": "it needs several threads, whose plan depends on what is measured",
    "resume": "it needs an interrupted training",
    "warm_start": "it needs a model of the task, unless that has coefficients",
}
"""What no try may show, and why."""
OF_COLUMNS = ("categories", "interactions", "text", "text_bits", "dates", "cluster")
"""Options that name columns which only the rows with dates have, or are about these."""


def wrong(
    con: duckdb.DuckDBPyConnection,
    one: Try,
    bases: dict[Any, Model | str],
    changed: dict[str, bool],
) -> str | None:
    """What is wrong with an option: it vanishes, or it is refused where the table has it.

    changed: by options that are to change the model in some try, whether one did.
    """
    key = one.kind, one.label, one.rows, str(one.base())
    if key not in bases:
        bases[key] = trained(con, one, one.base())
    base, value = bases[key], one.value()
    if isinstance(base, str):
        return None  # such features or other options are refused
    option = learner_of(task_named(one.task)).options.by_name[one.option]
    found = trained(con, one, one.base() | {one.option: value})
    acts = any(holds(one, case, value) for case in option.acts)
    if acts and not option.unseen and one.option not in UNTRIED:
        changed[one.option] = changed.get(one.option, False) or (
            found != base and not isinstance(found, str)
        )
    if isinstance(found, str):
        said = f"'{one.option}'" in found and " changes nothing " in found
        return f"{one}: {found}" if acts and said else None
    if not acts:
        return f"{one}: the table has no such case, and nothing refuses it"
    if found == base and not option.unseen:
        return f"{one}: {value!r} changes nothing"
    return None


def check(con: duckdb.DuckDBPyConnection, found: Iterator[Try], each: bool = False) -> int:
    """Fails with all that is wrong; the number of tries.

    each: whether each option that acts has to change the model in some try.
    """
    bases: dict[Any, Model | str] = {}
    changed: dict[str, bool] = {}
    count, faults = 0, []
    for one in found:
        count += 1
        if (fault := wrong(con, one, bases, changed)) is not None:
            faults.append(fault)
    if each:
        faults += [f"{name}: no try changed a model" for name, did in changed.items() if not did]
    assert not faults, "\n".join(faults)
    return count


def test_each_option_has_a_value() -> None:
    for task in tasks():
        lacking = learner_of(task_named(task)).options.by_name.keys() - VALUES.keys()
        assert not lacking - BY_TASK.get(task, {}).keys(), task


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "task",
    [
        pytest.param(one, marks=pytest.mark.nightly if one == "huber" else ())  # as `linear`
        for one in QUICK
    ],
)
def test_options_act_or_are_refused(rows: duckdb.DuckDBPyConnection, task: str) -> None:
    kinds = {"lda": (WORDS, SPARSE), "matrix_factorization": (PAIRS,)}.get(task, (LIST, CATEGORY))
    named = (one for one in tries(task, (DATE,)) if one.option in OF_COLUMNS)
    found = chain(tries(task, kinds), named if LIST in kinds else ())
    assert check(rows, found, each=True) > 10


@pytest.mark.nightly
@pytest.mark.parametrize("task", tasks())
def test_options_act_or_are_refused_with_all_features(
    rows: duckdb.DuckDBPyConnection, task: str
) -> None:
    assert check(rows, tries(task, tuple(FEATURES))) > 100


def beside_choices(task: str) -> Iterator[Try]:
    """Each option beside each value of those that choose a loss or a method."""
    table = learner_of(task_named(task)).options.by_name
    kind = {"lda": WORDS, "matrix_factorization": PAIRS}.get(task, LIST)
    for name in ("objective", "algorithm", "feedback", "schedule"):
        for choice in choices(table[name]) if name in table else ():
            for option in table:
                known = "speculate" in table and option in KNOWN
                if option != name and (option, kind) != NO_WORD_IS_INVALID and not known:
                    yield Try(task, kind, option, {name: choice})


@pytest.mark.nightly
@pytest.mark.parametrize("task", tasks())
def test_options_beside_choices(rows: duckdb.DuckDBPyConnection, task: str) -> None:
    check(rows, beside_choices(task))


@pytest.mark.parametrize(
    ("task", "options", "shown"),
    [
        (
            "mlp",
            '{"algorithm": ["sgd", "adam"], "momentum": [0.1, 0.5], "max_iter": 2}',
            [{"algorithm": "sgd", "momentum": m} for m in (0.1, 0.5)] + [{"algorithm": "adam"}],
        ),
        (
            "gbdt",
            '{"objective": ["squared", "huber"], "delta": 0.5, "trees": 2, "metric": "mae"}',
            [{"objective": "squared"}, {"objective": "huber"}],
        ),
    ],
)
def test_candidates_are_without_options_that_change_nothing(
    rows: duckdb.DuckDBPyConnection, task: str, options: str, shown: list[dict[str, Any]]
) -> None:
    call = f"train_model('{task}', y, [a, n], '{options}')"
    ((text,),) = rows.execute(f"SELECT ({call}).trials FROM tried").fetchall()
    found = [one["configuration"] for one in json.loads(text)["trials"]]
    assert [one for k, one in enumerate(found) if one not in found[:k]] == shown


def test_an_option_that_acts_in_no_candidate_is_refused(rows: duckdb.DuckDBPyConnection) -> None:
    call = """train_model('mlp', y, [a, n], '{"batch_size": [16, 64], "momentum": [0.1, 0.5]}')"""
    with pytest.raises(duckdb.Error, match="option 'momentum' is for option 'algorithm': 'sgd'"):
        rows.execute(f"SELECT {call} FROM tried")
