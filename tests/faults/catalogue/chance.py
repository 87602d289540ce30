"""Trainings that nobody would write: rows, features, labels and options drawn from bad and good.

One text of SQL for both databases, from its number alone.
"""

import json
import math
import random
import re
from collections.abc import Iterator
from typing import Any

from tuskml.errors import OptionError
from tuskml.learners.options.kinds import Option
from tuskml.learners.options.table import IdleOption
from tuskml.learners.registry import Learner, learners

GOOD = (
    "SELECT (train_model('linear', 2 * i + 1, ARRAY[i])).coef[1] "
    "FROM generate_series(1, 9) AS t(i)"
)
"""A training whose answer is always the same."""
NUMBERS = (
    *("0", "-0.0", "1", "-1", "2.5", "1e-320", "1e-160", "1e160", "1.7e308", "-1.7e308"),
    *("CAST('NaN' AS double precision)", "CAST('Infinity' AS double precision)"),
    *("CAST('-Infinity' AS double precision)", "NULL"),
)
WORDS = ("'a'", "'b'", "''", "NULL", "'日本'", "'a''b'", "' a '", "'NaN'", "'x\ny'", "'🙂'")
LABELS = (
    "y",
    "f",
    "t",
    "i",
    "CAST(least(greatest(y, -1e30), 1e30) AS real)",
    "y > 0",
    "i % 2",
    "abs(i) % 3",
    "NULL",
    "abs(y)",
)
FEATURES = (
    *("ARRAY[a, b]", "ARRAY[a]", "ARRAY[a, b, y, i]", "ARRAY[a, NULL]", "NULL"),
    *("CASE WHEN i % 5 = 0 THEN ARRAY[a] ELSE ARRAY[a, b] END", "ARRAY[CAST(i AS real)]"),
    *("CASE WHEN i % 5 = 0 THEN NULL ELSE ARRAY[a, b] END", "ARRAY[i, g]", "ARRAY[abs(i), g]"),
    *("sparse(ARRAY[abs(i), 7], ARRAY[a, b])", "sparse(ARRAY[0, i], ARRAY[a, 1])"),
    *(
        "sparse(ARRAY[0, 1, 0], ARRAY[a, b, a])",
        "r",
        *("hash_features(ARRAY[t, 'a'], 12)", "hash_features(ARRAY[t, 'a'], ARRAY[a, 1], 17)"),
        "ARRAY[t, 'a']",
        "ARRAY[f, f]",
        "t",
        "a",
    ),
)
BAD = (None, True, -1, 0, 1e308, 1e-300, "x", [], {}, [None], [[1]], {"a": None}, 2**63, 0.5, "")
SMALL: dict[str, tuple[Any, ...]] = {
    "max_iter": (1, 2, 7),
    "trees": (1, 3),
    "layers": ([3], [2, 2]),
    "topics": (1, 3),
    "threads": (1, 2),
    "rank": (1, 3),
    "path": ({"length": 3}, {"length": 5}),
    "cg_steps": (1, 3),
    "max_bins": (2, 16, 255),
    "embedding": (0, 2),
    "sparse_embeddings": (True, False),
    "class_weight": ("balanced", [1, 2], [1e-308, 1e308], {"0": 1, "1": 3}),
    "classes": ([0, 1], [-1, 1], ["a", "b"]),
    "warm_start": ({"coef": [1, 2], "intercept": 0}, {"coef": [1e308], "intercept": -1e308}),
    "time": ("1s", "1ms"),
    "feature_names": (["a", "b"], ["a"]),
    "groups": ([[0, 1]], [[0], [1]]),
    "unpenalized": ([0], ["a"]),
    "monotone": ([1, -1], [0, 0]),
    "interactions": ([["a", "b"]], [["t", "f"]]),
    "validation": (0.1, 0.5),
    "speculate": ({"sample": 10, "time": "1s", "epsilon": 0.05},),
    "lambda": (0.1, 0, 1e300, [1, 0.1]),
    "goss": (True, False),
}
"""Values that keep a training short, or that the words on what is allowed do not give away."""
BOUNDS = {"max_iter": 7, "trees": 3, "topics": 3, "layers": [3], "path": {"length": 5}}
"""What is always given where a learner has the option: no case takes long."""
LEFT_OUT = {
    "store",
    "cache",
    "method",
    "partition",
    "resume",
    "device",
    "layout",
    "sharing",
    "cluster",
}
WHOLE, SHARES = (0, 1, 2, 3, 10, 300, 10**9), (0.0, 1e-9, 0.1, 0.25, 0.9)
REAL = (*SHARES, 1.0, 2.0, 10.0, 1e9, 1e300)


