"""Registration of custom operators and algorithms by name, and their use in plans.

One registers a function `make(setting)` that returns an operator: a callable with the signature of
its kind in `operators.py`. It is called once for each batch of groups that train together (and for
each stage of it), so an operator may keep state.
"""

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OperatorError, OptionError, TuskError, nearest, one_of
from tuskml.kernels.open_rows import error_text
from tuskml.kernels.passes import Floats, raise_if_cancelled
from tuskml.learners.linear.algorithms import ALGORITHMS as BUILT_IN_ALGORITHMS
from tuskml.learners.linear.algorithms import BY_SAMPLER, SAMPLED
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Found, Problem
from tuskml.learners.linear.request import CUSTOM, LinearOptions, Plan
from tuskml.learners.options.table import forget_parsed

KINDS = ("transform", "stage", "sample", "compute", "update", "converge", "loop")
OPTION_OF = {"transform": "transform", "sample": "sampler", "converge": "converge"}
BUILT_IN = {
    "transform": ("lazy", "eager"),
    "sample": ("shuffled-partition", "sequential", *DRAWN),
    "converge": ("gradient", "weights", "loss"),
}

DRAWING = (SAMPLED.name, BY_SAMPLER.name)
"""Algorithms that step on samples which are drawn."""


@dataclass(frozen=True)
class Setting:
    """The context in which an operator is made.

    problem: objective and rows of G groups; plan: the settings in force; start: weights (G, p) in
    the coordinates of the problem; deadline: of `time.monotonic()`, or None; replaced: the
    built-in operator that it replaces; random: seeded by the option `seed`.
    """

    problem: Problem
    plan: Plan
    start: Floats
    deadline: float | None
    replaced: Callable[..., Any]
    random: "np.random.Generator"


Make = Callable[[Setting], Callable[..., Any]]


@dataclass(frozen=True)
class OwnAlgorithm:
    """A built-in algorithm with some operators replaced; candidate: for `auto` to choose."""

    name: str
    base: str
    makes: Mapping[str, tuple[str, Make]] = field(default_factory=dict)
    candidate: bool = True


OPERATORS: dict[str, dict[str, Make]] = {kind: {} for kind in KINDS}
ALGORITHMS: dict[str, OwnAlgorithm] = {}


CUSTOM.update({option: OPERATORS[kind] for kind, option in OPTION_OF.items()})
CUSTOM["algorithm"] = ALGORITHMS


def register_operator(kind: str, name: str, make: Make | None = None) -> Any:
    """Registers an operator by a name that options and `register_algorithm` can use.

    kind: "transform", "stage", "sample", "compute", "update", "converge" or "loop". The option
    `sampler` selects a sample; the options `transform` and `converge` select those. make: a
    function of a `Setting` that returns the operator, or a class. Without make this is a
    decorator. Raises OptionError.

    >>> @register_operator("converge", "never")
    ... def make(setting):
    ...     return lambda state, active, found: np.zeros(len(active), bool)
    >>> unregister_operator("converge", "never")
    """
    if kind not in KINDS:
        raise OptionError(
            f"the kind of operator is {kind!r}, expected {one_of(KINDS)}"
            f"{nearest(str(kind), KINDS)}"
        )
    check_new(kind, name, BUILT_IN.get(kind, ()))
    if make is None:
        return lambda given: register_operator(kind, name, given) or given
    check_make(f"{kind} '{name}'", make)
    OPERATORS[kind][name] = make
    forget_parsed()
    return None


def unregister_operator(kind: str, name: str) -> None:
    """Removes a registered operator."""
    if name not in OPERATORS.get(kind, {}):
        raise OptionError(f"no {kind} '{name}' is registered")
    del OPERATORS[kind][name]
    forget_parsed()


