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
from tuskml.kvstore.roots.numbered import MOST_ID
from tuskml.learners.learner import Learner
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
from tuskml.learners.options.table import MAX_TEXT, MAX_WARM_START, SHARED, alternatives, joined
from tuskml.learners.registry import TASKS, learners
from tuskml.partitioner.merging import MOST_FEATURES

FOLDER = ROOT / "docs" / "reference"
FEATURES = {
    LIST: "lists",
    SPARSE: "sparse features",
    ROW: "rows with names",
    CATEGORY: "categories of rows with names",
    DATE: "dates and timestamps of rows with names",
    WORDS: "lists of words",
    PAIRS: "pairs",
    ROW_GROUPS: "lists that are read by row group",
}
"""Features by kind, in the words of the page of options."""
NUMBERS = (
    "DOUBLE[] or FLOAT[] or sparse of DOUBLE or sparse of FLOAT",
    "anyarray or record or sparse of double precision or sparse of real",
)
"""Types of features that most functions take, which the page calls *numbers*."""
MOST_NAMED = 4
"""Tasks in a heading."""
LONG = 60
"""Characters from which on a condition of several options is a note."""
NO_DEFAULT = ("time", "class_weight", "classes", "warm_start", "store")
"""Options without a default; for the others None means that the default is chosen."""

SENTENCES = {
    "train_model": "Trains a model on the rows of a group.",
    "explain_training": "What `train_model` would run, what else it might run, and why.",
    "train": "Trains a model on a table, with its label and features as text.",
    "predict": "The class in the label's own values, or the number.",
    "predict_proba": "The probability of the higher class, or of one, for `logistic` models.",
    "predict_class": "The class by its name.",
    "predict_probas": "The probabilities of all classes by their names, for `logistic` models.",
    "decision": "The margin, coef · features + intercept.",
    "predict_topics": "The proportions of topics in a document, of `lda` models.",
    "with_payload": "The model with a payload made anew of its other fields.",
    "model_payload": "The payload of a model's other fields, which predictions read.",
    "sparse": "Sparse features: ids from 0 and their values; values of repeated ids are added.",
    "hash_features": "Sparse features from names, by the hashing trick.",
    "model_card": "One row: task, status, rows, loss and the strongest effects, for reading.",
    "model_fingerprint": "A text that is equal for models that predict the same.",
    "model_summary": "One row per coefficient: estimate, standard error, p-value, interval.",
    "model_topics": "The most probable words of each topic, as rows.",
    "explain_prediction": "What each feature of a row adds to the margin, as rows.",
    "permutation_importance": "How much the mean loss of rows rises if a feature is shuffled.",
    "partial_dependence": "What a model says on average where a feature has one value, as rows.",
    "feature_frequencies": "The most frequent features, with bounds on how often they occur.",
    "partition_model": "Which features of a stored model share a key.",
    "partitionings": "The versions that `partition_model` kept under names, as rows.",
    "log_loss": "The mean of -log of the predicted probability of the label, of any classes.",
    "auc": "The area under the ROC curve; ties count half.",
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
    "average_precision": "Precision times the step of recall, summed from the highest score down.",
    "precision_score": "The share of positive predictions that are right, or a mean over classes.",
    "recall_score": "The share of positive rows that are predicted so, or a mean over classes.",
    "f1_score": "The harmonic mean of precision and recall, or a mean over classes.",
    "perplexity": "How hard documents are to predict by the topics of their other halves.",
    "coherence": "How often the best words of topics occur together in documents.",
    "confusion": "How often each label is predicted as each class, as rows.",
    "roc_curve": "The rates of true and false positives by threshold, as rows.",
    "precision_recall_curve": "Precision and recall by threshold, as rows.",
    "calibration": "Mean probability and share of positive labels by bin, as rows.",
    "lift": "Positive rows by decile of the score, against their share in all rows, as rows.",
}
"""A sentence per function, in the order of the page; others follow, with their SQL comment."""


def shown_default(option: Option) -> str:
    """The default as a person reads it."""
    if option.default is None:
        return "none" if option.name in NO_DEFAULT else "chosen"
    if isinstance(option.default, bool):
        return str(option.default).lower()
    return f"{option.default:g}" if isinstance(option.default, float) else str(option.default)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head)]
    lines += [[cell.replace("|", "\\|") for cell in row] for row in rows]
    text = ["| " + " | ".join(cells) + " |\n" for cells in lines]
    return text[0] + "|" + "---|" * len(lines[0]) + "\n" + "".join(text[1:])


