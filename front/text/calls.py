"""Sentences for calls of tuskml's functions with a missing or a misnamed argument."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tuskml.errors import OptionError, nearest
from tuskml.learners.options.other_names import CONDITIONS, SETTINGS, argument_meant

Function = TypeVar("Function", bound=Callable[..., Any])


def with_clear_errors(function: Function) -> Function:
    """Wraps the function so that a wrong call gets a sentence instead of Python's TypeError."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*values: Any, **given: Any) -> Any:
        refuse_wrong(function.__name__, parameters, values, given)
        return function(*values, **given)

    return call  # type: ignore[return-value]


def refuse_wrong(
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    values: tuple[Any, ...],
    given: Mapping[str, Any],
) -> None:
    """Raises OptionError for an argument too many, of another name, or missing."""
    by_place = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    needed = [
        p.name for p in parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    usage = ", ".join([*by_place, *(f"{n}=..." for n in needed if n not in by_place)])
    usage = f"{name}({usage})"
    if len(values) > len(by_place):
        raise OptionError(
            f"{name} takes {join_names(by_place)} by place, all else by name: {usage}"
        )
    takes_options = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    names = [p.name for p in parameters.values() if p.kind is not p.VAR_KEYWORD]
    from tuskml.learners.registry import all_options  # takes a while to import

    for argument in given:
        if argument not in names and not (takes_options and argument in all_options()):
            refuse_unknown(name, argument, names, takes_options)
    twice = [argument for argument in by_place[: len(values)] if argument in given]
    if twice:
        raise OptionError(f"{name} got {join_names(twice)} twice, by place and by name: {usage}")
    there = {*by_place[: len(values)], *given}
    missing = [argument for argument in needed if argument not in there]
    if missing:
        raise OptionError(f"{name} lacks {join_names(missing)}: {usage}")


def refuse_unknown(name: str, argument: str, names: list[str], takes_options: bool) -> None:
    """Raises for an unknown argument; unknown options are left to the options' own check."""
    wrong = f"{name} has no argument '{argument}'"
    meant = argument_meant(argument)
    if meant in names:
        raise OptionError(f"{wrong}; did you mean {meant}?")
    if argument.lower() in CONDITIONS:
        raise OptionError(f"{wrong}: source may be a query, 'SELECT ... WHERE ...'")
    if takes_options and argument.lower() in SETTINGS:
        raise OptionError(f"{wrong}: options are arguments of their own, such as l2=0.1")
    if not takes_options:
        hint = nearest(argument, names) or f", expected {join_names(names, 'or')}"
        raise OptionError(f"{wrong}{hint}")


def join_names(names: list[str], word: str = "and") -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
