"""Writes `docs/reference/` from the code's own tables of options, tasks, functions and so on.

    python scripts/docs/reference.py            writes the pages
    python scripts/docs/reference.py --check    names those that are stale

`tests/docs/test_reference.py` runs the check.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from string import ascii_lowercase
from textwrap import fill

from catalogue import ROOT, Argument, Function, duckdb_functions, postgres_functions

from tuskml.groups.partition import FREQUENCY_OPTIONS, PARTITION_OPTIONS
from tuskml.kvstore.numbered import MOST_ID
from tuskml.learners.learner import Learner
from tuskml.learners.linear.options import OF_LIKELIHOOD
from tuskml.learners.models import HISTORY_POINTS, MEANINGS
from tuskml.learners.options.kinds import (
    CATEGORY,
    DATE,
    EVERY_KIND,
    IN_PARTS,
    LEAST_CACHE,
    LIST,
    PAIRS,
    ROW,
    ROW_GROUPS,
    SPARSE,
    WORDS,
    Acts,
    Beside,
    Option,
    within,
)
from tuskml.learners.options.table import (
    MAX_TEXT,
    MAX_WARM_START,
    SHARED,
    alternatives,
    join_texts,
)
from tuskml.learners.registry import TASKS, learners
from tuskml.partitioner.merging import MOST_FEATURES

FOLDER = ROOT / "docs" / "reference"
FEATURES = {
    LIST: "lists",
    SPARSE: "sparse features",
    ROW: "rows with names",
    CATEGORY: "categories by name",
    DATE: "dates and timestamps by name",
    WORDS: "lists of words",
    PAIRS: "pairs",
    ROW_GROUPS: "lists read by row group",
}
"""Features by kind, in the words of the page of options."""
SHORT = {
    "DOUBLE[] or FLOAT[] or sparse of DOUBLE or sparse of FLOAT": "*features*",
    "anyarray or record or sparse of DOUBLE or sparse of FLOAT": "*features*",
    "anyelement": "*features*",
    "anyarray or sparse of DOUBLE or sparse of FLOAT": "*document*",
    "BOOLEAN or DOUBLE": "*value*",
    "BOOLEAN or DOUBLE or VARCHAR": "*class*",
    "BIGINT or BOOLEAN or DECIMAL or DOUBLE or INTEGER or VARCHAR": "*class*",
    "BIGINT or DOUBLE or VARCHAR or uuid": "*id*",
    "BIGINT[] or DOUBLE[] or VARCHAR[] or uuid[]": "*id*[]",
    "BIGINT[] or VARCHAR[] or uuid[]": "*id*[]",
    "BLOB": "model",
}
"""Types of several overloads, and the words of the page for them."""
KINDS = {"aggregate": "Aggregates", "scalar": "Scalar functions", "table": "Functions of rows"}
"""Titles of the kinds of functions."""
MOST_NAMED = 4
"""Names in a heading."""
LONG = 60
"""Characters from which on a condition of several options is a note."""
LINEAR = next(learners()).facts.algorithms
STOCHASTIC = {one.name for one in LINEAR if one.stochastic}
NOT_STOCHASTIC = [one.name for one in LINEAR if not one.stochastic]
"""Algorithms of linear models."""
GENERALIZED = "generalized linear models"
"""The tasks of OF_LIKELIHOOD, in the words of the page of options."""
NO_DEFAULT = ("time", "class_weight", "classes", "warm_start", "store")
"""Options without a default; for the others None means that the default is chosen."""

SENTENCES = {
    "train_model": "Trains a model on the rows of a group.",
    "rolling_model": "Least squares of the rows of each frame of `OVER`, or of a group.",
    "explain_training": "The plan of `train_model`, with its reasons.",
    "train": "Trains a model on a table, with its label and features as text.",
    "predict": "The class in the label's own values, or the number.",
    "predict_proba": "The probability of the higher class, or of one.",
    "predict_class": "The class by its name.",
    "predict_probas": "The probabilities of all classes by their names.",
    "decision": "The margin, coef · features + intercept.",
    "predict_with_offset": "As `predict`, with an offset of the row.",
    "predict_proba_with_offset": "As `predict_proba`, with an offset of the row.",
    "predict_class_with_offset": "As `predict_class`, with an offset of the row.",
    "predict_topics": "The proportions of topics in a document, of `lda` models.",
    "model_from": "The model that LightGBM, XGBoost or CatBoost wrote as text.",
    "with_payload": "The model with a payload made anew of its other fields.",
    "model_payload": "The payload of a model's other fields, which predictions read.",
    "sparse": "Sparse features: ids from 0 and their values; values of repeated ids are added.",
    "hash_features": "Sparse features from names, by the hashing trick.",
    "model_card": "One row: task, status, rows, loss and the strongest effects.",
    "model_to_sql": "What a model answers, as an expression in plain SQL.",
    "model_fingerprint": "A text that is equal for models that predict the same.",
    "model_summary": "One row per coefficient: estimate, standard error, p-value, interval.",
    "model_covariance": "The covariances of the coefficients, one row per pair of terms.",
    "model_contrast": "A weighted sum of coefficients with its standard error, test and interval.",
    "predict_interval": "The prediction with intervals of the mean and of a label.",
    "drift": "How far features are from those that a model was trained on.",
    "marginal_effects": "The mean change of a linear model's prediction with each feature.",
    "model_topics": "The most probable words of each topic.",
    "explain_prediction": "The contribution of each feature of a row to the margin.",
    "permutation_importance": "The rise of the mean loss of rows if a feature is shuffled.",
    "partial_dependence": "The mean prediction of a model where a feature has one value.",
    "feature_frequencies": "The most frequent features, with bounds on how often they occur.",
    "partition_model": "A layout of keys for the features of a stored model.",
    "partitionings": "The versions that `partition_model` kept under names.",
    "log_loss": "The mean of -log of the predicted probability of the label, of any classes.",
    "auc": "The area under the ROC curve; ties count half.",
    "ks": "The largest distance between the distributions of the scores of two labels.",
    "psi": "The population stability index of the scores of two labels.",
    "accuracy": "The share of rows whose prediction equals the label.",
    "rmse": "The root of the mean squared error.",
    "mae": "The mean absolute error.",
    "r2": "1 - squared error / squared distance of the labels from their mean.",
    "mape": "The mean absolute error as a share of the label.",
    "pinball": "The mean loss of a predicted quantile.",
    "poisson_deviance": "The mean Poisson deviance.",
    "tweedie_deviance": "The mean Tweedie deviance of a power between 1 and 2.",
    "gamma_deviance": "The mean gamma deviance.",
    "brier": "The mean squared distance of probabilities from their label.",
    "compare": "Two predictions of the same rows: means of a metric, and their difference.",
    "average_precision": "Precision times the step of recall, summed from the highest score down.",
    "ndcg": "Normalized discounted cumulative gain.",
    "precision_at_k": "The share of positive labels among the k highest scores.",
    "recall_at_k": "The share of the positive labels that are among the k highest scores.",
    "average_precision_at_k": "The mean precision at the positive labels among the k highest.",
    "precision_score": "The share of positive predictions that are right, or a mean over classes.",
    "recall_score": "The share of positive rows that are predicted so, or a mean over classes.",
    "f1_score": "The harmonic mean of precision and recall, or a mean over classes.",
    "perplexity": "The perplexity of documents, half of which chooses their topics.",
    "coherence": "The coherence of topics: their best words occur together in documents.",
    "confusion": "Counts of the rows of each label by predicted class.",
    "roc_curve": "The rates of true and false positives by threshold.",
    "precision_recall_curve": "Precision and recall by threshold.",
    "calibration": "Mean probability and share of positive labels by bin.",
    "lift": "Positive rows by decile of the score, against their share in all rows.",
}
"""A sentence per function, in the order of the page; others follow, with their SQL comment."""


def shown_default(option: Option) -> str:
    """The default as a person reads it; nothing where it is chosen."""
    if option.default is None:
        return "none" if option.name in NO_DEFAULT else ""
    if isinstance(option.default, bool):
        return str(option.default).lower()
    return f"{option.default:g}" if isinstance(option.default, float) else str(option.default)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head)]
    lines += [[cell.replace("|", "\\|") for cell in row] for row in rows]
    text = ["| " + " | ".join(cells) + " |\n" for cells in lines]
    return text[0] + "|" + "---|" * len(lines[0]) + "\n" + "".join(text[1:])


def options_table(options: Mapping[str, Option]) -> str:
    """Name, default, allowed values and meaning of each, and in brackets where it acts.

    A long condition that several options have is a note below the table.
    """
    where = {name: where_it_acts(option) for name, option in options.items()}
    counts = Counter(where.values())
    long = [text for text, n in counts.items() if n > 1 and len(text) > LONG]
    notes = dict(zip(long, ascii_lowercase, strict=False))
    rows = (
        (
            f"`{name}`",
            shown_default(option),
            shown_values(option.kind.allowed),
            option.meaning + (f" ({notes.get(where[name], where[name])})" if where[name] else ""),
        )
        for name, option in options.items()
    )
    below = (
        fill(f"({letter}): {text}.", 100, break_on_hyphens=False) + "\n"
        for text, letter in notes.items()
    )
    return "\n".join([table(("option", "default", "allowed", "meaning"), rows), *below])


def shown_values(allowed: str) -> str:
    """The allowed values, with ranges in signs."""
    if allowed == "true or false":
        return "boolean"
    text = re.sub(r"a whole number from (\S+) to 2147483647", r"whole >= \1", allowed)
    text = re.sub(r"a whole number from (\S+) to (\d+)", r"\1–\2", text)
    text = text.replace("a list of names, each once, such as", "names, such as")
    text = text.replace("a number of at least ", ">= ").replace("a number greater than ", "> ")
    return text.replace(" and less than ", ", < ").replace(" and at most ", ", <= ")


def where_it_acts(option: Option) -> str:
    """The cases of an option in words, as `tuskml.learners.options.table` reads them; nothing
    where it acts everywhere.
    """
    cases = dict.fromkeys(within(option, IN_PARTS).acts)
    if Acts() in cases:
        return ""
    told = [one for one in cases if not any(covers(other, one) for other in cases if other != one)]
    return "; or ".join(case_in_words(one) for one in sorted(told, key=lambda one: one.values))


def covers(wide: Acts, narrow: Acts) -> bool:
    """Returns whether the first case holds wherever the second does."""
    same = replace(narrow, features=wide.features, beside=wide.beside) == wide
    return same and narrow.features <= wide.features and {*wide.beside} <= {*narrow.beside}


def is_shared(option: Option) -> bool:
    """Returns whether it is the option that all learners have, wherever rows may be."""
    known = SHARED.get(option.name)
    return known is not None and within(option, IN_PARTS) == within(known, IN_PARTS)


def case_in_words(one: Acts) -> str:
    """Values, features, tasks and other options of a case, as far as it is about them."""
    parts = []
    if one.values:
        parts.append(f"{alternatives(one.values)}:")
    if one.features != EVERY_KIND:
        parts.append(join_texts([FEATURES[kind] for kind in FEATURES if kind in one.features]))
    elif one.values:
        parts.append("all")
    if one.classes:
        parts.append("labels that are classes")
    if one.tasks:
        parts.append(task_names(one.tasks))
    if one.but:
        left = [name for name in next(learners()).tasks if name not in one.but]
        parts.append(join_texts([*(f"`{name}`" for name in left), "your own tasks"]))
    if one.beside:
        parts.append(f"with {and_listed([needed(beside) for beside in one.beside])}")
    return ", ".join(parts).replace(":,", ":")


def task_names(tasks: tuple[str, ...]) -> str:
    """The tasks, or the page's words for the generalized linear models."""
    others = [f"`{name}`" for name in tasks if name not in OF_LIKELIHOOD]
    every = {*OF_LIKELIHOOD} <= {*tasks}
    return join_texts([GENERALIZED, *others] if every else [f"`{name}`" for name in tasks])


