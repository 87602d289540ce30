"""Writes `docs/reference/` from the code's own tables of options, tasks, functions and so on.

    python scripts/docs/reference.py            writes the pages
    python scripts/docs/reference.py --check    names those that are not as they should be

`tests/docs/test_reference.py` runs the check.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping

from catalogue import ROOT, Argument, Function, duckdb_functions, postgres_functions

from tuskml.groups.factorization import MOST_IDS, MOST_NUMBERS
from tuskml.groups.models import HISTORY_POINTS
from tuskml.groups.outcome import MOST_WEIGHTS
from tuskml.groups.partition import FREQUENCY_OPTIONS, PARTITION_OPTIONS
from tuskml.groups.statuses import MEANINGS
from tuskml.optimizer.rule import NEWTON_FEATURES
from tuskml.partitioner.merging import MOST_FEATURES
from tuskml.udas.options import LEAST_CACHE, MAX_TEXT, MAX_WARM_START, TABLE, Option
from tuskml.udas.tasks import TASKS

FOLDER = ROOT / "docs" / "reference"
NO_DEFAULT = ("time", "class_weight", "warm_start", "store")
"""Options without a default; None is chosen with the algorithm elsewhere."""

SENTENCES = {
    "train_model": "Trains a model of the rows of a group.",
    "explain_training": "What `train_model` would run, what else it might, and why.",
    "train": "Trains a model of a table, with its label and features as text.",
    "predict": "The class in the label's own values, or the number.",
    "predict_proba": "The probability of the higher class, of `logistic` models.",
    "decision": "The margin, coef · features + intercept.",
    "predictor": "What predictions need of a model, for joins with many rows.",
    "sparse": "Sparse features: ids from 0 on and their values; repeated ids add up.",
    "hash_features": "Sparse features of names, by the hashing trick.",
    "model_summary": "One row a coefficient: estimate, standard error, z or t, p-value.",
    "feature_frequencies": "The most frequent features, with bounds of how often they occur.",
    "partition_model": "Which features of a model in a store share a key.",
    "log_loss": "The mean of -log of the probability that the label got.",
    "auc": "The area under the ROC curve; ties count half.",
    "accuracy": "The share of rows whose prediction is the label.",
    "rmse": "The root of the mean squared error.",
    "mae": "The mean absolute error.",
    "r2": "1 - squared error / squared distance of the labels from their mean.",
}
"""One sentence a function, in the order of the page; others follow, with their SQL comment."""


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


def options_table(options: Mapping[str, Option]) -> str:
    """Name, default, allowed values and meaning of each."""
    rows = (
        (f"`{option.name}`", shown_default(option), option.kind.allowed, option.meaning)
        for option in options.values()
    )
    return table(("option", "default", "allowed", "meaning"), rows)


def options_page() -> str:
    return f"""# Options

The fourth argument of `train_model` and `explain_training`, JSON text such as
`'{{"l2": 0.01, "threads": 1}}'`. Where the default is "chosen" it depends on the algorithm and
on the machine; the model's `options` show it.

{options_table(TABLE)}
## Of `feature_frequencies`

{options_table(FREQUENCY_OPTIONS)}
## Of `partition_model`

{options_table(PARTITION_OPTIONS)}"""


def tasks_page() -> str:
    rows = (
        (
            f"`{task.name}`",
            f"`{task.formula}`",
            "two classes" if task.classifies else "numbers",
            "`[user, item]`" if task.factorizes else "dense or sparse",
            {"t": "Student's t", "z": "normal", None: "none"}[task.test],
        )
        for task in TASKS.values()
    )
    head = ("task", "loss of margin m and label y", "labels", "features", "test of coefficients")
    return f"""# Tasks

The first argument of `train_model`. Of two classes the higher is y = +1, the lower -1;
[algorithms.md](../algorithms.md) has the objective that the loss is part of.

{table(head, rows)}"""


def statuses_table() -> str:
    """The README's table too."""
    rows = ((f"`{status}`", meaning) for status, meaning in MEANINGS.items())
    return table(("status", "meaning"), rows)


def statuses_page() -> str:
    return f"""# Statuses

What `model.status` says, in rising order of what a person must know first: a model has the last
that applies. How each is found out is in [algorithms.md](../algorithms.md#statuses).

{statuses_table()}"""


