"""The options of a learner of the user's own: the parameters of its estimator, by name."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tuskml.errors import OptionError, nearest
from tuskml.groups.selection.candidates import SEARCHES
from tuskml.learners.options.kinds import Kind, Option, choice
from tuskml.learners.options.table import (
    EVERY_LEARNER,
    SHARED,
    Options,
    OptionTable,
    acts_on_missing,
)

PARAMS = "params"
GAPS = ("skip", "impute", "level", "keep")


@dataclass(frozen=True, kw_only=True)
class OwnOptions(Options):
    """own: the parameters of the call, as JSON; every: these and the defaults of the others."""

    own: str
    every: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the call."""
        found: dict[str, Any] = json.loads(self.own)
        return found

    def __getattr__(self, name: str) -> Any:
        every = json.loads(self.__dict__.get("every", "{}"))
        if name not in every:
            raise AttributeError(name)
        return every[name]


def is_plain(value: Any) -> bool:
    """Returns whether JSON can have a value: null, a number, a text, or a list of these."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _one(value: Any) -> Any:
    if isinstance(value, list | dict):
        raise ValueError
    return value


def _to_list(value: Any) -> Any:
    if isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(v, list) for v in value)
    ):
        raise ValueError
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


ONE = Kind("a number, a text, true, false or null", _one)
LISTED = Kind("a number, a text, true, false, null or a list of these", _to_list)
OBJECT = Kind('an object of parameters by name, such as {"alpha": 0.1}', _object)


def parameters_of(estimator: Any) -> dict[str, Any]:
    """The parameters of an estimator that JSON can have, with their values."""
    found = estimator.get_params(deep=True)
    return {name: value for name, value in found.items() if is_plain(value)}


def parameters_in(fit: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a function by keyword alone, with their defaults."""
    found = inspect.signature(fit).parameters.values()
    return {
        one.name: None if one.default is one.empty else one.default
        for one in found
        if one.kind is one.KEYWORD_ONLY and one.name != "sample_weight"
    }


def table_of(
    name: str,
    parameters: Mapping[str, Any],
    shared: tuple[str, ...],
    gaps: bool,
    check: Callable[[OwnOptions], None],
) -> OptionTable[OwnOptions]:
    """The options of a learner: its parameters, `params`, and shared ones.

    gaps: whether features may be NaN. A parameter with the name of a shared option, such as
    `missing`, is given in `params` alone.
    """
    taken = {*EVERY_LEARNER, *shared, *SEARCHES, PARAMS, "validation"}
    direct = {key: value for key, value in parameters.items() if key not in taken}

    def result(**values: Any) -> OwnOptions:
        given = values["given"]
        inner = values.pop(PARAMS)
        for key in inner:
            if key not in parameters:
                raise OptionError(
                    f"option 'params' has '{key[:60]}', expected one of {', '.join(parameters)}"
                    f"{nearest(key, parameters)}"
                )
            if key in given and key in direct:
                raise OptionError(
                    f"'{key}' is an option and in option 'params', expected one of them"
                )
        listed = {key: values.pop(key) for key in direct}
        own = {key: value for key, value in listed.items() if key in given} | inner
        for key in direct:
            if key in SHARED:
                values[key] = SHARED[key].default
        every = json.dumps({**listed, PARAMS: inner})
        return OwnOptions(own=json.dumps(own), every=every, **values)

    options: list[str | Option] = [
        Option(
            key,
            LISTED if isinstance(value, list | tuple) else ONE,
            list(value) if isinstance(value, tuple) else value,
            f"the parameter of '{name}'",
        )
        for key, value in direct.items()
    ]
    options.append(Option(PARAMS, OBJECT, {}, "parameters by name, which may be lists"))
    if gaps:
        meaning = "as with other tasks; `keep` trains on rows with a NULL"
        kept = Option("missing", choice(*GAPS), "skip", meaning, acts_on_missing("skip", "keep"))
        options.append(kept)
    return OptionTable(result, (*options, *shared), check)
