"""Where options act: the one loop that refuses those that would change nothing.

Each `Option` says where it acts. A call that gives it elsewhere would be trained as if it had not
been given, so it is refused, at its default too: whoever names an option asks for something.
Values of other options and the task are known when options are read. What features and labels are
is known when their rows have come.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuskml.errors import OptionError, one_of
from tuskml.learners.options.kinds import (
    CATEGORY,
    DATE,
    LIST,
    PAIRS,
    PARTS,
    POOLED,
    ROW,
    SPARSE,
    STORED,
    WORDS,
    Acts,
    Beside,
    Option,
)

EXAMPLE = "expected features such as {'a': a, 'b': b}"
NOUNS = {
    LIST: "features that are lists",
    SPARSE: "sparse features",
    ROW: "rows with names",
    WORDS: "words",
    PAIRS: "pairs",
    CATEGORY: "categories",
    DATE: "dates and timestamps",
}
"""By kind, what an option is for."""
SEEN = {
    ROW: "these rows have names",
    LIST: "these features are lists",
    SPARSE: "these features are sparse",
    WORDS: "these features are words",
    PAIRS: "these features are [user, item]",
}
"""By kind, what the features of a training are."""
OF_ROWS = {
    CATEGORY: "a column of text or booleans, or one of numbers in option 'categories'",
    DATE: "a column of dates or timestamps",
}
"""By what rows with names may have, how they come to have it."""


class IdleOption(OptionError):
    """An option that would change nothing. option: its name."""

    def __init__(self, sentence: str, option: str) -> None:
        super().__init__(sentence)
        self.option = option

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.option)


@dataclass(frozen=True)
class AboutTraining:
    """What is known of a training, None where that is not known yet.

    features: the kinds of its features, and of the columns of its rows; classes: whether labels
    are classes; remedy: what to do where they should be.
    """

    task: str = ""
    features: Callable[[], Collection[str]] | None = None
    classes: bool | None = None
    remedy: str = ""


def refuse_idle(table: Mapping[str, Option], options: Any, training: AboutTraining) -> None:
    """IdleOption for the first option of a table that is given and changes nothing."""
    for name, option in table.items():
        if name in options.given:
            why = idle(option, options, training)
            if why is not None:
                raise IdleOption(why, name)


def idle(option: Option, options: Any, training: AboutTraining) -> str | None:
    """Why an option changes nothing, in a sentence; None where it does."""
    value = getattr(options, option.name, None)
    cases = [one for one in option.acts if not one.values or value in one.values] or option.acts
    found = [list(against(one, option, options, training)) for one in cases]
    if not all(found):
        return None
    given = [sum(beside.option in options.given for beside in one.beside) for one in cases]
    return min(zip(map(len, found), (-n for n in given), found, strict=True))[2][0]


def acts_where(option: Option, value: Any, where: str) -> bool:
    """Whether an option with a value changes something where rows are (`Acts.where`)."""
    cases = [one for one in option.acts if not one.values or value in one.values]
    return any(where in one.where for one in cases)


def idle_where(table: Mapping[str, Option], options: Any, where: str) -> str | None:
    """The name of the first option that is given and changes nothing where rows are, if any."""
    given = (name for name in table if name in options.given)
    values = ((name, getattr(options, name)) for name in given)
    return next((name for name, v in values if not acts_where(table[name], v, where)), None)


def needs_one_place(table: Mapping[str, Option], options: Any) -> str | None:
    """Why a group's rows cannot lie in parts: an option would then change nothing."""
    for name, option in table.items():
        value = getattr(options, name)
        if value != option.default and not acts_where(option, value, PARTS):
            return f"option '{name}' needs all rows in one place"
    return None


def refuse_pooled(table: Mapping[str, Option], options: Any) -> None:
    """OptionError for options that change nothing where groups learn from each other."""
    for name in sorted(options.given):
        if not acts_where(table[name], getattr(options, name), POOLED):
            there = sorted(key for key, one in table.items() if POOLED in one.acts[0].where)
            raise OptionError(
                f"option '{name}' is not available with 'pooled', expected {', '.join(there)}"
            )


