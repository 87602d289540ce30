"""Each option refuses a bad value in one sentence, which says what is allowed."""

# ruff: noqa: E501, sentences are read better on one line

import json
import sys
from pathlib import Path

import duckdb
import pytest

from tuskml.groups.selection.candidates import values_of
from tuskml.learners.options.kinds import Option
from tuskml.learners.paths.options import GROUPS, PATH
from tuskml.learners.registry import TASKS, learner_of, learners

sys.path.append(str(Path(__file__).parent))

from asking import sentence, train

pytestmark = pytest.mark.fault(family="bad input by name")

INVALID: dict[str, tuple[object, str]] = {
    "algorithm": ("newtn", "'auto', 'newton', 'newton_cg', 'lbfgs', 'bgd', 'dcd', 'svrg', 'mgd', 'sgd', 'hogbatch' or 'hogwild'; did you mean 'newton'?"),
    "max_iter": (0, "a whole number from 1 to 2147483647"),
    "epsilon": (-1, "a number of at least 0"),
    "time": ("soon", "a duration such as '90s', '15m' or '1h30m'"),
    "converge": ("wieghts", "'gradient', 'weights' or 'loss'; did you mean 'weights'?"),
    "step": (0, "a number greater than 0 or 'auto'"),
    "schedule": ("1/sqrt", "'constant', '1/sqrt(i)', '1/i', '1/i^2' or 'line_search'; did you mean '1/sqrt(i)'?"),
    "batch_size": (2.5, "a whole number from 1 to 1048576"),
    "sampler": ("shuffled", "'shuffled-partition', 'sequential', 'random-partition' or 'bernoulli'; did you mean 'shuffled-partition'?"),
    "transform": ("eagerly", "'lazy' or 'eager'; did you mean 'eager'?"),
    "l1": ("0.1", "a number of at least 0"),
    "l2": (True, "a number of at least 0"),
    "fit_intercept": (1, "true or false"),
    "quantile": (1, "a number greater than 0 and less than 1"),
    "weight_kind": ("frequecy", "'frequency', 'analytic' or 'sampling'; did you mean 'frequency'?"),
    "proportions": (1, "true or false"),
    "firth": ("yes", "true or false"),
    "link": ("loggit", "'identity', 'log', 'inverse', 'logit', 'probit', 'cloglog', 'sqrt' or 'inverse_squared'; did you mean 'logit'?"),
    "power": (2, "a number greater than 1 and less than 2"),
    "speculate": (
        {"sampel": 10},
        'an object such as {"sample": 1000, "time": "10s", "epsilon": 0.05}: rows, a duration '
        "and a number between 0 and 1; did you mean 'sample'?",
    ),
    "objective": (
        "sqared",
        "'squared', 'logistic', 'poisson', 'gamma', 'tweedie', 'quantile' or 'huber'; did you mean "
        "'squared'?",
    ),
    "trees": (0, "a whole number from 1 to 100000"),
    "num_leaves": (1, "a whole number from 2 to 65536"),
    "max_depth": (-1, "a whole number from 0 to 65535"),
    "learning_rate": (0, "a number greater than 0"),
    "min_child_rows": (0, "a whole number from 1 to 2147483647"),
    "min_child_hessian": (-1, "a number of at least 0"),
    "min_gain": (-1, "a number of at least 0"),
    "feature_fraction": (0, "a number greater than 0"),
    "row_fraction": (0, "a number greater than 0"),
    "goss": (1, "true or false"),
    "top_rate": (1, "a number greater than 0 and less than 1"),
    "other_rate": (0, "a number greater than 0 and less than 1"),
    "monotone": (
        [2],
        "a list with 1, 0 or -1 for each feature, such as [1, 0, -1], or such signs by name, "
        'such as {"age": 1}',
    ),
    "interaction_constraints": (
        [[1.5]],
        "up to 63 lists of features by name, or by place, the first being 1, such as [[1, 2], "
        '[2, 3]] or [["age", "income"]]',
    ),
    "categorical": ([0], "a list of places of features, the first being 1, such as [2, 5]"),
    "category_encoding": ("levels", "'native' or 'one_hot'"),
    "max_cat_threshold": (0, "a whole number from 1 to 255"),
    "max_cat_to_onehot": (-1, "a whole number from 0 to 255"),
    "min_category_rows": (0, "a whole number from 1 to 2147483647"),
    "cat_smooth": (-1, "a number of at least 0"),
    "cat_l2": (-1, "a number of at least 0"),
    "max_bins": (1, "a whole number from 2 to 255"),
    "min_bin_rows": (0, "a whole number from 1 to 2147483647"),
    "bounds": (
        [[2, 1]],
        "a list with a rising list of up to 254 numbers or null for each feature, such as "
        '[[0.5, 1.5], null], or such lists by name, such as {"age": [30, 60]}',
    ),
    "patience": (0, "a whole number from 1 to 100000"),
    "delta": (0, "a number greater than 0"),
    "dispersion": (-1, "a number greater than 0"),
    "covariance": ("hc3", "'classic', 'HC0', 'HC1', 'HC2' or 'HC3'; did you mean 'HC3'?"),
    "absorb": ([], 'a name or a list of names, each once, such as ["firm", "year"]'),
    "cluster": (3, 'a name such as "county"'),
    "fit": ("yes", "true or false"),
    "intervals": ("robust", "'covariance'"),
    "likelihood_ratio": ("yes", "true or false"),
    "class_weight": (
        [1, -1],
        "'balanced', [weight of lower class, weight of higher class] or {class: weight} of all classes",
    ),
    "classes": ([2, 1], 'a list of two labels, the lower first, such as [1, 2] or ["no", "yes"]'),
    "missing": ("drop", "'skip', 'impute', 'level' or 'error'"),
    "invalid": ("drop", "'group', 'skip' or 'error'; did you mean 'group'?"),
    "max_categories": (0, "a whole number from 1 to 100000"),
    "min_count": (0, "a whole number from 1 to 9007199254740992"),
    "unseen": (1, "'other', 'error' or 'null'"),
    "levels": (
        {"size": "small"},
        "an object with a list of levels, each once, for each of some categories, such as "
        '{"size": ["small", "large"]}',
    ),
    "reference": (
        "most frequnt",
        "'most frequent', or an object with a level for each of some categories, such as "
        '{"origin": "JFK"}',
    ),
    "categories": ([], "a list of names, each once, such as [\"age\", \"income\"]"),
    "dates": ("part", "'days', 'parts' or 'cycles'; did you mean 'parts'?"),
    "interactions": (
        [["a"]],
        'a list of lists of two or three names, such as [["origin", "hour"]]',
    ),
    "text": (["\ud800"], "a list of names, each once, such as [\"age\", \"income\"]"),
    "text_bits": (3, "a whole number from 4 to 20"),
    "histogram": (1, "true or false"),
    "feature_names": (["age", "age"], "a list of names, each once, such as [\"age\", \"income\"]"),
    "threads": (0, "a whole number from 1 to 1024"),
    "seed": (-1, "a whole number from 0 to 9007199254740992"),
    "deterministic": ("yes", "true or false"),
    "validation": (1, "a number of at least 0 and less than 1"),
    "warm_start": ({"coef": []}, "a model as JSON, an object with coef and intercept"),
    "store": ("../ads", "a name of at most 63 letters, digits and _ . -, not starting with . or -"),
    "cache": ("lots", "a size of at least '16MB', such as '256MB' or '1GB'"),
    "method": ("keys", "'routes', 'kv-vp' or 'kv'"),
    "partition": (
        -1,
        "a whole number from 0 to 1048576, or the name of a partitioning that partition_model kept",
    ),
    "layout": ("size", "'affinity', 'frequency' or 'id'"),
    "sharing": ("mail", "'cache' or 'push'"),
    "resume": (1, "true or false"),
    "rank": (0, "a whole number from 1 to 4096"),
    "biases": ("no", "true or false"),
    "device": ("cpus", "'auto', 'gpu' or 'cpu'; did you mean 'cpu'?"),
    "explain": (1, "true or false"),
    "format": ("jsn", "'text' or 'json'; did you mean 'json'?"),
}  # fmt: skip
"""A value that each option refuses, and what the sentence says is allowed."""

