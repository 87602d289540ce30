"""Rows in the form that learners read: names and labels of any type become numbers, and rows that
no model can be trained on are left out.

Each group is prepared from its own rows alone: a category's levels, the values that fill gaps, and
the order of the classes. The models carry the parts that predictions need.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, RowsError, nearest
from tuskml.groups.execution.choosing import is_place
from tuskml.groups.terms import widths_of, with_terms
from tuskml.kernels import passes
from tuskml.kernels.passes import Floats, Pass, copy_rows
from tuskml.kernels.rows import prepare, words
from tuskml.kernels.rows.prepare import KnownLevels, Texts
from tuskml.kernels.rows.renumber import Preparing
from tuskml.kernels.segments import chunks, labels_of, rows_given
from tuskml.kernels.structures import COUNTS
from tuskml.learners.classes import LabelRange, with_sides
from tuskml.learners.held_out import HeldOut, count_held_out
from tuskml.learners.learner import Request
from tuskml.learners.models import (
    INVALID,
    UNLIKE,
    Lists,
    Models,
    Names,
    Strings,
    options_text,
    with_members,
    with_status,
)
from tuskml.learners.options.by_name import DEALING
from tuskml.learners.options.kinds import (
    CATEGORY,
    DATE,
    DATES,
    LIST,
    MISSING,
    PAIRS,
    ROW,
    SPARSE,
    UNSEEN,
    WORDS,
    ByClass,
    ClassNames,
    weights_by_name,
)
from tuskml.learners.options.other_names import ON_WORKERS
from tuskml.learners.options.table import AboutTraining, Options, idle, refuse_idle
from tuskml.learners.registry import how_to_classify, learner_of
from tuskml.learners.remarks import (
    FEATURES,
    LABEL,
    ROUNDED,
    ROUNDED_LABELS,
    Remarks,
    note_of_levels,
)
from tuskml.learners.tasks import of_pairs
from tuskml.schedule import budget

Groups = NDArray[np.void]
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
"""A text that is a number."""
OF_ROWS = (
    "label is '",
    " distinct values in a group",
    ", since larger whole numbers are rounded",
    ", which the rows of a group do not have",
    "' in the rows of a group, which option 'levels' does not have",
)
"""Phrases of errors about a group's rows; others are about options."""
COLUMN_NAMED = re.compile(r"option '\w+' names '(.*)', expected [^:]*: (.*)")
"""The kernels' sentence about an option that names no column, with those that there are."""
MARKS_OF = {
    CATEGORY: tuple(f'"kind":"{kind}"' for kind in ("category", "levels", "product")),
    DATE: ('"part":"',),
}
"""Keys in the description of rows with names, by the kind of columns that they are for."""


@dataclass(frozen=True)
class Readable:
    """Groups (passes.GROUP) that learners can read, and their requests; prepared: for copies;
    features: their kinds (`options/kinds.py`).
    """

    groups: Groups
    request: Request[Any, Any]
    prepared: Texts | None = None
    features: tuple[str, ...] = ()

    def refuse_options(self, request: Request[Any, Any]) -> None:
        """Raises OptionError for options of a request that change nothing with such rows."""
        refuse_options(request, *self.features)

    def describe(self, models: Models) -> Models:
        """The models with the names of their features and classes, their preparation, and tests
        of their terms.
        """
        if self.prepared is None:
            return with_terms(models) if len(models.covariance.values) else models
        places = models.group.tolist()
        found: dict[str, Any] = {}
        if self.prepared.text(prepare.JSON, places[0]):
            found["features"] = self._names(prepare.NAMES, places)
            found["preparation"] = share_strings(
                [self.prepared.text(prepare.JSON, g) for g in places]
            )
        if self.prepared.text(prepare.CLASSES, places[0]):
            names = self._names(prepare.CLASSES, places)
            found["class_names"] = names_of_classes(models.classes, names)
            found["classes"] = by_their_names(models.classes, names)
        models = replace(models, **found)
        if "class_names" in found and self.request.options.classes is None:
            models = with_sides(models)
        return with_terms(self._with_unlike(models, places))

    def _with_unlike(self, models: Models, places: list[int]) -> Models:
        """The models, whose statuses and notes say which categories hardly repeat."""
        assert self.prepared is not None
        texts = [self.prepared.texts(prepare.UNLIKE, place) for place in places]
        if not any(texts):
            return models
        notes = [note_of_levels(one) if one else None for one in texts]
        models = with_status(models, UNLIKE, np.array([one is not None for one in notes]))
        return replace(models, note=share_strings(notes))

    def _names(self, which: int, places: list[int]) -> Names:
        assert self.prepared is not None
        pool: dict[tuple[str, ...], int] = {}
        texts = (self.prepared.texts(which, place) for place in places)
        code = [pool.setdefault(names, len(pool)) for names in texts]
        return Names(tuple(pool), np.array(code, np.int32))


