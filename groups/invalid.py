"""Groups whose rows no model can be trained on: option `invalid`.

The packers leave out single rows that no kernel can use, or call their group invalid. Here is the
same for labels that only the task knows to be impossible, and for what a learner refuses of one
group. The other groups are trained as if that one were not there.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels import passes
from tuskml.kernels.passes import SQUARED, Floats, Pass
from tuskml.kernels.rows.choose import chosen_rows
from tuskml.kernels.segments import chunks, labels_of
from tuskml.learners.labels import Allowed
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, Strings, options_text
from tuskml.learners.registry import learner_of
from tuskml.learners.remarks import FEATURES, LABEL, ROUNDED, ROUNDED_LABELS, Remarks
from tuskml.learners.statuses import INVALID
from tuskml.schedule import budget

Groups = NDArray[np.void]


def invalid_models(groups: Groups, request: Request[Any, Any], why: Sequence[str]) -> Models:
    """Models of groups that cannot be trained, which predict NULL; why: a sentence for each."""
    n, task = len(groups), request.task
    response = getattr(task, "response", None) if getattr(task, "own", None) else None
    own = {} if response is None else {"response": response}
    text = options_text(request.options, ("invalid",), invalid_rows=True, **own)
    return Models.built(
        groups,
        task.name,
        n_rows=np.zeros(n, np.int64),
        n_skipped=groups["n_rows"] + groups["n_skipped"],
        intercept=np.full(n, math.nan),
        loss=np.full(n, math.nan),
        status=INVALID,
        plan=Strings(tuple(why), np.arange(n, dtype=np.int32)),
        options=text,
    )


def refusal_of_rounded(remarks: Remarks, request: Request[Any, Any]) -> str | None:
    """A sentence about numbers that are names and were rounded; None where there are none."""
    if not remarks.rounded:
        return None
    learner, options, held = learner_of(request.task), request.options, request.held_out
    named = dict.fromkeys(options.categories or (), "categories")
    if options.cluster is not None:
        named[options.cluster] = "cluster"
    if held is not None and held.column is not None:
        named[held.column] = "time_by" if held.in_time else "fold_by"
    for place in sorted(remarks.rounded):
        name = place.name
        if place.column == LABEL and learner.classifies(request):
            return ROUNDED_LABELS
        if place.column == FEATURES and learner.names_numbers(request):
            return f"features that are names have numbers {ROUNDED}"
        if name is not None and name in named:
            option = named[name]
            how = "round it" if option == "time_by" else "round it or cast it to text"
            return (
                f"option '{option}' names column '{name[:200]}', which has values {ROUNDED}: "
                + how
            )
    return None


def rounded_in(
    remarks: Mapping[int, Remarks], requests: Sequence[Request[Any, Any]]
) -> dict[int, str]:
    """Such a sentence by group. RowsError where option `invalid` has errors."""
    found: dict[int, str] = {}
    for group, one in remarks.items():
        for request in requests:
            why = refusal_of_rounded(one, request)
            if why is not None and request.options.invalid == "error":
                raise RowsError(why)
            if why is not None:
                found[group] = why
    return found


def trained_apart(
    groups: Groups,
    request: Request[Any, Any],
    train: Callable[[Groups], Iterator[Models]],
) -> Iterator[Models]:
    """What `train` makes of the groups, and invalid models where it refuses the rows of one.

    Where it does not say of which, the groups are halved until that one is alone. Models carry
    their groups' places in `groups`.
    """
    waiting = [np.arange(len(groups))]
    while waiting:
        places = waiting.pop()
        left = np.ones(len(places), bool)
        try:
            for models in train(groups[places]):
                left[models.group] = False
                yield models.numbered(places[models.group])
        except RowsError as error:
            if request.options.invalid == "error":
                raise
            found = error.found or ({0: str(error)} if len(places) == 1 else {})
            if found:
                bad = np.array(list(found))
                left[bad] = False
                models = invalid_models(groups[places[bad]], request, list(found.values()))
                yield models.numbered(places[bad])
            parts = 1 if found else 2
            waiting += [part for part in np.array_split(places[left], parts) if len(part)]


@contextmanager
def usable(groups: Groups, request: Request[Any, Any], memory: int) -> Iterator[Groups]:
    """The groups (kernels.GROUP), without the rows that the task cannot use where option `invalid`
    skips these; otherwise RowsError for labels that it does not have.

    memory: address of the account that copies are charged to.
    """
    with ExitStack() as stack:
        yield usable_by_all(stack, [(groups, [request])], memory)[0]


Form = tuple[Groups, Sequence[Request[Any, Any]]]
"""Groups as some trainings read them, and what these are asked for."""


def usable_by_all(stack: ExitStack, forms: Sequence[Form], memory: int) -> list[Groups]:
    """The same of several forms of the same groups, with the rows that all trainings can use.

    Copies live until the stack is closed.
    """
    requests = [request for _, some in forms for request in some]
    if any(groups["wide"].any() for groups, _ in forms):  # they are looked at once ids are narrow
        return [groups for groups, _ in forms]
    if requests[0].options.invalid == "skip":
        return without_others(stack, forms, memory)
    rules = {learner_of(one.task).allowed(one): None for one in requests}
    for allowed in rules:
        if allowed is not None and len(forms[0][0]):
            refuse_labels(forms[0][0], allowed)
    return [groups for groups, _ in forms]


def refuse_labels(groups: Groups, allowed: Allowed) -> None:
    """RowsError for labels that are not allowed."""
    mark, threads = passes.cancel_mark(), budget.threads()
    labels = Pass(groups, SQUARED, None, None, True, threads, cancel_mark=mark).labels()
    bad = ~(allowed.holds(labels["low"]) & allowed.holds(labels["high"]))
    if allowed.values is not None:  # others may lie between
        bad |= np.array([not allowed.holds(labels_in(group)).all() for group in groups])
    found = {int(place): refusal(groups[place], allowed) for place in np.flatnonzero(bad)}
    if found:
        raise RowsError(next(iter(found.values())), found)


def labels_in(group: np.void) -> Floats:
    """The labels of a group, (n,)."""
    return np.concatenate([labels for labels, _ in labels_of(group)])


def refusal(group: np.void, allowed: Allowed) -> str:
    """A sentence about the first label that is not allowed."""
    labels = labels_in(group)
    at = int(np.flatnonzero(~allowed.holds(labels))[0])
    return allowed.refusal(float(labels[at]), f" in row {at + 1} of the group")


def without_others(stack: ExitStack, forms: Sequence[Form], memory: int) -> list[Groups]:
    """The groups without rows that a task cannot use, which their `n_skipped` counts."""
    n_groups = len(forms[0][0])
    masks = [
        np.logical_and.reduce(
            [mask_of(groups[k], request) for groups, some in forms for request in some]
        )
        for k in range(n_groups)
    ]
    empty = [k for k, mask in enumerate(masks) if not mask.any()]
    if empty:
        text = "no row of the group can be trained on"
        raise RowsError(text, dict.fromkeys(empty, text))
    places = np.array([k for k, mask in enumerate(masks) if not mask.all()], np.intp)
    kept = [masks[k] for k in places]
    out = []
    for groups, _ in forms:
        found = groups
        if len(places):
            found = groups.copy()
            copies = stack.enter_context(chosen_rows(groups[places], kept, memory))
            copies["n_skipped"] += groups["n_rows"][places] - copies["n_rows"]
            found[places] = copies
        out.append(found)
    return out


def mask_of(group: np.void, request: Request[Any, Any]) -> NDArray[np.bool_]:
    """Returns whether a training can use each row of a group, (n,)."""
    learner = learner_of(request.task)
    return np.concatenate([learner.usable(request, x, y) for _, x, y in chunks(group)])