CANDIDATES: tuple[object, ...] = (
    "no such value", -1, 0, 0.5, 2**70, True, None, [], [1, 2], {}, {"a": 1}, "", "1",
)  # fmt: skip

OF_FACTORIZATION = {
    "l2": (True, "a number of at least 0 or 'auto'"),
    "algorithm": ("newton", "'auto', 'als', 'sgd' or 'hogwild'"),
    "converge": ("weights", "'loss'"),
    "transform": ("eager", "'lazy'"),
    "schedule": (
        "line_search",
        "'constant', '1/sqrt(i)', '1/i', '1/i^2' or 'linear'; did you mean 'linear'?",
    ),
    "feedback": ("implicitly", "'explicit' or 'implicit'; did you mean 'implicit'?"),
    "loss": ("squares", "'squared' or 'bpr'; did you mean 'squared'?"),
    "alpha": (0, "a number greater than 0"),
    "cg_steps": (-1, "a whole number from 0 to 1000"),
    "method": ("keys", "'kv-vp' or 'kv'"),
}
"""The same, where a learner allows other values."""
OF_NETS = {
    "objective": ("sqared", "'squared' or 'logistic'; did you mean 'squared'?"),
    "layers": ([0], "a list of 1 to 8 whole numbers from 1 to 65536, such as [64, 32]"),
    "activation": ("rely", "'relu', 'tanh' or 'gelu'; did you mean 'relu'?"),
    "algorithm": ("adm", "'adam' or 'sgd'; did you mean 'adam'?"),
    "max_iter": (0, "a whole number from 1 to 1000000"),
    "batch_size": (0, "a whole number from 1 to 65536"),
    "schedule": ("cosin", "'constant', 'cosine' or 'step'; did you mean 'cosine'?"),
    "decay": (0, "a number greater than 0"),
    "decay_epochs": (0, "a whole number from 1 to 1000000"),
    "momentum": (1, "a number of at least 0 and less than 1"),
    "weight_decay": (-1, "a number of at least 0"),
    "dropout": (1, "a number of at least 0 and less than 1"),
    "patience": (0, "a whole number from 1 to 1000000"),
    "embedding": (-1, "a whole number from 0 to 1024"),
    "sparse_embeddings": ("yes", "true or false"),
}
"""The same of neural nets."""
OF_MACHINES: dict[str, tuple[object, str]] = {
    "objective": ("sqared", "'squared' or 'logistic'; did you mean 'squared'?"),
    "rank": (0, "a whole number from 1 to 256"),
    "algorithm": ("newtn", "'adagrad' or 'sgd'"),
    "max_iter": (0, "a whole number from 1 to 1000000"),
    "l2_factors": (-1, "a number of at least 0"),
    "init": (-1, "a number of at least 0"),
    "patience": (0, "a whole number from 1 to 1000000"),
}
"""The same of factorization machines."""
OF_TREES = {"missing": ("drop", "'skip', 'impute', 'level', 'error' or 'keep'")}
"""The same of boosted trees."""
OF_FORESTS = OF_TREES | {
    "objective": ("logistic", "'squared' or 'gini'"),
    "num_leaves": (1, "a whole number from 2 to 2147483647"),
}
"""The same of random forests."""
OF_PATHS = {
    "schedule": ("dynamics", "'random', 'priority' or 'dynamic'; did you mean 'dynamic'?"),
    "lambda": (0, "a number greater than 0"),
    "alpha": (2, "a number greater than 0 and at most 1"),
    "path": ({"length": 0}, PATH.allowed),
    "tol": (0, "a number greater than 0"),
    "positive": (1, "true or false"),
    "standardize": ("yes", "true or false"),
    "unpenalized": (
        [0],
        "a list of places of features, the first being 1, or of their names, each once",
    ),
    "groups": ([[1], [1]], GROUPS.allowed),
}
"""The same of linear models that select features."""
OF_TOPICS = {
    "topics": (0, "a whole number from 1 to 32000"),
    "alpha": (0, "a number greater than 0 and less than 1e+09"),
    "beta": (0, "a number greater than 0 and less than 1e+09"),
    "optimize_interval": (-1, "a whole number from 0 to 2147483647"),
    "algorithm": ("gibs", "'gibbs' or 'online_vb'; did you mean 'gibbs'?"),
    "batch_size": (2.5, "a whole number from 1 to 1000000"),
    "learning_offset": (-1, "a number of at least 0 and less than 1e+09"),
    "learning_decay": (-1, "a number of at least 0 and less than 1"),
    "max_categories": (0, "a whole number from 1 to 2147483647"),
    "stop_words": ("the", 'a list of names, each once, such as ["age", "income"]'),
}
"""The same of topics."""
OF_LINEAR = {
    "warm_start": (
        {"coef": []},
        "a model as JSON, an object with coef and intercept, or with option 'store' the name of "
        "a stored model, such as 'ads' or 'ads@3'",
    )
}
OF_CLUSTERS = {
    "clusters": (0, "a whole number from 1 to 10000"),
    "starts": (0, "a whole number from 1 to 10000"),
    "algorithm": ("loyd", "'auto', 'lloyd' or 'minibatch'; did you mean 'lloyd'?"),
    "batch_size": (2.5, "a whole number from 1 to 1000000"),
    "standardize": ("yes", "true or false"),
}
"""The same of clusters."""
OF_LEVELS: dict[str, tuple[object, str]] = {
    "link": ("log", "'logit', 'probit' or 'cloglog'; did you mean 'logit'?"),
    "covariance": ("hc3", "'classic', 'HC0' or 'HC1'; did you mean 'HC1'?"),
    "classes": (["a"], 'a list of levels as text, the lowest first, such as ["low", "high"]'),
}
"""The same of ordered levels."""
OF_OTHERS = {
    "linear": OF_LINEAR,
    "lasso": OF_PATHS,
    "elastic_net": OF_PATHS,
    "sparse_logistic": OF_PATHS,
    "matrix_factorization": OF_FACTORIZATION,
    "mlp": OF_NETS,
    "fm": OF_MACHINES,
    "gbdt": OF_TREES,
    "random_forest": OF_FORESTS,
    "lda": OF_TOPICS,
    "kmeans": OF_CLUSTERS,
    "ordinal": OF_LEVELS,
}
ROWS_OF = {"lda": ("NULL", "['a', 'b']"), "kmeans": ("NULL", "[1.0, 2.0]")}
"""Label and features of tasks whose rows are not those of `linear`."""
LINEAR = learner_of(TASKS["linear"]).options.by_name
EACH = [
    (next(iter(learner.tasks)), name) for learner in learners() for name in learner.options.by_name
]
"""Each option of each learner, with a task of it."""
NAMES = ", ".join(LINEAR)