def names_of_classes(classes: Lists, names: Names) -> Names:
    """The names of the classes of models, without those that none of a model's rows has."""
    pool: dict[tuple[str, ...], int] = {}
    code = []
    for k, own in enumerate(names.code.tolist()):
        places = classes.values[classes.offsets[k] : classes.offsets[k + 1]]
        all_names = names.pool[own]
        few = len(places) < len(all_names)
        chosen = tuple(all_names[int(one)] for one in places) if few else all_names
        code.append(pool.setdefault(chosen, len(pool)))
    return Names(tuple(pool), np.array(code, np.int32))


def by_their_names(classes: Lists, names: Names) -> Lists:
    """The classes of models whose labels are text: numbers if all names of a model are
    numbers, and otherwise their indices.
    """
    known = [numbers_in(one) for one in names.pool]
    values = classes.values.copy()
    for k, code in enumerate(names.code.tolist()):
        numbers = known[code]
        if numbers is not None:
            begin, end = classes.offsets[k : k + 2]
            values[begin:end] = numbers[values[begin:end].astype(np.intp)]
    return Lists(values, classes.offsets)


def numbers_in(names: Sequence[str]) -> NDArray[np.float64] | None:
    """The numbers that classes are called by, None unless each is one."""
    if not all(NUMBER.fullmatch(name) for name in names):
        return None
    numbers = np.array([float(name) for name in names])
    return numbers if np.isfinite(numbers).all() and len(set(numbers)) == len(names) else None


def share_strings(texts: Sequence[str | None]) -> Strings:
    """Strings that share equal texts."""
    pool: dict[str, int] = {}
    code = [-1 if text is None else pool.setdefault(text, len(pool)) for text in texts]
    return Strings(tuple(pool), np.array(code, np.int32))


@contextmanager
def rows_at_fault() -> Iterator[None]:
    """Raises RowsError in place of DataError where a group's rows are at fault, not options."""
    try:
        yield
    except DataError as error:
        if any(mark in str(error) for mark in OF_ROWS):
            raise RowsError(str(error)) from error
        raise


@contextmanager
def readable(groups: Groups, request: Request[Any, Any], memory: int) -> Iterator[Readable]:
    """The groups as they are, or where rows have names or labels are text, as copies.

    memory: address of the account that copies are charged to. Raises DataError.
    """
    listed = SPARSE if (groups["kind"] >= 2).any() else LIST
    if not groups["parts"].any():
        refuse_names(request.options)
        refuse_options(request, listed)
        yield Readable(groups, with_names(request), features=(listed,))
        return
    if words.has_words(groups):
        refuse_options(request, WORDS)
        with words.number_words(groups, memory, passes.cancel_mark()) as found:
            asked = with_names(replace(request, words=found.texts))
            yield Readable(without_parts(groups), asked, features=(WORDS,))
        return
    with ExitStack() as stack:
        try:
            with rows_at_fault():
                prepared = stack.enter_context(prepare.prepare(groups, preparing(request), memory))
        except DataError as error:
            if is_place(request.options.cluster) and "option 'cluster' names" in str(error):
                raise DataError(f"{error}; {ON_WORKERS}") from error
            known = COLUMN_NAMED.fullmatch(str(error))
            if known is None or not (meant := nearest(known[1], known[2].split(", "))):
                raise
            raise DataError(f"{error}{meant}") from error
        there = SPARSE if (prepared.groups["kind"] >= 2).any() else LIST
        features = kinds_of(prepared, there)
        asked = with_preparation(request, prepared, features)
        yield Readable(prepared.groups, asked, prepared, features)


