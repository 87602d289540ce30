"""Rows with names and labels of any type, prepared for learners that read numbers.

Each group is prepared from its own rows alone: a category's levels, what fills gaps, and the
order of the classes. The models carry what predictions need of it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, RowsError
from tuskml.groups.execution.choosing import is_place
from tuskml.groups.terms import widths_of, with_terms
from tuskml.kernels import passes
from tuskml.kernels.rows import prepare, words
from tuskml.kernels.rows.prepare import Texts
from tuskml.kernels.rows.structures import Preparing
from tuskml.learners.classes import sided
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models, Names, Strings
from tuskml.learners.options.acting import AboutTraining, idle, refuse_idle
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
    WORDS,
    ByClass,
    ClassNames,
    weights_by_name,
)
from tuskml.learners.options.other_names import ON_WORKERS
from tuskml.learners.options.table import Options
from tuskml.learners.registry import how_to_classify, learner_of
from tuskml.learners.remarks import note_of_levels
from tuskml.learners.statuses import UNLIKE, with_status
from tuskml.learners.tasks import of_pairs
from tuskml.schedule import budget

Groups = NDArray[np.void]
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
"""A text that is a number."""
OF_ROWS = ("label is '", " distinct values in a group", ", since larger whole numbers are rounded")
"""How refusals of what a group's rows have read; others are of options."""
MARKS_OF = {
    CATEGORY: tuple(f'"kind":"{kind}"' for kind in ("category", "levels", "product")),
    DATE: ('"part":"',),
}
"""What the description of rows with names has where some columns are of a kind."""


@dataclass(frozen=True)
class Readable:
    """Groups (passes.GROUP) that learners can read, and what is asked for them; prepared: where
    they are copies; features: their kinds (`options/kinds.py`)."""

    groups: Groups
    request: Request[Any, Any]
    prepared: Texts | None = None
    features: tuple[str, ...] = ()

    def refuse_options(self, request: Request[Any, Any]) -> None:
        """OptionError for options of a request that change nothing with such rows."""
        refuse_options(request, *self.features)

    def described(self, models: Models) -> Models:
        """The models with the names of their features and classes, their preparation, and tests
        of their terms.
        """
        if self.prepared is None:
            return with_terms(models) if len(models.covariance.values) else models
        places = models.group.tolist()
        found: dict[str, Any] = {}
        if self.prepared.text(prepare.JSON, places[0]):
            found["features"] = self._names(prepare.NAMES, places)
            found["preparation"] = pooled([self.prepared.text(prepare.JSON, g) for g in places])
        if self.prepared.text(prepare.CLASSES, places[0]):
            found["class_names"] = names = self._names(prepare.CLASSES, places)
            found["classes"] = by_their_names(models.classes, names)
        models = replace(models, **found)
        if "class_names" in found and self.request.options.classes is None:
            models = sided(models)
        return with_terms(self._with_unlike(models, places))

    def _with_unlike(self, models: Models, places: list[int]) -> Models:
        """The models, whose statuses and notes say which categories hardly repeat."""
        assert self.prepared is not None
        texts = [self.prepared.texts(prepare.UNLIKE, place) for place in places]
        if not any(texts):
            return models
        notes = [note_of_levels(one) if one else None for one in texts]
        models = with_status(models, UNLIKE, np.array([one is not None for one in notes]))
        return replace(models, note=pooled(notes))

    def _names(self, which: int, places: list[int]) -> Names:
        assert self.prepared is not None
        pool: dict[tuple[str, ...], int] = {}
        texts = (self.prepared.texts(which, place) for place in places)
        code = [pool.setdefault(names, len(pool)) for names in texts]
        return Names(tuple(pool), np.array(code, np.int32))


def by_their_names(classes: Lists, names: Names) -> Lists:
    """The classes of models whose labels are text: the numbers that their names are where all of
    a model's are, and otherwise their places among them."""
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


