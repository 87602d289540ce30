"""Models as expressions in plain SQL, which DuckDB, PostgreSQL and SQLite read without tuskml.

The expression has the features' names as columns, in quotation marks. Numbers are cast to DOUBLE
PRECISION, since databases would take some constants for decimal numbers; categories are compared
as text. Sums are taken pairwise, so that no database finds an expression too deep.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, nearest, one_of
from tuskml.learners.registry import learners
from tuskml.learners.tasks import weighs_features
from tuskml.learners.trees.forest import (
    FEATURE,
    HEAD,
    MISSING,
    VALUE,
    levels_left,
    splits_by_level,
    trees_in,
)
from tuskml.learners.trees.learner import OF_TREES
from tuskml.model.any_model import Estimator, model_in
from tuskml.model.model import Model
from tuskml.model.scoring import Floats

LEAST, MOST = -700.0, 700.0
"""Where exp() is 0 or infinite soon, which is an error in PostgreSQL."""
RIGHT = 2
"""The place of the right child in a node of a tree."""
ANSWERS = ("predict", "predict_class", "predict_proba", "decision")
Column = dict[str, Any]


def model_to_sql(
    model: Model | Estimator, answer: str = "predict", label_class: str | None = None
) -> str:
    """Returns what a model predicts of a row as an expression in plain SQL.

    model: a linear model of any loss, or trees; also a fitted estimator. answer: `predict`,
    `predict_class`, `predict_proba` or `decision`, as SQL has them; label_class: the class whose
    probability `predict_proba` is, by default the higher one of two. Rows that the model refuses
    have NULL. DataError for models that plain SQL cannot say.
    """
    found = model_in(model)
    if answer not in ANSWERS:
        hint = nearest(answer, ANSWERS)
        raise DataError(f"answer is {answer!r}, expected {one_of(ANSWERS)}{hint}")
    refuse(found)
    features = Features(found)
    whole = answer_of(found, margins(found, features), answer, label_class)
    refused = features.refusals
    return f"CASE WHEN {' OR '.join(refused)} THEN NULL ELSE {whole} END" if refused else whole


def sql_of(call: str) -> str:
    """The expression of a call as SQL makes it: JSON with `model`, `answer` and `class`, and where
    JSON has no bytes `payload` in hexadecimal digits."""
    given = json.loads(call)
    if given.get("payload"):
        given["model"]["payload"] = bytes.fromhex(given["payload"])
    return model_to_sql(Model.of(given["model"]), given["answer"], given["class"])


def refuse(model: Model) -> None:
    """DataError for a model that has no weights of features, or no rows that it can predict."""
    known = model.task in OF_TREES or (weighs_features(model.task) and is_built_in(model.task))
    if not known:
        raise DataError(
            f"the model is '{model.task}', which plain SQL cannot say, expected a linear model, "
            "one of a path, or trees"
        )
    if model.store is not None:
        raise DataError(
            f"the coefficients lie in the store {model.store}, expected a model in memory"
        )
    if model.intercept is None and not model.several and not model.coef:
        raise DataError(f"the model has status '{model.status}' and predicts nothing")


def is_built_in(task: str) -> bool:
    """Returns whether a task is tuskml's own, whose link is known here."""
    return any(task in learner.tasks for learner in learners())


# --- pieces of SQL ---


def number(value: float) -> str:
    """A literal that no database takes for a decimal number of few digits."""
    text = repr(min(max(float(value), -1.7976931348623157e308), 1.7976931348623157e308))
    return text if "e" in text else f"{text}e0"


def double(text: str) -> str:
    """An expression as a double."""
    return f"CAST({text} AS DOUBLE PRECISION)"


