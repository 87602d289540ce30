"""Linear models as a learner."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuskml.errors import OptionError, RowsError
from tuskml.kernels.parts.sharded import Parts
from tuskml.learners.classes import LabelRange
from tuskml.learners.learner import (
    ALL_LEVELS,
    BUT_REFERENCE,
    FIRST_HAS_ALL,
    Arrays,
    ByParts,
    Encoding,
    Facts,
    Groups,
    Learner,
    Outgrown,
    Pooled,
    Rounds,
    Stored,
    Streamed,
    Trials,
)
from tuskml.learners.linear import training
from tuskml.learners.linear.algorithms import ALGORITHMS, FIRST_CHOICE, REGISTERED
from tuskml.learners.linear.check import label_range
from tuskml.learners.linear.inference import determined
from tuskml.learners.linear.options import OPTIONS
from tuskml.learners.linear.planner.candidates import FEW_FEATURES, choose
from tuskml.learners.linear.planner.curves import Statistics
from tuskml.learners.linear.request import LinearOptions, Request
from tuskml.learners.linear.stored.outgrown import groups_beyond_memory
from tuskml.learners.linear.tasks import LINEAR, OWN, LinearTask
from tuskml.learners.models import Models
from tuskml.learners.row_groups import RowGroups, SeveralClasses, Storage

if TYPE_CHECKING:
    from tuskml.kvstore import StoreRoot

DESCRIBING = ("covariance", "cluster", "weight_kind", "fit", "likelihood_ratio", "intervals")
"""Options that describe a model and change no prediction."""
FIRST = FIRST_CHOICE.name
FINE = 1e-4
"""A tolerance at which trainings end near the optimum from any start."""


def calibrate(say: Callable[[str], None]) -> dict[str, Any]:
    """The seconds of plans' passes, and of reading rows, on this machine."""
    from tuskml.learners.linear.planner import calibration
    from tuskml.learners.linear.streamed import spilled

    return calibration.measure(say) | {"reading": spilled.measure_reading()}


class LinearEncoding(Encoding):
    def levels(self, options: LinearOptions) -> int:
        """Without a penalty, a category's levels and the intercept would determine each other."""
        if options.l1 or options.l2:
            return ALL_LEVELS
        return BUT_REFERENCE if options.fit_intercept else FIRST_HAS_ALL

    def references(self, options: LinearOptions) -> Mapping[str, str]:
        given = options.reference
        return {"": given} if isinstance(given, str) else given or {}


class LinearTrials(Trials):
    def complexity(self, options: LinearOptions) -> float:
        """The stronger the penalty, the simpler the model."""
        return -(options.l1 + options.l2)

    def predicting(self, request: Request) -> LinearOptions:
        if request.options.proportions:
            raise OptionError(
                "option 'proportions' is not available in a search, whose metrics compare "
                "classes: give each option one value"
            )
        plain: dict[str, Any] = {name: OPTIONS.by_name[name].default for name in DESCRIBING}
        given = request.options.given - plain.keys()
        return replace(request.options, **plain, given=given)

    def forgets(self, request: Request, n_features: int) -> bool:
        """True for Newton's steps at a fine tolerance: others hardly move weights along flat
        directions.
        """
        task, seen = request.task, Statistics(1, n_features, False)
        plan = choose(task, request.options, seen)
        steps = ALGORITHMS[plan.family].begins_by_curvature and plan.base is None
        fine = plan.converge == "gradient" and 0 < plan.epsilon <= FINE
        return steps and fine and task.own is None and plan.transform is None

    def ends_alike(self, request: Request) -> bool:
        """False for steps of a fixed size, or by a few rows, which may diverge from most
        starts.
        """
        known = ALGORITHMS.get(request.options.algorithm)
        return request.options.step == "auto" and (known is None or not known.stochastic)


class LinearByParts(ByParts):
    """Parts answer sums, or the weights go from part to part."""

    def hops(self, request: Request) -> bool:
        known = ALGORITHMS.get(request.options.algorithm)
        return known is not None and known.noisy

    def whole(self, request: Request) -> str | None:
        from tuskml.learners.linear.parted import whole

        return whole(request)

    def train(self, parts: Parts, request: Request) -> Models | None:
        from tuskml.learners.linear.parted import train_by_parts  # seldom needed

        return train_by_parts(parts, request)


class LinearPooled(Pooled):
    def check(self, request: Request) -> None:
        from tuskml.learners.linear.pooled import refuse

        refuse(request)

    def train(self, rows: Arrays, request: Request) -> Models:
        from tuskml.learners.linear.pooled import train_pooled  # seldom needed

        return train_pooled(rows, request)


class LinearStored(Stored):
    def train(self, group: Groups, request: Request, memory: int, root: "StoreRoot") -> Models:
        from tuskml.learners.linear.stored.training import train_stored  # slow to import

        return train_stored(group, request, memory, root)

    def outgrown(self, groups: Groups, request: Request, memory: int) -> Mapping[int, Outgrown]:
        return groups_beyond_memory(groups, request, memory)


class LinearStreamed(Streamed):
    def is_wanted(self, request: Request) -> bool:
        from tuskml.learners.linear.streamed.training import is_wanted

        return is_wanted(request)

    def train(self, source: RowGroups, request: Request, n_features: int) -> Models | None:
        from tuskml.learners.linear.streamed.skipping import may_skip
        from tuskml.learners.linear.streamed.training import train_streamed

        try:
            return train_streamed(source, request, n_features)
        except RowsError:
            return None  # the training on all rows says which, or leaves them out
        except SeveralClasses:
            if request.task.multinomial and may_skip(request):
                return None  # without an option
            raise

    def rounds(self, storage: Storage, request: Request, n_features: int) -> Rounds | None:
        from tuskml.learners.linear.streamed.rounds import lay_out_rounds

        return lay_out_rounds(storage, request, n_features)

    def plans(self, storage: Storage, request: Request, n_features: int) -> dict[str, Any] | None:
        from tuskml.learners.linear.streamed.compared import compare_sources

        return compare_sources(storage, request, n_features)


class Linear(Learner):
    """Models whose prediction is a function of w.x + b, custom tasks included."""

    options = OPTIONS
    facts = Facts(
        weighs=True,
        algorithms=REGISTERED,
        sizes=(
            ("features of a model with standard errors", f"{determined.MOST_WEIGHTS - 1:,}"),
            (
                f"features up to which the rule of `auto` takes {FIRST_CHOICE.name}",
                f"{FEW_FEATURES:,}",
            ),
        ),
        calibrate=calibrate,
    )
    encoding = LinearEncoding()
    trials = LinearTrials()
    by_parts = LinearByParts()
    stored = LinearStored()
    streamed = LinearStreamed()
    pooled = LinearPooled()

    @property
    def tasks(self) -> Mapping[str, LinearTask]:
        return LINEAR | OWN

    def classifies(self, request: Request) -> bool:
        """Labels that are shares are numbers."""
        return request.task.classifies and not request.options.proportions

    def label_range(self, request: Request) -> LabelRange | None:
        if request.task.classifies and request.options.proportions:
            return LabelRange("option 'proportions' needs a label between 0 and 1", 0.0, 1.0)
        return (
            super().label_range(request) if request.task.classifies else label_range(request.task)
        )

    def train(self, groups: Groups, request: Request, memory: int) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(self, groups: Groups, request: Request, memory: int = 0) -> Iterator[str]:
        from tuskml.learners.linear import explanation  # slow to import

        return explanation.explain(groups, request, memory)


LEARNERS = (Linear(),)