def needed(beside: Beside) -> str:
    """Describes another option that an option requires."""
    if beside.values == (None,):
        return f"no `{beside.option}`"
    if beside.values:
        return f"`{beside.option}` {alternatives(beside.values).removesuffix('.0')}"
    if beside.option == "algorithm" and not STOCHASTIC & {*beside.but}:
        left = tuple(one for one in NOT_STOCHASTIC if one not in beside.but)
        return " or ".join(
            [f"`algorithm` {alternatives(left)}"] * bool(left) + ["a stochastic `algorithm`"]
        )
    if not beside.but:
        return f"`{beside.option}`"
    others = alternatives(tuple(one for one in beside.but if one is not None))
    return f"`{beside.option}` other than {others}"


def options_page() -> str:
    return f"""# Options

The fourth argument of `train_model` and `explain_training`, as JSON text such as
`'{{"l2": 0.01, "threads": 1}}'`; in DuckDB also as a struct, `{{'l2': 0.01, 'threads': 1}}`, or a
map, in PostgreSQL also as `json` or `jsonb`. The task decides which options there are. An empty
default is chosen for the algorithm and the machine; the model's `options` show it. `1–9` is a
range of whole numbers.

Brackets at the end of a meaning say for which tasks, features and other options an option acts.
Elsewhere it is refused, even at its default; in a search, candidates go without it. Brackets
behind an option's name have its default for these tasks. *{GENERALIZED.capitalize()}* are
{join_names(list(OF_LIKELIHOOD))}.

{"".join(learner_options(learner) for learner in learners())}## Shared options

{options_table(SHARED)}
## Options of `feature_frequencies`

{options_table(FREQUENCY_OPTIONS)}
## Options of `partition_model`

{options_table(PARTITION_OPTIONS)}"""