def with_preparation(
    request: Request[Any, Any], prepared: Texts, features: Sequence[str]
) -> Request[Any, Any]:
    """The request with the preparation of its rows. Raises DataError and OptionError for options
    that do not fit it.

    features: their kinds.
    """
    if prepared.texts(prepare.CLASSES, 0):
        refuse_text(prepared, request)
        request = from_places(of_text(request), prepared.texts(prepare.CLASSES, 0))
    else:
        refuse_names(request.options)
    refuse_options(request, *features)
    if prepared.text(prepare.JSON, 0):
        names = partial(prepared.texts, prepare.NAMES)
        request = replace(request, feature_names=names, categories=prepared.categories)
        request = replace(request, terms=lambda k: widths_of(prepared.text(prepare.JSON, k)))
        request = replace(request, preparation=partial(prepared.text, prepare.JSON))
    else:
        request = with_names(request)
    return replace(request, by_level=prepared.levels())


def without_parts(groups: Groups) -> Groups:
    """Returns the groups and their indices in the form for learners: their rows are sparse
    like others by now.
    """
    found = groups.copy()
    found["parts"] = 0
    found["place"] = np.arange(len(found))
    return found


def with_names(request: Request[Any, Any]) -> Request[Any, Any]:
    """The request of lists, whose features have the names that an option gives."""
    names = request.options.feature_names
    return request if names is None else replace(request, feature_names=lambda _: tuple(names))


def preparing(request: Request[Any, Any]) -> Preparing:
    """The settings of the kernel."""
    options: Options = request.options
    names = classes_named(options)
    columns, texts = options.categories or (), options.text or ()
    absorbed = options.absorb or ()
    cluster = None if options.cluster in absorbed else options.cluster
    known = prepare.level_structures(levels_known(request))
    told = learner_of(request.task).encoding.references(options)
    references = [text for pair in told.items() for text in pair]
    products = [name for names in options.interactions or () for name in (*names, "")]
    mark = None if request.held_out is None else request.held_out.mark
    return Preparing(
        MISSING.index(options.missing),
        learner_of(request.task).encoding.levels(options),
        UNSEEN.index(options.unseen),
        options.threads or budget.threads(),
        options.max_categories or 0,
        options.min_count,
        passes.cancel_mark(),
        kernel_names(names),
        len(names),
        DATES.index(options.dates),
        options.text_bits,
        kernel_names(columns),
        len(columns),
        kernel_names(texts),
        len(texts),
        kernel_names(products),
        len(products),
        kernel_names(absorbed),
        len(absorbed),
        None if cluster is None else cluster.encode(),
        int(learner_of(request.task).encoding.stays_dense(options)),
        learner_of(request.task).encoding.numbers_levels(options),
        None if mark is None else mark[0].encode(),
        0 if mark is None else mark[1],
        int(mark is None and (request.held_out is not None or holds_out(request))),
        None,  # no census
        len(known or ()),
        known,
        kernel_names(references),
        len(references),
        int(learner_of(request.task).encoding.orders_labels),
    )


def levels_known(request: Request[Any, Any]) -> list[KnownLevels]:
    """The levels that options fix, behind those of a model that the training goes on from."""
    options = request.options
    learner = learner_of(request.task)
    known = {one.column: one for one in learner.encoding.levels_to_keep(options)}
    for name, levels in (options.levels or {}).items():
        old = known.get(name, KnownLevels(name, ()))
        both = tuple(dict.fromkeys((*old.levels, *levels)))
        known[name] = replace(old, levels=both, closed=True)
    return list(known.values())


def holds_out(request: Request[Any, Any]) -> bool:
    """Returns whether a training holds out rows by itself."""
    return learner_of(request.task).trials.holds_out(request.options)