def options_table(options: Mapping[str, Option], acts: bool = True) -> str:
    """Name, default, allowed values and meaning of each; acts: and where it changes something.

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
            option.meaning,
            *([f"({notes[where[name]]})" if where[name] in notes else where[name]] * acts),
        )
        for name, option in options.items()
    )
    head = ("option", "default", "allowed", "meaning", *(["acts on"] if acts else []))
    below = (
        fill(f"({letter}): {text}.", 100, break_on_hyphens=False) + "\n"
        for text, letter in notes.items()
    )
    return "\n".join([table(head, rows), *(below if acts else ())])


def shown_values(allowed: str) -> str:
    """The allowed values, with ranges in signs."""
    text = re.sub(r"a whole number from (\S+) to ", r"whole, \1 to ", allowed)
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
    return "; or ".join(case_in_words(one) for one in told)


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
        parts.append(joined([FEATURES[kind] for kind in FEATURES if kind in one.features]))
    elif one.values:
        parts.append("all")
    if one.classes:
        parts.append("labels that are classes")
    if one.tasks:
        parts.append(joined([f"`{name}`" for name in one.tasks]))
    if one.but:
        parts.append(f"not {joined([f'`{name}`' for name in one.but])}")
    parts += [f"with {needed(one)}" for one in one.beside]
    return ", ".join(parts).replace(":,", ":")


def needed(beside: Beside) -> str:
    """Describes another option that an option requires."""
    if beside.values == (None,):
        return f"no `{beside.option}`"
    if beside.values:
        return f"`{beside.option}` {alternatives(beside.values)}"
    if not beside.but:
        return f"`{beside.option}`"
    others = alternatives(tuple(one for one in beside.but if one is not None))
    return f"`{beside.option}` other than {others}"


def options_page() -> str:
    return f"""# Options

The fourth argument of `train_model` and `explain_training`, as JSON text such as
`'{{"l2": 0.01, "threads": 1}}'`; in DuckDB also as a struct, `{{'l2': 0.01, 'threads': 1}}`, or a
map, in PostgreSQL also as `json` or `jsonb`. Which options there are depends on the task. A
default that is "chosen" depends on the algorithm and on the machine; the model's `options` show
it.

An option acts on what the last column of its row says: some tasks, kinds of features, or values
of other options; everywhere if that is empty. Elsewhere it would change nothing, and a training
that is given it is refused, even at its default. In a search, candidates lack options that change
nothing with its others.

{"".join(learner_options(learner) for learner in learners())}## Shared options

{options_table(SHARED)}
## Of `feature_frequencies`

{options_table(FREQUENCY_OPTIONS, acts=False)}
## Of `partition_model`

{options_table(PARTITION_OPTIONS, acts=False)}"""


def learner_options(learner: Learner) -> str:
    """The options of one learner: its own as a table, and the names of the shared ones."""
    there = learner.options.by_name
    own = {name: option for name, option in there.items() if not is_shared(option)}
    shared = [name for name in there if name not in own]
    missing = [name for name in SHARED if name not in there]
    if len(missing) < len(shared):
        told = f"all but {listed(missing)}" if missing else "all"
    else:
        told = listed(shared) if shared else "none"
    told = fill(f"Of the [shared options](#shared-options): {told}.", 100)
    sentences = []
    for before in takewhile(lambda one: one is not learner, learners()):
        same = [name for name in own if alike(own[name], before.options.by_name.get(name))]
        if same:
            text = f"As for `{next(iter(before.tasks))}`: {listed(same)}."
            sentences.append(fill(text, 100, break_on_hyphens=False) + "\n\n")
        own = {name: option for name, option in own.items() if name not in same}
    return f"""{heading(learner)}
{options_table(own)}
{"".join(sentences)}{told}

"""


def alike(one: Option, other: Option | None) -> bool:
    """Returns whether two options are shown alike."""
    if other is None or is_shared(one):
        return False
    shown = [
        (shown_default(option), option.kind.allowed, option.meaning, where_it_acts(option))
        for option in (one, other)
    ]
    return shown[0] == shown[1]


def heading(learner: Learner) -> str:
    """A heading that names the learner's tasks; of many the first, and the others below it."""
    names = list(learner.tasks)
    if len(names) <= MOST_NAMED:
        return f"## Of {listed(names)}\n"
    others = fill(f"And of {listed(names[1:])}.", 100)
    return f"## Of `{names[0]}` and {len(names) - 1} other tasks\n\n{others}\n"


def listed(names: list[str]) -> str:
    """`a`, `b` and `c`, as code."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)


def algorithms_page() -> str:
    """Each learner's algorithms, from their descriptors."""
    parts = [
        f"{heading(learner)}\n{algorithms_table(learner)}"
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
            "yes" if one.on_gpu else "no",
            "yes" if one.stored else "no",
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
            task.features,
            {"t": "Student's t", "z": "normal", None: "none"}[task.test],
        )
        for task in TASKS.values()
    )
    head = ("task", "loss of margin m and label y", "labels", "features", "test of coefficients")
    return f"""# Tasks

The first argument of `train_model`. The higher of two classes is y = +1, the lower is -1. The
loss is part of the [objective](../algorithms/linear.md#the-objective). A task with two names may
be given by either, and its models keep the first one.

{table(head, rows)}"""