def register_algorithm(
    name: str, base: str, *, candidate: bool = True, **operators: str | Make
) -> None:
    """Registers an algorithm: a built-in one with some of its seven operators replaced.

    base: one of tuskml's own; operators: by kind, a registered name or a `make`; a sample needs
    the base that steps by batches, "mgd".
    candidate: whether `algorithm: auto` compares it with tuskml's own, by its time on a sample of
    the rows; an algorithm with a transform is never compared. Raises OptionError.
    """
    check_new("algorithm", name, ("auto", *BUILT_IN_ALGORITHMS))
    if base not in BUILT_IN_ALGORITHMS:
        raise OptionError(
            f"the base of algorithm '{name}' is {base!r}, expected {one_of(BUILT_IN_ALGORITHMS)}"
            f"{nearest(str(base), BUILT_IN_ALGORITHMS)}"
        )
    if "sample" in operators and base != SAMPLED.name:
        raise OptionError(
            f"algorithm '{name}' replaces the sample of '{base}', expected the base "
            f"'{SAMPLED.name}'"
        )
    makes = {}
    for kind, given in operators.items():
        if kind not in KINDS:
            raise OptionError(
                f"algorithm '{name}' replaces {kind!r}, expected {one_of(KINDS)}"
                f"{nearest(kind, KINDS)}"
            )
        makes[kind] = find_maker(kind, name, given)
    ALGORITHMS[name] = OwnAlgorithm(name, base, makes, candidate and "transform" not in makes)
    forget_parsed()


def unregister_algorithm(name: str) -> None:
    """Removes a registered algorithm."""
    if name not in ALGORITHMS:
        raise OptionError(f"no algorithm '{name}' is registered")
    del ALGORITHMS[name]
    forget_parsed()


def find_maker(kind: str, algorithm: str, given: str | Make) -> tuple[str, Make]:
    """Returns the function that makes an operator of an algorithm, with its label for errors."""
    if not isinstance(given, str):
        check_make(f"{kind} of algorithm '{algorithm}'", given)
        return f"{kind} of algorithm '{algorithm}'", given
    if given not in OPERATORS[kind]:
        names = OPERATORS[kind]
        raise OptionError(
            f"{kind} is '{given}', expected a function or "
            + (f"{one_of(names)}{nearest(given, names)}" if names else "a registered name")
        )
    return f"{kind} '{given}'", OPERATORS[kind][given]


def check_make(what: str, make: object) -> None:
    """Raises OptionError unless `make` is callable."""
    if not callable(make):
        raise OptionError(f"{what} is {make!r}, expected a function of a setting or a class")


def base_of(algorithm: str) -> str:
    """The built-in algorithm that this is or is based on."""
    own = ALGORITHMS.get(algorithm)
    return algorithm if own is None else own.base


def operators_of(chosen: LinearOptions) -> dict[str, str]:
    """The custom operators that options name, by option; samplers too."""
    given = {option: getattr(chosen, option) for option in OPTION_OF.values()}
    kinds = {option: kind for kind, option in OPTION_OF.items()}
    found = {option: name for option, name in given.items() if name in OPERATORS[kinds[option]]}
    return found | ({"sampler": chosen.sampler} if chosen.sampler in DRAWN else {})


def steps_in_python(algorithm: str, sampler: str | None, own_task: bool) -> bool:
    """Returns whether an algorithm's steps are calls of Python, each for a batch of rows."""
    own = ALGORITHMS.get(algorithm)
    sampled = sampler in OPERATORS["sample"] or (own is not None and "sample" in own.makes)
    return base_of(algorithm) == SAMPLED.name and (own_task or sampled)


def refuse_sampler(chosen: LinearOptions) -> None:
    """Raises OptionError for a custom sampler with an algorithm that cannot use it."""
    base = base_of(chosen.algorithm)
    if chosen.sampler in DRAWN and base not in ("auto", *DRAWING):
        raise OptionError(
            f"sampler '{chosen.sampler}' is not available with algorithm '{chosen.algorithm}', "
            f"expected {one_of((*DRAWING, 'auto'))}"
        )
    if chosen.sampler in OPERATORS["sample"] and base not in ("auto", SAMPLED.name):
        raise OptionError(
            f"sampler '{chosen.sampler}' is not available with algorithm '{chosen.algorithm}', "
            f"expected '{SAMPLED.name}' or 'auto'"
        )


def custom_operators(plan: Plan) -> dict[str, tuple[str, Make]]:
    """The custom operators of a plan, by kind, with their labels for errors."""
    own = ALGORITHMS.get(plan.algorithm)
    found = {} if own is None else dict(own.makes)
    by_option = {"transform": plan.transform, "sample": plan.sampler, "converge": plan.converge}
    for kind, name in by_option.items():
        make = OPERATORS[kind].get(name or "")
        if make is not None:
            found[kind] = (f"{kind} '{name}'", make)
    return found