def quote_name(column: str) -> str:
    """A column's name in quotation marks."""
    return '"' + column.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A text literal."""
    return "'" + text.replace("'", "''") + "'"


def total(terms: Sequence[str]) -> str:
    """The sum, with as few brackets within brackets as there can be."""
    if len(terms) <= 2:
        return " + ".join(terms) if terms else number(0)
    middle = len(terms) // 2
    return f"({total(terms[:middle])}) + ({total(terms[middle:])})"


def exp_of(margin: str) -> str:
    """exp() of a margin; 0 where it is next to 0."""
    return f"CASE WHEN {margin} < {number(LEAST)} THEN {number(0)} ELSE exp({margin}) END"


def logistic_of(margin: str) -> str:
    """1 / (1 + exp(-margin))."""
    ends = f"WHEN {margin} < {number(LEAST)} THEN {number(0)} "
    ends += f"WHEN {margin} > {number(MOST)} THEN {number(1)}"
    return f"CASE {ends} ELSE {number(1)} / ({number(1)} + exp(-({margin}))) END"


# --- features ---


@dataclass(frozen=True)
class Piece:
    """A feature as expressions of a row: its value, NULL where it is missing, and when it is 1 if
    it is a level."""

    value: str
    when: str | None = None
    levels: Column | None = None


class Features:
    """The features of a model, and which rows it refuses."""

    def __init__(self, model: Model) -> None:
        self.preparation: dict[str, Any] = json.loads(model.preparation or "{}")
        self.options = model.options
        self.width = int((model.coef or [0])[0]) if model.task in OF_TREES else model.width
        self.names = (
            model.feature_names if model.task not in OF_TREES else names(model, self.width)
        )

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of rows by name. DataError where one is no plain column."""
        found: list[Column] = self.preparation["columns"] if self.preparation else []
        for one in found:
            if one["kind"] == "words" or "part" in one:
                what = "hashed words" if one["kind"] == "words" else "a part of a date"
                raise DataError(
                    f"the feature '{one['name']}' is {what}, which plain SQL cannot say: make it "
                    "a column before the training"
                )
        return found

    @property
    def refusals(self) -> list[str]:
        """The conditions under which a row has no prediction."""
        if not self.preparation:
            skips = self.options.get("missing", "skip") == "skip" and not self.keeps
            return [f"{quote_name(name)} IS NULL" for name in self.names] if skips else []
        found = []
        for one in self.columns:
            if one["kind"] == "product":
                continue
            if self.preparation["missing"] in ("skip", "error"):
                found.append(f"{quote_name(one['name'])} IS NULL")
            category = one["kind"] in ("category", "levels")
            if category and self.preparation["unseen"] != "other" and not one.get("other"):
                found.append(f"NOT {is_one_of(one, range(len(one['levels'])))}")
        return found

    @property
    def keeps(self) -> bool:
        """Whether lists of numbers may lack some."""
        return self.options.get("missing") == "keep" or "trees" in self.options

    @cached_property
    def pieces(self) -> list[Piece]:
        """One for each feature."""
        if not self.preparation:
            return [Piece(double(quote_name(name))) for name in self.names]
        found: list[Piece] = []
        firsts: list[list[Piece]] = []
        for one in self.columns:
            own = list(self.of_column(one, firsts))
            indicators = [Piece("", f"{quote_name(one['name'])} IS NULL")] * bool(
                one.get("indicator")
            )
            firsts.append(own)
            found += [as_number(piece) for piece in (*own, *indicators)]
        return found

    def of_column(self, one: Column, before: list[list[Piece]]) -> Iterator[Piece]:
        """The features of a column without the one that says it is missing."""
        kind, missing = one["kind"], self.preparation["missing"]
        if kind == "number":
            value = double(quote_name(one["name"]))
            fill = missing in ("impute", "level")
            yield Piece(f"COALESCE({value}, {number(one.get('fill', 0))})" if fill else value)
        elif kind == "levels":
            yield Piece(self.place_of(one), levels=one)
        elif kind == "product":
            for key in one["keys"]:
                yield self.product(one, key, before)
        else:
            yield from self.of_category(one)

    def of_category(self, one: Column) -> Iterator[Piece]:
        """The levels that have a feature, the rare ones, and a missing one."""
        levels, gap = one["levels"], f"{quote_name(one['name'])} IS NULL"
        own_level = self.preparation["missing"] in ("level", "keep")
        for place in range(bool(one.get("reference")), len(levels)):
            filled = not own_level and levels[place] == one.get("fill")
            when = is_one_of(one, [place])
            yield Piece("", f"({when} OR {gap})" if filled else when)
        if one.get("other"):
            when = f"NOT {is_one_of(one, range(len(levels)))}"
            filled = own_level and not one.get("missing")
            yield Piece("", f"({when} OR {gap})" if filled else when)
        if one.get("missing"):
            yield Piece("", gap)

    def place_of(self, one: Column) -> str:
        """The number of a level; NULL for one that training did not see."""
        cases = [f"WHEN {is_one_of(one, [k])} THEN {number(k)}" for k in range(len(one["levels"]))]
        gap = gap_of(one, self.preparation["missing"])
        if gap is not None:
            cases.append(f"WHEN {quote_name(one['name'])} IS NULL THEN {number(gap)}")
        return f"CASE {' '.join(cases)} END" if cases else f"NULLIF({number(0)}, {number(0)})"

    def product(self, one: Column, key: int, before: list[list[Piece]]) -> Piece:
        """A combination of features of columns before."""
        values, conditions = [], []
        for factor in reversed(one["factors"]):
            key, place = divmod(key, len(before[factor]))
            piece = before[factor][place]
            if piece.when is None:
                values.append(piece.value)
            else:
                conditions.append(piece.when)
        if not values:
            return Piece("", f"({' AND '.join(conditions)})")
        product = " * ".join(values)
        when = " AND ".join(conditions)
        return Piece(f"CASE WHEN {when} THEN {product} ELSE {number(0)} END" if when else product)