def kernel_names(names: Sequence[str]) -> bytes | None:
    """Names for the kernel, each with a 0 behind it; None for none."""
    return "".join(f"{name}\0" for name in names).encode() if names else None


def classes_named(options: Options) -> tuple[str, ...]:
    """The classes that options name as text, the positive one last; none: those that occur."""
    if isinstance(options.classes, ClassNames):
        return options.classes.names
    weights = options.class_weight
    return tuple(sorted(weights.by_name)) if isinstance(weights, ByClass) else ()


def refuse_text(prepared: Texts, request: Request[Any, Any]) -> None:
    """Raises DataError for labels that are text where the task or an option needs numbers."""
    first, options = prepared.texts(prepare.CLASSES, 0), request.options
    if not learner_of(request.task).classifies(request):
        raise DataError(
            f"label is text such as '{first[0][:60]}', task '{request.task.name}' needs numbers"
            + how_to_classify(request.task)
        )
    if options.classes is not None and not isinstance(options.classes, ClassNames):
        raise DataError(
            f"option 'classes' is {list(options.classes)}, expected a list of two texts, since "
            f"labels are text such as '{first[0][:60]}'"
        )


def refuse_names(options: Options) -> None:
    """Raises DataError for classes that are text where labels are numbers."""
    if isinstance(options.classes, ClassNames):
        given = json.dumps(options.classes.names, ensure_ascii=False)
        raise DataError(
            f"option 'classes' is {given}, expected a list of two labels that are numbers, the "
            "lower first, as the labels are"
        )
    if isinstance(options.class_weight, ByClass) and options.class_weight.are_text:
        given = json.dumps(options.class_weight.by_name, ensure_ascii=False)
        raise DataError(
            f"option 'class_weight' is {given}, expected weights of two classes that are numbers, "
            "as the labels are"
        )


def refuse_options(request: Request[Any, Any], *features: str) -> None:
    """Raises OptionError for options that change nothing where features are of these kinds."""
    options, how = request.options, request.held_out
    if not options.given and how is None:
        return
    learner, rows = learner_of(request.task), ROW in features
    if not rows and "cluster" in options.given and is_place(options.cluster):
        raise OptionError(
            f"option 'cluster' names {options.cluster!r}, and no column does: {ON_WORKERS}"
        )
    seen = (PAIRS,) if of_pairs(request.task.name) else features
    known = AboutTraining(
        request.task.name,
        lambda: seen,
        learner.classifies(request),
        how_to_classify(request.task),
    )
    refuse_idle(learner.options.by_name, options, known)
    if how is not None and how.column is not None:
        name = "time_by" if how.in_time else "fold_by"
        if (why := idle(DEALING[name], options, known)) is not None:
            raise OptionError(why)
    refuse_two_uses(options, how)


def refuse_two_uses(options: Options, how: HeldOut | None) -> None:
    """Raises OptionError for a column that one option takes for words or categories, and
    another for neither: the first would change nothing.
    """
    others: dict[str, Sequence[str | None]] = {
        "categories": options.categories or (),
        "cluster": (options.cluster,),
    }
    if how is not None:
        others["time_by" if how.in_time else "fold_by"] = (how.column,)
    for option in ("text", "categories"):
        others.pop(option, None)
        for other, names in others.items():
            both = [name for name in getattr(options, option) or () if name in names]
            if both:
                raise OptionError(
                    f"options '{option}' and '{other}' both name '{both[0]}', expected one of them"
                )


def kinds_of(prepared: Texts, listed: str) -> tuple[str, ...]:
    """The kinds of rows with names, and of their columns; listed: that of features without
    names.
    """
    about = prepared.text(prepare.JSON, 0)
    if not about:
        return (listed,)
    there = (kind for kind, marks in MARKS_OF.items() if any(one in about for one in marks))
    return (ROW, *(there if listed == LIST else (*there, listed)))