def is_refused(option: Option, value: object) -> bool:
    """Whether no training takes it, nor a search."""
    if values_of(option, value) is not None:
        return False
    try:
        option.kind.parse(value)
    except (ValueError, OverflowError):
        return True
    return False


@pytest.mark.sample(40)
@pytest.mark.parametrize(("task", "name"), EACH)
def test_every_option_refuses_a_bad_value(
    db: duckdb.DuckDBPyConnection, task: str, name: str
) -> None:
    invalid = INVALID | OF_OTHERS.get(task, {})
    given, allowed = invalid[name]
    expected = f"train_model: option '{name}' is {json.dumps(given)}, expected {allowed}"
    rows = ROWS_OF.get(task, ())
    assert sentence(db, train(f"'{json.dumps({name: given})}'", f"'{task}'", *rows)) == expected


@pytest.mark.parametrize(("task", "name"), [("linear", "rank"), ("matrix_factorization", "l1")])
def test_options_of_other_learners(db: duckdb.DuckDBPyConnection, task: str, name: str) -> None:
    """The sentence says which options the task has."""
    there = ", ".join(learner_of(TASKS[task]).options.by_name)
    found = sentence(db, train(f"'{json.dumps({name: 1})}'", f"'{task}'"))
    started = (
        f"train_model: option '{name}' is not available with task '{task}', which has {there}"
    )
    assert found.startswith(started)