def names(model: Model, width: int) -> Sequence[str]:
    """The names of the features of trees on lists of numbers."""
    if len(model.features) == width:
        return model.features
    if len(model.features) == 1:
        return [f"{model.features[0]}[{place}]" for place in range(1, width + 1)]
    return [f"x{place}" for place in range(1, width + 1)]


def as_number(piece: Piece) -> Piece:
    """A feature that has a value; a level is 1 or 0."""
    if piece.when is None:
        return piece
    return Piece(f"CASE WHEN {piece.when} THEN {number(1)} ELSE {number(0)} END", piece.when)


def is_one_of(one: Column, places: Sequence[int]) -> str:
    """Whether a column has one of some levels; not true of NULL."""
    column, levels = quote_name(one["name"]), [one["levels"][place] for place in places]
    if not levels:
        return f"({column} IS NULL AND {column} IS NOT NULL)"
    if one.get("numbers"):
        return f"{double(column)} IN ({', '.join(number(float(level)) for level in levels)})"
    return f"CAST({column} AS TEXT) IN ({', '.join(map(quote_text, levels))})"


def gap_of(one: Column, missing: str) -> int | None:
    """The number of the level that stands for a missing one; None: it is missing to the trees."""
    if one.get("missing"):
        return len(one["levels"])
    if missing in ("level", "keep") or "fill" not in one:
        return None
    place: int = one["levels"].index(one["fill"])
    return place


# --- margins ---


def margins(model: Model, features: Features) -> list[str]:
    """The margin, or of more than two classes that of each."""
    if model.task in OF_TREES:
        return margins_of_trees(model, features)
    weights = model.weights()
    if not model.several:
        return [linear(model.intercept or 0.0, weights, features)]
    rows = [weights[at : at + model.width + 1] for at in range(0, len(weights), model.width + 1)]
    return [linear(first, others, features) for first, *others in rows]


def linear(intercept: float, weights: Sequence[float], features: Features) -> str:
    """The intercept and features times weights."""
    terms = [double(number(intercept))]
    for weight, piece in zip(weights, features.pieces, strict=True):
        if piece.when is None:
            terms.append(f"{number(weight)} * {piece.value}")
        elif weight:
            terms.append(f"CASE WHEN {piece.when} THEN {number(weight)} ELSE {number(0)} END")
    return f"({total(terms)})"


def margins_of_trees(model: Model, features: Features) -> list[str]:
    """The sums of what the trees say."""
    coef = model.coef or []
    several = model.many_classes
    n = len(model.classes or ()) if several else 1
    bases = coef[HEAD : HEAD + int(coef[2])] if several and coef else [model.intercept or 0.0] * n
    trees = [node_of(tree, 0, splits_by_level(tree), coef, features) for tree in trees_in(coef)]
    return [f"({total([double(number(bases[k])), *trees[k::n]])})" for k in range(n)]


def node_of(
    tree: Floats, at: int, by_level: NDArray[np.bool_], coef: Sequence[float], features: Features
) -> str:
    """A node and all below it; by_level: whether each node of the tree splits by levels."""
    node = tree[at]
    if node[FEATURE] < 0:
        return number(node[VALUE])
    piece = features.pieces[int(node[FEATURE])]
    if by_level[at]:
        when = goes_left_by_level(features, piece, levels_left(coef, node[VALUE]))
    else:
        when = f"{piece.value} <= {number(node[VALUE])}"
        when += f" OR {piece.value} IS NULL" if node[MISSING] == 1 else ""
    left = node_of(tree, at + 1, by_level, coef, features)
    right = node_of(tree, int(node[RIGHT]), by_level, coef, features)
    return f"CASE WHEN {when} THEN {left} ELSE {right} END"


def goes_left_by_level(features: Features, piece: Piece, left: Sequence[int]) -> str:
    """Whether the level of a category is one of those that go left."""
    one = piece.levels
    if one is None:
        return f"{piece.value} IN ({', '.join(map(number, left)) or 'NULL'})"
    when = is_one_of(one, [place for place in left if place < len(one["levels"])])
    gap = gap_of(one, features.preparation["missing"])
    return f"{when} OR {quote_name(one['name'])} IS NULL" if gap in left else when


# --- answers ---


def inverse_of(margin: str) -> str:
    """1 over a margin; NULL at 0."""
    return f"({number(1)} / NULLIF({margin}, {number(0)}))"


def square_of(margin: str) -> str:
    """A margin times itself."""
    return f"(({margin}) * ({margin}))"