def make_operator(what: tuple[str, Make], setting: Setting, kind: str) -> Callable[..., Any]:
    """Makes the operator and wraps it with checks."""
    label, make = what
    try:
        operator = make(setting)
    except (TuskError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        raise OperatorError(f"{label} {error_text(error)}") from error
    if not callable(operator):
        raise OperatorError(f"{label} made {operator!r}, expected an operator that can be called")
    return OperatorGuard(kind, label, operator, setting.problem.rows.cancel_mark)


@dataclass(frozen=True)
class OperatorGuard:
    """A custom operator whose faults become one sentence, and which can be cancelled."""

    kind: str
    label: str
    operator: Callable[..., Any]
    mark: int

    def __call__(self, *given: Any) -> Any:
        raise_if_cancelled(self.mark)
        try:
            found = self.operator(*given)
        except (TuskError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            raise OperatorError(f"{self.label} {error_text(error)}") from error
        return CHECKS[self.kind](self.label, found, *given)


def refuse(label: str, found: object, expected: str) -> OperatorError:
    """The error for a wrong return value of an operator."""
    shown = f"an array of shape {found.shape}" if isinstance(found, np.ndarray) else repr(found)
    return OperatorError(f"{label} returned {shown[:100]}, expected {expected}")


def a_transform(label: str, found: Any, problem: Problem) -> Problem:
    """A problem of the same groups and features, in coordinates that exist."""
    if not isinstance(found, Problem) or (found.n_groups, found.d) != (
        problem.n_groups,
        problem.d,
    ):
        raise refuse(label, found, "a Problem of the same groups and features")
    for name in ("shift", "scale"):
        values = getattr(found, name)
        if values.shape != problem.shift.shape or not np.isfinite(values).all():
            raise refuse(label, values, f"a finite {name} of shape {problem.shift.shape}")
    if (found.scale < 0).any() or (found.rows.sparse and found.shift.any()):
        raise OperatorError(
            f"{label} returned a scale below 0, or a shift of sparse features, expected neither"
        )
    return found


def a_state(label: str, found: Any, problem: Problem) -> State:
    """A state of the problem's groups, at weights that are numbers."""
    shape = (problem.n_groups, problem.d + 1)
    if not isinstance(found, State) or found.v.shape != shape or not np.isfinite(found.v).all():
        raise refuse(label, found, f"a State whose v is finite and of shape {shape}")
    return found


def a_sample(label: str, found: Any, problem: Problem, state: State) -> Problem:
    """A problem of the groups that move."""
    if not isinstance(found, Problem) or found.n_groups != len(state.active):
        raise refuse(label, found, "what problem.take(rows, weights) returns")
    return found


def a_finding(label: str, found: Any, part: Problem, state: State) -> Found | None:
    """Checks the result of a custom Compute: a `Found` of the groups that move, or None."""
    if found is not None and (
        not isinstance(found, Found) or found.gradient.shape != (part.n_groups, part.d + 1)
    ):
        raise refuse(label, found, "a Found of the groups that move, or None")
    return found


def an_update(label: str, found: Any, part: Problem, state: State, _: Found | None) -> None:
    """Weights that are numbers."""
    if not np.isfinite(state.v).all():
        raise OperatorError(f"{label} left weights that are not finite: is its step too large?")


def a_verdict(
    label: str, found: Any, state: State, active: NDArray[np.intp], _: Found | None
) -> NDArray[np.bool_]:
    """True or false for each group that moves."""
    verdict = np.asarray(found)
    if verdict.shape != (len(active),) or verdict.dtype != bool:
        raise refuse(label, found, f"an array of {len(active)} booleans, one per group that moves")
    return verdict


def a_decision(label: str, found: Any, state: State) -> bool:
    """True or false."""
    if not isinstance(found, bool | np.bool_):
        raise refuse(label, found, "True or False")
    return bool(found)


CHECKS: dict[str, Callable[..., Any]] = {
    "transform": a_transform,
    "stage": a_state,
    "sample": a_sample,
    "compute": a_finding,
    "update": an_update,
    "converge": a_verdict,
    "loop": a_decision,
}


# Names that a user gives to tasks, operators and algorithms.

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")


def check_new(what: str, name: object, taken: Container[str]) -> None:
    """Raises OptionError unless the name is valid in SQL and new."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise OptionError(
            f"the name of a {what} is {name!r}, expected a letter and at most 62 more letters, "
            "digits and _ . -"
        )
    if name in taken:
        raise OptionError(f"{what} '{name}' is a name of tuskml's own, expected another one")