def against(one: Acts, option: Option, options: Any, training: AboutTraining) -> Iterator[str]:
    """What of a case does not hold, each as a sentence: the features first, which change least."""
    value = getattr(options, option.name, None)
    if training.features is not None and not one.features & set(training.features()):
        yield of_other_features(one, option, training.features(), value)
    if training.task in one.but:
        yield f"option '{option.name}' is not available with task '{training.task}'"
    if one.tasks and training.task and training.task not in one.tasks:
        expected = one_of(one.tasks) if one.tasks[1:] else f"task '{one.tasks[0]}'"
        yield (
            f"option '{option.name}' is not available with task '{training.task}', expected "
            f"{expected}"
        )
    for beside in one.beside:
        given = getattr(options, beside.option)
        if not beside.holds(given):
            yield lacking(option, beside, given)
    if STORED not in one.where and getattr(options, "store", None) is not None:
        yield (
            f"option '{option.name}' is not available with option 'store', whose models keep no "
            "standard errors: leave one of them out"
        )
    if one.classes and training.classes is False:
        yield (
            f"option '{option.name}' is not available with task '{training.task}', which has no "
            f"classes{training.remedy}"
        )
    if one.values and value not in one.values:
        yield f"option '{option.name}' is {shown(value)}, expected {alternatives(one.values)}"


def lacking(option: Option, beside: Beside, given: Any) -> str:
    """The sentence about an option that lacks what it needs beside it."""
    name, other = f"option '{option.name}'", f"option '{beside.option}'"
    if beside.values == (None,):
        return f"{name} is not available with {other}: leave one of them out"
    if beside.values:
        is_now = "is not given" if given is None else f"is {shown(given)}"
        values = alternatives(beside.values)
        return f"{name} is for {other}: {values}, which {is_now}: expected both, or neither"
    if beside.but:
        but = alternatives(tuple(value for value in beside.but if value is not None))
        here = f"{name} changes nothing where {other} is {shown(given)}"
        return f"{here}, expected another than {but}"
    return f"{name} needs {other} beside it: expected both, or neither"


def of_other_features(one: Acts, option: Option, seen: Collection[str], value: Any) -> str:
    """The sentence about an option that is for other features."""
    name = f"option '{option.name}'"
    others = [value for case in option.acts if set(seen) & case.features for value in case.values]
    also = f", or {alternatives(tuple(others))}" if others else ""
    if others:
        name = f"{name} is {shown(value)}, which"
    kinds = [kind for kind in NOUNS if kind in one.features]
    if ROW in seen and (lacks := next((kind for kind in OF_ROWS if kind in kinds), None)):
        wanted = f"expected {OF_ROWS[lacks]}{also}"
        return f"{name} is for {NOUNS[lacks]}, and these rows have none: {wanted}"
    here = next(told for kind, told in SEEN.items() if kind in seen)
    by_name = {ROW, CATEGORY, DATE} & set(kinds)
    what = joined([NOUNS[kind] for kind in kinds])
    if by_name and ROW not in kinds:
        what = f"{what} of rows with names"
    instead = f": {EXAMPLE}{also}" if by_name else f", {one.instead}" if one.instead else ""
    return f"{name} is for {what}, and {here}{instead}"


def alternatives(values: tuple[Any, ...]) -> str:
    """Values as options write them, the last behind `or`."""
    return joined([shown(value) for value in values])


def joined(texts: Sequence[str]) -> str:
    """Texts in a row, the last behind `or`."""
    return " or ".join([", ".join(texts[:-1]), texts[-1]] if texts[1:] else texts)


def shown(value: Any) -> str:
    """A value as options write it, with texts in single quotes."""
    return f"'{value}'" if isinstance(value, str) else json.dumps(value, default=str)