def learner_options(learner: Learner) -> str:
    """The options of one learner: those that nothing above has as a table, then sentences on those
    that an earlier learner has, and on the shared ones.
    """
    there = learner.options.by_name
    own = {name: option for name, option in there.items() if not is_shared(option)}
    shared = [name for name in there if name not in own]
    missing = [name for name in SHARED if name not in there]
    if len(missing) < len(shared):
        told = f"all but {join_names(missing)}" if missing else "all"
    else:
        told = join_names(shared) if shared else "none"
    told = fill(f"Of the [shared options](#shared-options): {told}.", 100)
    sentences = []
    earlier = takewhile(lambda one: one is not learner, learners())
    described = [(f"`{next(iter(one.tasks))}`", one.options.by_name) for one in earlier]
    for title, before in [("the shared options", SHARED), *described]:
        same = {name: own[name] for name in own if alike(own[name], before.get(name))}
        sentences += [
            f"As for {title}{on}: {and_listed(names)}."
            for on, names in differences(same, before).items()
        ]
        own = {name: option for name, option in own.items() if name not in same}
    wrapped = "".join(fill(text, 100, break_on_hyphens=False) + "\n\n" for text in sentences)
    parts = [heading(list(learner.tasks)), *([options_table(own)] * bool(own))]
    return "\n".join([*parts, f"{wrapped}{told}\n\n"])


