"""The answers of a model to a margin, by its task and options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tuskml.errors import DataError, one_of
from tuskml.learners.linear.tasks import BY_LINK, LINKS, RESPONSES
from tuskml.learners.registry import TASKS
from tuskml.learners.tasks import PAIRS, has_levels

Kind = Literal["predict", "predict_proba", "decision", "predict_class"]


@dataclass(frozen=True)
class Answers:
    """The answers of a model to a margin: one of two classes, or a number by its response.

    classifies: whether it predicts a class; response: `identity`, `exp` or `logistic`, or
    another by option `link`; factorizes: whether rows are [user, item]; is_calibrated: whether
    probabilities follow from held-out rows, by option `calibration`.
    """

    classifies: bool
    response: str
    factorizes: bool = False
    is_calibrated: bool = False

    @property
    def has_probabilities(self) -> bool:
        """Returns whether the margin gives the probability of the higher class."""
        known = self.response in ("logistic", "probit", "cloglog", "levels")
        return self.classifies and (known or self.is_calibrated)

    def refuse_calibrated(self, language: str) -> None:
        """Raises DataError for calibrated probabilities, which a language does not say."""
        if self.is_calibrated:
            raise DataError(
                f"the model has calibrated probabilities, which {language} cannot say: train it "
                "without option 'calibration'"
            )

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The functions that answer."""
        return ("predict", "decision", *(("predict_proba",) if self.has_probabilities else ()))


def answers_of(task: str, options: Mapping[str, Any], classifies: bool) -> Answers:
    """Returns how models of a task predict, as `udas/scalars/models/model.c` reads it.

    options: the model's, in which a custom task names its response; classifies: whether the model
    has classes, for a custom task. Raises DataError for a model that says neither.
    """
    known, is_calibrated = TASKS.get(task), "calibration" in options
    if known is not None:
        by_option = known.classes_by_option and classifies
        response = getattr(known, "response", None) or "identity"
        if task in LINKS and "link" in options:
            response = BY_LINK.get(options["link"], "identity")
        elif task == "logistic" or by_option:
            response = "logistic"
        elif has_levels(task):
            response = "levels"
        elif known.classes_by_option and (loss := TASKS.get(str(options.get("objective")))):
            response = getattr(loss, "response", None) or "identity"
        classifies = known.classifies or by_option
        return Answers(classifies, response, known.features == PAIRS, is_calibrated)
    response = options.get("response", "")
    if response not in RESPONSES:
        raise DataError(
            f"the model is '{task}', expected {one_of(TASKS)}, or a task of your own, whose "
            f"models name their response, {one_of(RESPONSES)}"
        )
    return Answers(classifies, response, is_calibrated=is_calibrated)