def functions_page() -> str:
    """Every function that either database has."""
    here, there = duckdb_functions(), postgres_functions()
    names = [name for name in SENTENCES if name in here or name in there]
    names += sorted((here.keys() | there.keys()) - SENTENCES.keys())
    parts = [function_part(name, here.get(name), there.get(name)) for name in names]
    return (
        "# Functions\n\nEvery function with the types that each database has it for; "
        "[sql.md](../sql.md) tells what they mean. An argument in brackets may be left out. "
        "`model` is DuckDB's STRUCT or PostgreSQL's `tuskml_model`; *any* are macros, whose "
        "arguments are checked by what they call.\n\n" + "\n".join(parts)
    )


def function_part(name: str, here: Function | None, there: Function | None) -> str:
    """A heading, a sentence, a table of two signatures."""
    some = here or there
    assert some is not None
    sentence = SENTENCES.get(name) or some.comment or (there.comment if there else "")
    if not sentence:
        raise LookupError(f"{name} has no sentence in scripts/docs/reference.py, nor a comment")
    shapes = [arguments for arguments, _ in (there or some).shapes()]
    named = {len(arguments): [argument.name for argument in arguments] for arguments in shapes}
    rows = [
        (
            database,
            function.kind,
            shown_arguments(arguments, named.get(len(arguments), [a.name for a in shapes[0]])),
            shown_results(function, results),
        )
        for database, function in (("DuckDB", here), ("PostgreSQL", there))
        if function is not None
        for arguments, results in function.shapes()
    ]
    return (
        f"## `{name}`\n\n{sentence}\n\n{table(('database', 'kind', 'arguments', 'returns'), rows)}"
    )


def shown_arguments(arguments: list[Argument], named: list[str]) -> str:
    """Names with types; DuckDB's functions have no names of their own."""
    parts = []
    for place, argument in enumerate(arguments):
        name = argument.name or (named[place] if place < len(named) else "")
        text = f"`{name}` " + " or ".join(kind or "*any*" for kind in argument.types)
        parts.append(f"[{text}]" if argument.optional else text)
    return ", ".join(parts) or "none"


def shown_results(function: Function, results: list[str]) -> str:
    """What is returned; a macro's result has the type of what it calls."""
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

[postgres.md](../postgres.md#settings) says more of each. In DuckDB its own settings count:
`memory_limit`, `temp_directory` and `threads`.

{table(head, sorted(rows))}"""


def arguments_in_c(call: str) -> list[str]:
    """The arguments of a call: string literals side by side are one, NULL is nothing."""
    joined = re.sub(r'"\s+"', "", call)
    parts = re.findall(r'\s*("(?:[^"\\]|\\.)*"|[^,]+)\s*(?:,|$)', joined)
    return ["" if part.strip() == "NULL" else part.strip().strip('"') for part in parts]


def default_in_c(default: str) -> str:
    """A constant that the build fills in has no value here."""
    if default.isupper():
        return "by `install`"
    return {"true": "on", "false": "off", "": "none"}.get(default, default)


def sizes_page() -> str:
    """Constants of the code that a user may meet."""
    header = (ROOT / "udas" / "rowblock" / "rowblock.h").read_text()
    most = {name: int(n) for name, n in re.findall(r"#define TUSK_MAX_(\w+) (\d+)", header)}
    rows = (
        ("features of a dense row", f"{most['DENSE_FEATURES']:,}"),
        ("a sparse feature's id", f"from 0 to {most['FEATURE_ID']:,}"),
        ("features of a model with standard errors", f"{MOST_WEIGHTS - 1:,}"),
        ("features up to which `auto` begins with newton", f"{NEWTON_FEATURES:,}"),
        ("points of a model's `history`", f"{HISTORY_POINTS:,}"),
        ("numbers of a matrix factorization that is a value", f"{MOST_NUMBERS:,}"),
        ("users and items of a matrix factorization in a store", f"{MOST_IDS:,}"),
        ("least `cache` of a model in a store", f"{LEAST_CACHE // 10**6:,} MB"),
        ("frequent features that `partition_model` can put together", f"{MOST_FEATURES:,}"),
        ("characters of `options`", f"{MAX_TEXT:,}; with `warm_start` {MAX_WARM_START:,}"),
    )
    return f"# Sizes\n\nHow much of what there may be.\n\n{table(('what', 'limit'), rows)}"


PAGES: dict[str, Callable[[], str]] = {
    "options.md": options_page,
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