@pytest.mark.sample(40)
@pytest.mark.parametrize(("task", "name"), EACH)
def test_every_option_says_what_is_allowed(
    db: duckdb.DuckDBPyConnection, task: str, name: str
) -> None:
    """Whatever the wrong value, the sentence names the key, what was given and what is allowed."""
    option = learner_of(TASKS[task]).options.by_name[name]
    refused = [value for value in CANDIDATES if is_refused(option, value)]
    assert len(refused) > 5
    for value in refused:
        asked = train("?", f"'{task}'", *ROWS_OF.get(task, ()))
        found = sentence(db, asked, (json.dumps({name: value}),))
        shown = json.dumps(value)
        assert found.startswith(
            f"train_model: option '{name}' is {shown}, expected {option.kind.allowed}"
        )
        assert "\n" not in found


@pytest.mark.parametrize("name", LINEAR)
def test_nearest_option(db: duckdb.DuckDBPyConnection, name: str) -> None:
    mistyped = name + "s" if len(name) < 5 else name[:2] + name[3:]
    found = sentence(db, train(f"'{{\"{mistyped}\": 1}}'"))
    assert found.startswith(f"train_model: unknown option '{mistyped}', expected one of ")
    assert "; did you mean '" in found


def test_long_options_give_a_short_sentence(db: duckdb.DuckDBPyConnection) -> None:
    long = sentence(db, train("?"), (json.dumps({"algorithm": "x" * 5000}),))
    assert len(long) < 400
    assert long.endswith("'hogbatch' or 'hogwild'")
    name = sentence(db, train("?"), (json.dumps({"日" * 5000: 1}),))
    assert len(name) < 800
    assert f"expected one of {NAMES}" in name
    much = sentence(db, train("?"), (" " * 70000 + "{}",))
    assert much == "train_model: options have 70002 characters, at most 65536 are allowed"
    deep = sentence(db, train("?"), ("[" * 50000,))
    assert deep.startswith("train_model: options are not valid JSON")


def test_null_options_are_no_options(db: duckdb.DuckDBPyConnection) -> None:
    assert db.execute(train("NULL")).fetchall()[0][0]["n_rows"] == 3


def test_a_seed_that_a_double_rounds_is_refused(db: duckdb.DuckDBPyConnection) -> None:
    for seed in (2**53 + 1, 2**53 + 2, 10**30):
        assert f"option 'seed' is {seed}, expected" in sentence(
            db, train(f"'{{\"seed\": {seed}}}'")
        )
    assert db.execute(train(f"'{{\"seed\": {2**53}}}'")).fetchone() is not None