def statuses_table() -> str:
    """Each status with its meaning, from the least to the most important."""
    rows = ((f"`{status}`", meaning) for status, meaning in MEANINGS.items())
    return table(("status", "meaning"), rows)


def statuses_page() -> str:
    return f"""# Statuses

The values of `model.status`, from the least to the most important: a model has the last one
that applies. A group never fails the query because it cannot be trained well; a group without
usable rows is NULL. [How statuses are found](../algorithms/inference.md#statuses).

{statuses_table()}"""


def functions_page() -> str:
    """Every function that either database has."""
    here, there = duckdb_functions(), postgres_functions()
    names = [name for name in SENTENCES if name in here or name in there]
    names += sorted((here.keys() | there.keys()) - SENTENCES.keys())
    summary = table(
        ("function", "kind", "what it returns or does"),
        (
            (
                f"[`{name}`](#{name})",
                kind_of(here.get(name), there.get(name)),
                sentence_of(name, here.get(name), there.get(name)),
            )
            for name in names
        ),
    )
    parts = [function_part(name, here.get(name), there.get(name)) for name in names]
    return (
        f"# Functions\n\n{summary}\n"
        "The tables below have the types that each function takes in each database. An argument "
        "in\nbrackets may be left out. `model` is DuckDB's STRUCT or PostgreSQL's "
        "`tuskml_model`, *numbers* stands\nfor dense or sparse features or a row with names, and "
        "*any* marks macros, whose arguments are checked\nby the functions that they call. "
        "[SQL](../sql.md) explains them.\n\n" + "\n".join(parts)
    )


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
    sentence = SENTENCES.get(name) or next(filter(None, comments), "")
    if not sentence:
        raise LookupError(f"{name} has no sentence in scripts/docs/reference.py, nor a comment")
    return sentence


def function_part(name: str, here: Function | None, there: Function | None) -> str:
    """A heading and a table of two signatures."""
    some = here or there
    assert some is not None
    shapes = [arguments for arguments, _ in (there or some).shapes()]
    named = {len(arguments): [argument.name for argument in arguments] for arguments in shapes}
    rows = [
        (
            database,
            shown_arguments(arguments, named.get(len(arguments), [a.name for a in shapes[0]])),
            shown_results(function, results),
        )
        for database, function in (("DuckDB", here), ("PostgreSQL", there))
        if function is not None
        for arguments, results in function.shapes()
    ]
    head = ("database", "arguments", "returns")
    return f"## `{name}`\n\n{table(head, rows)}"


def shown_arguments(arguments: list[Argument], named: list[str]) -> str:
    """Names with types; DuckDB's functions have no names of their own."""
    parts = []
    for place, argument in enumerate(arguments):
        name = argument.name or (named[place] if place < len(named) else "")
        kinds = " or ".join(kind or "*any*" for kind in argument.types)
        text = f"`{name}` " + ("*numbers*" if kinds in NUMBERS else kinds)
        parts.append(f"[{text}]" if argument.optional else text)
    return ", ".join(parts) or "none"


def shown_results(function: Function, results: list[str]) -> str:
    """The types of results; a macro's result has the type of the function that it calls."""
    known = " or ".join(result for result in results if result)
    return known or ("table" if "table" in function.kind else "*any*")


def settings_page() -> str:
    """PostgreSQL's settings, as the extension defines them."""
    source = (ROOT / "udas" / "postgres" / "tuskml.c").read_text()
    rows = []
    for call in re.findall(r"DefineCustom\w+Variable\((.*?)\);", source, re.DOTALL):
        name, short, more, _, default, *others = arguments_in_c(call)
        who = "superusers" if "PGC_SUSET" in others else "all"
        rows.append((f"`{name}`", default_in_c(default), who, f"{short} {more}".strip()))
    head = ("setting", "default", "who may set it", "meaning")
    return f"""# Settings of PostgreSQL

[PostgreSQL](../postgres.md#settings) says more about each. In DuckDB, tuskml follows DuckDB's own
settings `memory_limit`, `temp_directory` and `threads`.

{table(head, sorted(rows))}"""


def arguments_in_c(call: str) -> list[str]:
    """The arguments of a call: string literals side by side are one, NULL is nothing."""
    joined = re.sub(r'"\s+"', "", call)
    parts = re.findall(r'\s*("(?:[^"\\]|\\.)*"|[^,]+)\s*(?:,|$)', joined)
    return ["" if part.strip() == "NULL" else part.strip().strip('"') for part in parts]


def default_in_c(default: str) -> str:
    """A constant that the build fills in has no value here."""
    if default.isupper() and not default.startswith("LOG_"):
        return "by `install`"
    return {"true": "on", "false": "off", "": "none", "LOG_OFF": "off"}.get(default, default)


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
    "settings.md": settings_page,
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