def differences(same: Mapping[str, Option], before: Mapping[str, Option]) -> dict[str, list[str]]:
    """Options by the case in which they act, if it is another one than before; another default
    stands in brackets.
    """
    by_case: dict[str, list[str]] = {}
    for name, option in same.items():
        where, default = where_it_acts(option), shown_default(option)
        where_before, default_before = where_it_acts(before[name]), shown_default(before[name])
        changed = f" ({default})" if default != default_before else ""
        on = "" if where == where_before else f" ({where or 'everywhere'})"
        by_case.setdefault(on, []).append(f"`{name}`{changed}")
    return by_case


def alike(one: Option, other: Option | None) -> bool:
    """Returns whether two options have the same values and meaning."""
    if other is None or is_shared(one):
        return False
    return (one.kind.allowed, one.meaning) == (other.kind.allowed, other.meaning)


def heading(names: list[str], words: tuple[str, str] = ("Options of ", "tasks")) -> str:
    """A heading of names; of many the first, and the others below it. words: what stands before
    the names, and what they name.
    """
    before, kind = words
    if len(names) <= MOST_NAMED:
        return f"## {before}{join_names(names)}\n"
    others = fill(f"And {before.lower()}{join_names(names[1:])}.", 100)
    return f"## {before}`{names[0]}` and {len(names) - 1} other {kind}\n\n{others}\n"