def inverse_root_of(margin: str) -> str:
    """1 over the root of a margin; NULL up to 0."""
    return f"CASE WHEN {margin} > 0 THEN {number(1)} / sqrt({margin}) END"


RESPONSES = {
    "exp": exp_of,
    "logistic": logistic_of,
    "inverse": inverse_of,
    "square": square_of,
    "inverse_root": inverse_root_of,
}
"""SQL of the number that a model makes of its margin."""


def answer_of(model: Model, found: list[str], answer: str, label_class: str | None) -> str:
    """What a model makes of its margins."""
    if model.answers.is_calibrated and answer != "decision":
        found = [sigmoid_margin(model, found[0])]
        model = replace(model, task="logistic", options={})
    how = model.answers
    if label_class is not None and answer != "predict_proba":
        raise DataError(
            f"label_class is given, and answer is {answer!r}, expected 'predict_proba'"
        )
    if not model.classes:
        if answer in ("predict_class", "predict_proba"):
            raise DataError(
                f"the model predicts numbers, expected answer 'predict', got {answer!r}"
            )
        response = RESPONSES.get(how.response)
        return response(found[0]) if response and answer == "predict" else found[0]
    if how.response == "probit" and answer == "predict_proba":
        raise DataError(
            "the model has link 'probit', whose probabilities plain SQL cannot say, expected "
            "answer 'decision', 'predict' or 'predict_class'"
        )
    if answer == "decision":
        if len(found) > 1:
            raise DataError("the model has more than two classes, which have no single decision")
        return found[0]
    if answer == "predict_proba":
        return probability(model, found, label_class)
    names = model.names_of_classes
    texts = answer == "predict_class" or model.has_text_classes
    said = [quote_text(one) for one in names] if texts else [number(one) for one in model.classes]
    if how.response == "cloglog" and len(said) == 2:
        found = [f"({found[0]} - {number(math.log(math.log(2)))})"]
    return highest_class(found, said)


def sigmoid_margin(model: Model, margin: str) -> str:
    """The margin whose logistic function is the probability that Platt's sigmoid gives."""
    if model.options["calibration"] != "platt" or not model.spread:
        raise DataError(
            "the model's probabilities follow from held-out rows, which plain SQL says for option "
            "calibration 'platt' alone: expected answer 'decision', or a model with that option"
        )
    slope, intercept = model.spread
    return f"({number(slope)} * ({margin}) + {number(intercept)})"


def highest_class(found: list[str], said: Sequence[str]) -> str:
    """The class of the highest margin, the first of those that are equal."""
    if len(said) == 1:
        return f"CASE WHEN {found[0]} IS NOT NULL THEN {said[0]} END"
    if len(found) == 1:
        return f"CASE WHEN {found[0]} >= 0 THEN {said[1]} WHEN {found[0]} < 0 THEN {said[0]} END"
    cases = []
    for k, one in enumerate(found[:-1]):
        highest = " AND ".join(f"{one} >= {other}" for other in found[k + 1 :])
        cases.append(f"WHEN {highest} THEN {said[k]}")
    return f"CASE {' '.join(cases)} WHEN {found[-1]} IS NOT NULL THEN {said[-1]} END"


def probability(model: Model, found: list[str], label_class: str | None) -> str:
    """The probability of a class."""
    names = model.names_of_classes
    if not (model.answers.has_probabilities or model.options.get("objective") == "gini"):
        raise DataError(f"the model is '{model.task}', which has no probabilities")
    if label_class is None and len(names) != 2:
        raise DataError(f"the model has {len(names)} classes, expected label_class to name one")
    if label_class is not None and label_class not in names:
        raise DataError(f"label_class is {label_class!r}, expected {one_of(names)}")
    k = 1 if label_class is None else names.index(label_class)
    shares = model.options.get("objective") == "gini"
    if model.answers.response == "cloglog":
        rest = f"exp(-({bounded_exp(found[0], number(0))}))"
        return f"(1 - {rest})" if k else rest
    if len(found) == 1:
        margin = found[0] if k else f"(-{found[0]})"
        return f"({margin} + {number(0.5)})" if shares else logistic_of(margin)
    if shares:
        return f"({found[k]} / ({total(found)}))"
    others = [one for place, one in enumerate(found) if place != k]
    return f"({number(1)} / ({total([number(1), *(bounded_exp(o, found[k]) for o in others)])}))"


def bounded_exp(other: str, own: str) -> str:
    """exp() of the difference of two margins, within what doubles can say."""
    difference = f"({other} - {own})"
    high = f"WHEN {difference} > {number(MOST)} THEN {number(math.exp(MOST))}"
    low = f"WHEN {difference} < {number(LEAST)} THEN {number(0)}"
    return f"CASE {high} {low} ELSE exp({difference}) END"