def statement(number: int) -> str:
    """The case of this number."""
    choose = random.Random(number)
    learner = choose.choice(list(learners()))
    task = choose.choice(list(learner.tasks))
    label = choose.choice(LABELS) if learner.tasks[task].has_labels else "NULL"
    given = acting(learner, dict(options_of(learner, choose))) | dict(search_of(learner, choose))
    options = json.dumps(given).replace("'", "''")
    call = f"train_model('{task}', {label}, {features_of(task, choose)}, '{options}')"
    by = choose.choice(("0", "0", "g"))
    return f"SELECT {by} AS k, {call} AS m FROM {rows(choose)} GROUP BY 1"


def features_of(task: str, choose: random.Random) -> str:
    """Those that fit the task more often than not."""
    usual = {"matrix_factorization": "ARRAY[abs(i), g]", "lda": "ARRAY[t, 'a']"}
    return choose.choice((usual.get(task, "ARRAY[a, b]"), choose.choice(FEATURES)))


def rows(choose: random.Random) -> str:
    """A table r of a group g, numbers y, a, b, a text t, a truth f and a whole number i."""
    n = choose.choice((0, 1, 2, 3, 12, 40))
    bad = choose.choice((0.0, 0.0, 0.03, 0.3))
    made = ["(0, 0.5, CAST(0.5 AS double precision), CAST(1 AS double precision), 'a', true, 0)"]
    for number in range(n):
        values = [
            choose.choice(NUMBERS) if choose.random() < bad else f"{choose.gauss(0, 2):.3g}"
            for _ in "yab"
        ]
        word = choose.choice(WORDS) if choose.random() < bad else choose.choice(("'a'", "'b'"))
        truth = choose.choice(("true", "false", "NULL" if bad else "true"))
        whole = choose.choice((number, number, number % 3, -1 if bad else number))
        made.append(f"({number % 3}, {', '.join(values)}, {word}, {truth}, {whole})")
    if not n:
        made[0] += ") AS r(g, y, a, b, t, f, i) WHERE g > 0"
        return f"(SELECT * FROM (VALUES {made[0]}) AS r"
    return f"(VALUES {', '.join(made)}) AS r(g, y, a, b, t, f, i)"


def options_of(learner: Learner, choose: random.Random) -> Iterator[tuple[str, Any]]:
    """Some of the learner's options, most with values that they take."""
    there = learner.options.by_name
    yield from ((name, value) for name, value in BOUNDS.items() if name in there)
    names = [name for name in there if name not in LEFT_OUT]
    for name in choose.sample(names, choose.choice((0, 1, 2, 4))):
        bad = choose.random() < 0.08 and name not in BOUNDS
        yield name, choose.choice(BAD) if bad else value_of(there[name], choose)


def acting(learner: Learner, given: dict[str, Any]) -> dict[str, Any]:
    """Without options that would change nothing, which are refused before anything runs."""
    while True:
        try:
            learner.options.parse(json.dumps(given))
        except IdleOption as error:
            del given[error.option]
        except OptionError:
            return given
        else:
            return given


def search_of(learner: Learner, choose: random.Random) -> Iterator[tuple[str, Any]]:
    """Options that make a search of one case in eight."""
    grids = [name for name in ("l2", "lambda", "learning_rate") if name in learner.options.by_name]
    if not grids or choose.random() > 0.125:
        return
    yield choose.choice(grids), choose.choice(([0.1, 1], [1e-9, 1e9], [0.01, 0.1, 1]))
    yield choose.choice((("folds", 2), ("folds", 3), ("validation", 0.3), ("validation", 0.999)))


def value_of(option: Option, choose: random.Random) -> Any:
    """One that the option takes, as far as its words say which."""
    if option.name in SMALL:
        return choose.choice(SMALL[option.name])
    allowed = option.kind.allowed
    if allowed == "true or false":
        return choose.choice((True, False))
    if quoted := re.findall(r"'([^']+)'", allowed):
        return choose.choice(quoted)
    if "whole number" in allowed:
        least, most = (
            re.findall(r"from (\d+) to (\d+)", allowed)[0] if "from" in allowed else (0, 9)
        )
        return choose.choice([n for n in WHOLE if int(least) <= n <= int(most)])
    return choose.choice(SHARES if "less than 1" in allowed else REAL)


def complaint(model: Any) -> str:
    """What is wrong with a model: a number that is not finite and no status that says why."""
    if model is None:
        return ""
    named = {"coef": model["coef"], "intercept": [model["intercept"]]}
    for name, numbers in named.items():
        if any(not is_finite(x) for x in numbers or () if x is not None):
            return f"{name} is not finite, status {model['status']!r}"
    if model["status"] in ("ok", None) and not is_finite(model["loss"] or 0.0):
        return f"loss {model['loss']}, status {model['status']!r}"
    return ""


def is_finite(x: Any) -> bool:
    """JSON has numbers that are not finite as text."""
    return isinstance(x, int | float) and math.isfinite(x)