def join_names(names: list[str]) -> str:
    """`a`, `b` and `c`, as code."""
    return and_listed([f"`{name}`" for name in names])


def and_listed(parts: list[str]) -> str:
    """a, b and c"""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


def algorithms_page() -> str:
    """Each learner's algorithms, from their descriptors."""
    parts = [
        f"{heading(list(learner.tasks), ('Algorithms of ', 'tasks'))}\n{algorithms_table(learner)}"
        for learner in learners()
        if learner.facts.algorithms
    ]
    return (
        "# Algorithms\n\nThe values of the option `algorithm`, in addition to `auto`.\n"
        "[Choosing](../choosing.md) says which one is for what.\n\n" + "\n".join(parts)
    )


def algorithms_table(learner: Learner) -> str:
    rows = (
        (
            f"`{one.name}`",
            one.title,
            one.source,
            "epoch" if one.stochastic else "pass",
            "yes" if one.on_gpu else "",
            "yes" if one.stored else "",
        )
        for one in learner.facts.algorithms
    )
    head = ("algorithm", "what it is", "source", "an iteration is", "on a GPU", "in a store")
    return table(head, rows)


def tasks_page() -> str:
    rows = (
        (
            ", ".join(f"`{name}`" for name in (task.name, *task.also)),
            task.formula if task.classes_by_option else f"`{task.formula}`",
            task.labels,
            {"t": "Student's t", "z": "normal", None: "none"}[task.test],
        )
        for task in TASKS.values()
    )
    head = ("task", "loss of margin m and label y", "labels", "test of coefficients")
    return f"""# Tasks

The first argument of `train_model`. The higher of two classes is y = +1, the lower is -1. The
loss is part of the [objective](../algorithms/linear.md#the-objective). Models of a task with two
names keep the first one. [Limits](../limits.md#what-each-task-takes) says what each task takes.

{table(head, rows)}"""


def statuses_table() -> str:
    """Each status with its meaning, from the least to the most important."""
    rows = ((f"`{status}`", meaning) for status, meaning in MEANINGS.items())
    return table(("status", "meaning"), rows)


def statuses_page() -> str:
    return f"""# Statuses

The values of `model.status`. A model has the last one that applies; a group without usable rows is
NULL. [How statuses are found](../algorithms/inference.md#statuses).

{statuses_table()}"""


def order_functions(here: Mapping[str, Function], there: Mapping[str, Function]) -> list[str]:
    """The names of the functions of both databases in the order of the page."""
    names = [name for name in SENTENCES if name in here or name in there]
    return names + sorted((here.keys() | there.keys()) - SENTENCES.keys())