def pooled(texts: Sequence[str | None]) -> Strings:
    """Strings that share equal texts."""
    pool: dict[str, int] = {}
    code = [-1 if text is None else pool.setdefault(text, len(pool)) for text in texts]
    return Strings(tuple(pool), np.array(code, np.int32))


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
        with words.numbered(groups, memory, passes.cancel_mark()) as found:
            asked = with_names(replace(request, words=found.texts))
            yield Readable(without_parts(groups), asked, features=(WORDS,))
        return
    with ExitStack() as stack:
        try:
            prepared = stack.enter_context(prepare.prepare(groups, preparing(request), memory))
        except DataError as error:
            if any(mark in str(error) for mark in OF_ROWS):
                raise RowsError(str(error)) from error
            if is_place(request.options.cluster) and "option 'cluster' names" in str(error):
                raise DataError(f"{error}; {ON_WORKERS}") from error
            raise
        there = SPARSE if (prepared.groups["kind"] >= 2).any() else LIST
        features = kinds_of(prepared, there)
        asked = told(request, prepared, features)
        yield Readable(prepared.groups, asked, prepared, features)


def told(
    request: Request[Any, Any], prepared: Texts, features: Sequence[str]
) -> Request[Any, Any]:
    """The request of rows that were prepared, which knows what they became. DataError and
    OptionError for options that do not fit these.

    features: of which kinds they are.
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
    """The same groups and their places, for learners: by now their rows are sparse like others."""
    found = groups.copy()
    found["parts"] = 0
    found["place"] = np.arange(len(found))
    return found


def with_names(request: Request[Any, Any]) -> Request[Any, Any]:
    """The request of lists, whose features have the names that an option gives."""
    names = request.options.feature_names
    return request if names is None else replace(request, feature_names=lambda _: tuple(names))


def preparing(request: Request[Any, Any]) -> Preparing:
    """What the kernel is told."""
    options: Options = request.options
    names = classes_named(options)
    columns, texts = options.categories or (), options.text or ()
    known = prepare.known_levels(learner_of(request.task).encoding.known_levels(options))
    products = [name for names in options.interactions or () for name in (*names, "")]
    mark = None if request.held_out is None else request.held_out.mark
    return Preparing(
        MISSING.index(options.missing),
        learner_of(request.task).encoding.levels(options),
        int(options.unseen == "error"),
        options.threads or budget.threads(),
        options.max_categories or 0,
        options.min_count,
        passes.cancel_mark(),
        listed(names),
        len(names),
        DATES.index(options.dates),
        options.text_bits,
        listed(columns),
        len(columns),
        listed(texts),
        len(texts),
        listed(products),
        len(products),
        None if options.cluster is None else options.cluster.encode(),
        int(learner_of(request.task).encoding.stays_dense(options)),
        int(learner_of(request.task).encoding.numbers_levels(options)),
        None if mark is None else mark[0].encode(),
        0 if mark is None else mark[1],
        int(mark is None and (request.held_out is not None or holds_out(request))),
        None,  # no census
        len(known or ()),
        known,
    )


def holds_out(request: Request[Any, Any]) -> bool:
    """Whether a training holds out rows by itself."""
    return learner_of(request.task).trials.holds_out(request.options)


def listed(names: Sequence[str]) -> bytes | None:
    """Names for the kernel, each with a 0 behind it; None for none."""
    return "".join(f"{name}\0" for name in names).encode() if names else None


def classes_named(options: Options) -> tuple[str, ...]:
    """The classes that options name as text, the positive one last; none: those that occur."""
    if isinstance(options.classes, ClassNames):
        return options.classes.names
    weights = options.class_weight
    return tuple(sorted(weights.by_name)) if isinstance(weights, ByClass) else ()


def refuse_text(prepared: Texts, request: Request[Any, Any]) -> None:
    """DataError for labels that are text where the task or an option needs numbers."""
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
    """DataError for classes that are text where labels are numbers."""
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
    """OptionError for options that change nothing where features are of these kinds."""
    options, learner = request.options, learner_of(request.task)
    rows = ROW in features
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
    how = request.held_out
    if how is not None and how.column is not None:
        name = "time_by" if how.in_time else "fold_by"
        if (why := idle(DEALING[name], options, known)) is not None:
            raise OptionError(why)


def kinds_of(prepared: Texts, listed: str) -> tuple[str, ...]:
    """Of rows with names, and of what columns have; listed: that of features without names."""
    about = prepared.text(prepare.JSON, 0)
    if not about:
        return (listed,)
    there = (kind for kind, marks in MARKS_OF.items() if any(one in about for one in marks))
    return (ROW, *(there if listed == LIST else (*there, listed)))


def from_places(request: Request[Any, Any], names: Sequence[str]) -> Request[Any, Any]:
    """The request of labels that are text, whose warm start has these classes by their numbers and
    then has them by their places."""
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
