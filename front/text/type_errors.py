"""Sentences for calls with wrong types: the types that a function of tuskml got and those that
it takes.
"""

import re

NO_MATCH = (
    re.compile(r"^No function matches the given name and argument types '(\w+)\((.*)\)'"),
    re.compile(
        r'^Could not choose a best candidate function for the function call "(\w+)\((.*)\)"'
    ),
    re.compile(r"^function (?:\w+\.)?(\w+)\((.*)\) (?:does not exist|is not unique)"),
)
"""DuckDB's words, twice, and PostgreSQL's."""
FEATURES = "the features a list of numbers such as {array} or sparse(indices, values)"
TRAINING = (
    "(task, label, features [, options])",
    "the label a number or a boolean, " + FEATURES + ", the options JSON as text",
)
PREDICTION = ("(model, features)", FEATURES)
NAMED = "the label a boolean or a number, or any label with the name of its positive class"
SCORE = ("(label, score [, positive] [, weight])", NAMED)
CLASSES = "both numbers or booleans, or both text"
CLASS_SCORE = ("(label, predicted [, average [, positive] [, weight]])", CLASSES)
SUM = ("(label, predicted [, weight])", "numbers, or the label a boolean")
PROBABILITIES = (
    "(label, p [, positive] [, weight])",
    "the label a boolean or 0 and 1 and p a number, or the label a class and p the probabilities "
    "of all classes",
)
ITEMS = (
    re.compile(
        r"^Cannot deduce template type 'T' in function: 'list_value\(.*"
        r" - '([^\n]*)', from first occurrence.* - '([^\n]*)', which is incompatible",
        re.DOTALL,
    ),
    re.compile(r"^ARRAY types (.*) and (.*) cannot be matched$"),
)
"""An array whose items have no common type, which the databases reject before they resolve the
function; DuckDB's words and PostgreSQL's.
"""
DENIED = re.compile(
    r"^permission denied for (?:function|aggregate) "
    r"(train|train_model|explain_training|feature_frequencies|partition_model)$"
)
EXPECTED = {
    "train_model": TRAINING,
    "explain_training": TRAINING,
    "predict": PREDICTION,
    "predict_proba": PREDICTION,
    "decision": PREDICTION,
    "marginal_effects": ("(model, features [, weight [, offset]])", FEATURES),
    "drift": ("(model, features [, weight])", FEATURES),
    "sparse": ("(indices, values)", "the indices a list of whole numbers, the values of numbers"),
    "hash_features": (
        "(names, bits) or (names, values, bits)",
        "the names a list of texts, the values one of numbers, the bits 1 to 30",
    ),
    **dict.fromkeys(
        ("auc", "ks", "psi", "average_precision", "roc_curve", "precision_recall_curve", "lift"),
        SCORE,
    ),
    **dict.fromkeys(
        ("ndcg", "precision_at_k", "recall_at_k", "average_precision_at_k"),
        ("(label, score [, k])", "numbers, or the label a boolean"),
    ),
    **dict.fromkeys(("rmse", "mae", "r2", "mape", "poisson_deviance", "gamma_deviance"), SUM),
    **dict.fromkeys(("log_loss", "brier"), PROBABILITIES),
    **dict.fromkeys(("accuracy", "confusion"), ("(label, predicted [, weight])", CLASSES)),
    **dict.fromkeys(("precision_score", "recall_score", "f1_score"), CLASS_SCORE),
    "calibration": ("(label, p [, bins [, weight]])", "numbers, or the label a boolean"),
    "compare": (
        "(label, prediction_a, prediction_b, metric [, weight])",
        "all numbers or booleans, or all text, and the metric text",
    ),
    "pinball": ("(label, predicted, quantile [, weight])", "numbers, or the label a boolean"),
    "tweedie_deviance": (
        "(label, predicted, power [, weight])",
        "numbers, or the label a boolean",
    ),
}


def explain_message(message: str) -> str:
    """The message, or a sentence on a call of one of tuskml's functions that replaces it."""
    for place, pattern in enumerate(NO_MATCH):
        found = pattern.match(message)
        name = found[1].removeprefix("_tusk_").removeprefix("tuskml_") if found else ""
        name = "sparse" if name == "ids" else name
        if found and name in EXPECTED:
            arguments, kinds = EXPECTED[name]
            array = "ARRAY[a, b]" if place == 2 else "[a, b]"
            return f"{name} got ({types(found[2])}), expected {arguments}: " + kinds.format(
                array=array
            )
    return explain_mixed_array(message) or explain_denied_training(message) or message


def explain_mixed_array(message: str) -> str | None:
    """A sentence on an array of numbers and something else."""
    for place, pattern in enumerate(ITEMS):
        found = pattern.match(message)
        if found:
            cast = "::int" if place else "::INT"
            kinds = f"{types(found[1])} and {types(found[2])}"
            return (
                f"an array has items of the types {kinds}, expected numbers: a boolean becomes "
                f"one by b{cast}, text becomes features by hash_features or by columns such as "
                f"(a = 'x'){cast}"
            )
    return None


def explain_denied_training(message: str) -> str | None:
    """A sentence on a training by a role without the right to it."""
    found = DENIED.match(message)
    if found is None:
        return None
    return f"{message}: training needs the role tuskml_user, GRANT tuskml_user TO the role"


def types(given: str) -> str:
    """The argument types, without a model's fields, and with a literal as text."""
    text = re.sub(
        r"STRUCT\(task VARCHAR, .*?options\"? VARCHAR(, store VARCHAR)?\)", "model", given
    )
    text = text.replace("STRING_LITERAL", "VARCHAR").replace("INTEGER_LITERAL", "INTEGER")
    return re.sub(r"\bunknown\b", "text", text.replace('"NULL"', "NULL"))