def functions_page() -> str:
    """Every function that either database has."""
    here, there = duckdb_functions(), postgres_functions()
    names = order_functions(here, there)
    kinds = {name: kind_of(here.get(name), there.get(name)) for name in names}
    parts = [
        f"## {KINDS[kind]}\n\n"
        + table(
            ("function", "what it returns or does"),
            (
                (f"`{name}`", sentence_of(name, here.get(name), there.get(name)))
                for name in names
                if kinds[name] == kind
            ),
        )
        for kind in KINDS
    ]
    summary = "\n".join(parts)
    return f"""# Functions

[SQL](../sql.md) explains the functions.

{summary}
## Arguments

Arguments in brackets may be left out. Types have DuckDB's names; PostgreSQL's are `double
precision` for DOUBLE, `text` for VARCHAR, and `tuskml_model` for `model`, a STRUCT in DuckDB.

* *features*: a list, an array, `sparse(...)` or a row with names
* *document*: a list of words, or `sparse(...)`
* *value*: BOOLEAN or DOUBLE; *class*: also text
* *id*: BIGINT, DOUBLE, VARCHAR or UUID
* without a type: an argument of a macro, whose result *any* is that of the function it calls
* metrics take [`positive`](../sql/metrics.md) in PostgreSQL too

{function_table(here, there)}"""


def kind_of(here: Function | None, there: Function | None) -> str:
    """Aggregate, scalar or table, as the databases have it."""
    for function in (here, there):
        if function is not None and "aggregate" in function.kind:
            return "aggregate"
    shown = [
        result
        for function in (here, there)
        if function is not None
        for _, results in function.shapes()
        for result in results
    ]
    kinds = " ".join(one.kind for one in (here, there) if one is not None)
    return "table" if "table" in kinds or "table" in shown else "scalar"


def sentence_of(name: str, here: Function | None, there: Function | None) -> str:
    """A sentence on the result or effect of a function. Raises LookupError if there is none."""
    comments = (one.comment for one in (here, there) if one is not None)
    sentence = SENTENCES.get(name) or first_sentence(next(filter(None, comments), ""))
    if not sentence:
        raise LookupError(f"{name} has no sentence in scripts/docs/reference.py, nor a comment")
    return sentence


def first_sentence(text: str) -> str:
    """A comment up to its first full stop or semicolon."""
    found = re.split(r"(?<=\.)\s+|;\s+", text)[0]
    return found and found.rstrip(".") + "."


def function_table(here: Mapping[str, Function], there: Mapping[str, Function]) -> str:
    """The signatures of each function, or of several that have the same ones."""
    by_signatures: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for name in order_functions(here, there):
        found = tuple(signatures(here.get(name), there.get(name)))
        by_signatures.setdefault(found, []).append(name)
    rows = (
        (", ".join(f"`{name}`" for name in names) if row is found[0] else "", *row)
        for found, names in by_signatures.items()
        for row in found
    )
    return table(("function", "only in", "arguments", "returns"), rows)


def signatures(here: Function | None, there: Function | None) -> list[tuple[str, str, str]]:
    """Database, arguments and result, in one row without it where both databases have the same."""
    if here is not None and there is not None:
        here = with_names(here, there)
        if "macro" in here.kind and len({result for *_, result in there.overloads}) == 1:
            result = "" if there.overloads[0][2] == "jsonb" else there.overloads[0][2]
            here = replace(here, overloads=[(*one[:2], result) for one in here.overloads])
    found = {
        database: [
            (arguments, shown_results(function, results))
            for arguments, results in function.shapes()
        ]
        for database, function in (("DuckDB", here), ("PostgreSQL", there))
        if function is not None
    }
    both = [
        (one, other)
        for one in found.get("DuckDB", [])
        for other in found.get("PostgreSQL", [])
        if same_signature(one, other)
    ]
    merged = [signature for pair in both for signature in pair]
    rows = [("", shown_arguments(other[0]), other[1]) for _, other in both]
    return rows + [
        (database, shown_arguments(signature[0]), signature[1])
        for database, shapes in found.items()
        for signature in shapes
        if signature not in merged
    ]


Signature = tuple[list[Argument], str]


def same_signature(one: Signature, other: Signature) -> bool:
    """Returns whether a signature in DuckDB is one in PostgreSQL; a macro's arguments have any
    type.
    """
    arguments, others = one[0], other[0]
    return (
        len(arguments) == len(others)
        and (one[1] == other[1] or (one[1] == "*any*" and other[1] != "jsonb"))
        and all(
            (mine.name.strip('"'), mine.optional) == (theirs.name.strip('"'), theirs.optional)
            and shown_type(mine) in ("", shown_type(theirs))
            for mine, theirs in zip(arguments, others, strict=True)
        )
    )


