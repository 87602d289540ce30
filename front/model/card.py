"""A model in one row that a person reads, as SQL's `model_card` has it."""

import math
from typing import Any

import numpy as np

from tuskml.learners.trees.forest import gains_of
from tuskml.model.fields import Fields
from tuskml.udas.tasks import TASK_TABLE

CARD = ("task", "status", "n_rows", "loss", "held_out", "effects")
MOST_EFFECTS = 5


def card(model: Fields) -> dict[str, Any]:
    """The columns of SQL's `model_card`: numbers have four digits, None is NULL."""
    held_out = validation_result(model.trials or {})
    row = (
        model.task,
        model.status,
        model.n_rows,
        None if math.isnan(model.loss) else four_digits(model.loss),
        None if held_out is None else four_digits(held_out),
        effects(model),
    )
    return dict(zip(CARD, row, strict=True))


def four_digits(value: float) -> float:
    """The number rounded to four digits."""
    return float(f"{value:.4g}")


def validation_result(trials: dict[str, Any]) -> float | None:
    """Returns what rows held out gave the winner of a search or of a path; None without one."""
    for steps, measure in (("trials", "metric"), ("path", "held_out")):
        if trials.get(steps) and trials.get("chosen") is not None:
            found: float | None = trials[steps][trials["chosen"]].get(measure)
            return found
    return None


def effects(model: Fields) -> str | None:
    """The strongest effects by term, None where features have none.

    Coefficients by their statistic, or by their size where there are no standard errors; features
    of trees by their share of what splits gained.
    """
    if model.coef is None:
        return None
    row = TASK_TABLE.get(model.task)
    if row is not None and row.kind == "boosted":
        gains = gains_of(model.coef, model.n_features)
        shares = 100 * gains / gains.sum() if gains.sum() > 0 else gains
        names = model.features if len(model.features) >= len(gains) else model.feature_names
        found = [(gain, f"{names[k]} {shares[k]:.0f} %") for k, gain in enumerate(gains) if gain]
    elif model.has_terms:
        found = rank_coefficients(model)
    else:
        return None
    strongest = sorted(found, key=lambda effect: -effect[0])[:MOST_EFFECTS]
    return ", ".join(text for _, text in strongest) or None


def rank_coefficients(model: Fields) -> list[tuple[float, str]]:
    """The strength and the text of each coefficient that is not 0, in their order."""
    estimates = np.array(model.weights(), np.float64)
    errors = np.array((model.std_err or [])[0 if model.several or model.cuts else 1 :], np.float64)
    if len(errors) == len(estimates) and not np.isnan(errors).all():
        with np.errstate(divide="ignore", invalid="ignore"):
            strengths = np.nan_to_num(np.abs(estimates / errors), nan=0.0, posinf=np.inf)
    else:
        strengths = np.abs(estimates)
    each, cuts = model.width + 1, model.cuts
    return [
        (strength, f"{name} {estimate:+.4g}")
        for k, (strength, name, estimate) in enumerate(
            zip(strengths.tolist(), model.term_names, estimates.tolist(), strict=True)
        )
        if estimate != 0
        and k >= cuts
        and not (model.several and k % each == 0)
        and k not in model.absorbed
    ]