def from_places(request: Request[Any, Any], names: Sequence[str]) -> Request[Any, Any]:
    """Converts the classes of a warm start from numbers to indices, in a request whose labels
    are text.
    """
    start, numbers = request.options.warm_start, numbers_in(names)
    if numbers is None or getattr(start, "classes", None) != tuple(numbers.tolist()):
        return request
    begun = replace(start, classes=tuple(map(float, range(len(numbers)))))
    return replace(request, options=replace(request.options, warm_start=begun))


def of_text(request: Request[Any, Any]) -> Request[Any, Any]:
    """The request of labels that are text, whose classes are the numbers 0 and 1 by now."""
    options = request.options
    if not isinstance(options.class_weight, ByClass):
        return request
    try:
        weights = weights_by_name(classes_named(options), options.class_weight.by_name)
    except ValueError:
        raise DataError(
            "options 'classes' and 'class_weight' name different classes, expected the same"
        ) from None
    return replace(request, options=replace(options, class_weight=weights))


# Groups with invalid rows: option `invalid`.
#
# The packers leave out single rows that no kernel can use, or mark their group as invalid. This
# does the same for labels that only the task knows to be impossible, and for groups that a learner
# rejects. The other groups are trained as if that one did not exist.


def invalid_models(groups: Groups, request: Request[Any, Any], why: Sequence[str]) -> Models:
    """Models of groups that cannot be trained, which predict NULL; why: a sentence for each."""
    n, task = len(groups), request.task
    response = getattr(task, "response", None) if getattr(task, "own", None) else None
    own = {} if response is None else {"response": response}
    text = options_text(request.options, ("invalid",), invalid_rows=True, **own)
    return Models.build(
        groups,
        task.kept,
        n_rows=np.zeros(n, np.int64),
        n_skipped=rows_given(groups) + groups["n_skipped"],
        n_features=np.zeros(n, np.int64),  # those of rows that came first depend on their order
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
    named |= dict.fromkeys(options.absorb or (), "absorb")
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
        if name is not None and learner.names_numbers(request):
            return f"column '{name[:200]}' holds ids, and has values {ROUNDED}: cast it to text"
        if name is not None and name in named:
            option = named[name]
            how = "round it" if option == "time_by" else "round it or cast it to text"
            return (
                f"option '{option}' names column '{name[:200]}', which has values {ROUNDED}: "
                + how
            )
    return None


def rounding_remarks(
    remarks: Mapping[int, Remarks], requests: Sequence[Request[Any, Any]]
) -> dict[int, str]:
    """Such a sentence by group. Raises RowsError if option `invalid` has errors."""
    found: dict[int, str] = {}
    for group, one in remarks.items():
        for request in requests:
            why = refusal_of_rounded(one, request)
            if why is not None and request.options.invalid == "error":
                raise RowsError(why)
            if why is not None:
                found[group] = why
    return found


def train_apart(
    groups: Groups,
    request: Request[Any, Any],
    train: Callable[[Groups], Iterator[Models]],
) -> Iterator[Models]:
    """Yields the models of `train`, and invalid models for groups whose rows it rejects.

    If it does not say which group, the groups are halved until that one is alone. Models carry
    their groups' indices in `groups`.
    """
    waiting = [np.arange(len(groups))]
    while waiting:
        places = waiting.pop()
        left = np.ones(len(places), bool)
        try:
            for models in train(groups[places]):
                left[models.group] = False
                yield models.renumber(places[models.group])
        except RowsError as error:
            if request.options.invalid == "error":
                raise
            found = error.found or ({0: str(error)} if len(places) == 1 else {})
            if found:
                bad = np.array(list(found))
                left[bad] = False
                models = invalid_models(groups[places[bad]], request, list(found.values()))
                yield models.renumber(places[bad])
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
"""Groups in the form of some trainings, and the requests of these."""


def usable_by_all(stack: ExitStack, forms: Sequence[Form], memory: int) -> list[Groups]:
    """As `usable`, for several forms of the same groups, with the rows that all trainings can use.

    Copies live until the stack is closed.
    """
    requests = [request for _, some in forms for request in some]
    if any(groups["wide"].any() for groups, _ in forms):  # they are looked at once ids are narrow
        return [groups for groups, _ in forms]
    if requests[0].options.invalid == "skip":
        return without_others(stack, forms, memory)
    rules = {learner_of(one.task).label_range(one): None for one in requests}
    for allowed in rules:
        if allowed is not None and len(forms[0][0]):
            refuse_labels(forms[0][0], allowed)
    return [groups for groups, _ in forms]


def refuse_labels(groups: Groups, allowed: LabelRange) -> None:
    """Raises RowsError for labels that are not allowed."""
    mark, threads = passes.cancel_mark(), budget.threads()
    labels = Pass(groups, threads=threads, cancel_mark=mark).labels()
    bad = ~(allowed.holds(labels["low"]) & allowed.holds(labels["high"]))
    if allowed.values is not None:  # others may lie between
        bad |= np.array([not allowed.holds(labels_in(group)).all() for group in groups])
    found = {int(place): refusal(groups[place], allowed) for place in np.flatnonzero(bad)}
    if found:
        raise RowsError(next(iter(found.values())), found)


def labels_in(group: np.void) -> Floats:
    """The labels of a group, (n,)."""
    return np.concatenate([labels for labels, _ in labels_of(group)])


def refusal(group: np.void, allowed: LabelRange) -> str:
    """A sentence about the first label that is not allowed."""
    labels = labels_in(group)
    at = int(np.flatnonzero(~allowed.holds(labels))[0])
    where = "a row" if group["extras"] & COUNTS else f"row {at + 1}"
    return allowed.refusal(float(labels[at]), f" in {where} of the group")


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
            copies = stack.enter_context(copy_rows(groups[places], kept, memory))
            copies["n_skipped"] += groups["n_rows"][places] - copies["n_rows"]
            found[places] = copies
        out.append(found)
    return out


def mask_of(group: np.void, request: Request[Any, Any]) -> NDArray[np.bool_]:
    """Returns whether a training can use each row of a group, (n,)."""
    learner = learner_of(request.task)
    return np.concatenate([learner.usable(request, x, y) for _, x, y in chunks(group)])


# Facts on held-out rows in models: the column, and groups without any.

NOT_COMPARED = "not compared"


def with_held_out(models: Models, groups: NDArray[np.void], request: Request[Any, Any]) -> Models:
    """Adds the column to the options, and a status to groups without held-out rows; models
    carry their groups' indices in `groups` (kernels.GROUP), of which by chance the numbers of
    rows suffice.
    """
    how, share = request.held_out, request.options.validation
    if how is not None and how.column is not None:
        own = replace(how, share=share or how.share)
        some = holds_some(own, groups[models.group], request)
        models = with_column(models, how)
    elif share:
        some = count_held_out(groups["n_rows"][models.group], share) > 0
    else:
        return models
    return with_status(models, NOT_COMPARED, ~some)


def holds_some(
    how: HeldOut, groups: NDArray[np.void], request: Request[Any, Any]
) -> NDArray[np.bool_]:
    """Marks the groups (G,) of which a column holds out some rows, but not all."""
    threads = request.options.threads or budget.threads()
    every = how.stretch_of(groups, request.options.seed, threads, by_label=False)
    ends = np.cumsum(groups["n_rows"])[:-1]
    counts = np.array([np.bincount(one, minlength=how.stretches) for one in np.split(every, ends)])
    found: NDArray[np.bool_] = np.logical_or.reduce(
        [
            (counts[:, list(out)].sum(axis=1) > 0)
            & (counts[:, list(how.training_stretches(out))].sum(axis=1) > 0)
            for out in how.sets
        ]
    )
    return found


def with_column(models: Models, how: HeldOut) -> Models:
    """The models, whose field `options` names the column by which rows were held out."""
    if how.column is None:
        return models
    given: dict[str, Any] = {"time_by" if how.in_time else "fold_by": how.column}
    if how.gap is not None:
        given["gap"] = how.gap.shown.strip("'") if how.gap.in_days else how.gap.distance
    if how.window is not None:
        given["window"] = how.window
    more = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    pool = tuple(text and with_members(text, more) for text in models.options.pool)
    return replace(models, options=replace(models.options, pool=pool))