def with_names(function: Function, other: Function) -> Function:
    """The function with the other database's names of arguments, as DuckDB's have none.

    A text in the place of a number is the name of the positive class, which stands before it.
    """
    by_length = {len(names): (names, types) for names, types, _ in other.overloads}
    named = []
    for names, types, result in function.overloads:
        if not any(names):
            names_there, types_there = by_length.get(len(types), by_length[max(by_length)])
            expected = list(zip(names_there, types_there, strict=True))
            named.append((tuple(next_name(kind, expected) for kind in types), types, result))
        else:
            named.append((names, types, result))
    return replace(function, overloads=named)


def next_name(kind: str, expected: list[tuple[str, str]]) -> str:
    """Takes the name of the next argument off those expected."""
    if kind == "VARCHAR" and expected and expected[0][1] in ("DOUBLE", "BIGINT"):
        return "positive"
    return expected.pop(0)[0] if expected else ""


def shown_arguments(arguments: list[Argument]) -> str:
    """Names with types."""
    parts = []
    for argument in arguments:
        text = f"`{argument.name}` {shown_type(argument)}".rstrip()
        parts.append(f"[{text}]" if argument.optional else text)
    return ", ".join(parts) or "none"


def shown_type(argument: Argument) -> str:
    """The types of an argument, or the page's word for them; nothing for that of a macro."""
    kinds = " or ".join(argument.types) if all(argument.types) else ""
    return SHORT.get(kinds, kinds)


def shown_results(function: Function, results: list[str]) -> str:
    """The types of results; a macro's result has the type of the function that it calls."""
    if "table" in function.kind:
        return "table"
    return " or ".join(result for result in results if result) or "*any*"


def sizes_page() -> str:
    """Limits in the code that a user may meet."""
    header = (ROOT / "udas" / "rowblock" / "rowblock.h").read_text()
    most = {name: int(n) for name, n in re.findall(r"#define TUSK_MAX_(\w+) (\d+)", header)}
    rows = (
        ("features of a dense row", f"{most['DENSE_FEATURES']:,}"),
        ("a sparse feature's id", f"from 0 to {most['NARROW_ID']:,}"),
        ("a sparse feature's id in a stored model", f"from 0 to {MOST_ID:,}"),
        *(size for learner in learners() for size in learner.facts.sizes),
        ("points of a model's `history`", f"{HISTORY_POINTS:,}"),
        ("smallest `cache` of a model in a store", f"{LEAST_CACHE // 10**6:,} MB"),
        ("frequent features that `partition_model` can merge", f"{MOST_FEATURES:,}"),
        ("characters of `options`", f"{MAX_TEXT:,}; with `warm_start` {MAX_WARM_START:,}"),
    )
    return f"# Sizes\n\nThe largest and smallest sizes.\n\n{table(('what', 'limit'), rows)}"


PAGES: dict[str, Callable[[], str]] = {
    "options.md": options_page,
    "algorithms.md": algorithms_page,
    "tasks.md": tasks_page,
    "statuses.md": statuses_page,
    "functions.md": functions_page,
    "sizes.md": sizes_page,
}
NOTE = "<!-- Written by scripts/docs/reference.py: `make docs` writes it anew. -->\n\n"


def stale() -> dict[str, str]:
    """The pages that are not as they should be, and how they should."""
    wanted = {name: NOTE + page().rstrip() + "\n" for name, page in PAGES.items()}
    files = {name: FOLDER / name for name in wanted}
    return {n: t for n, t in wanted.items() if not files[n].is_file() or files[n].read_text() != t}


def main(arguments: list[str]) -> int:
    """Writes or checks."""
    found = stale()
    if arguments == ["--check"]:
        for name in found:
            print(f"docs/reference/{name} is stale: make docs")
        return int(bool(found))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
