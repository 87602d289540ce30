"""The explanation of a matrix factorization, which has no candidates: as data, and as text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.factorization import Shape
from tuskml.kernels.passes import Pass
from tuskml.learners.explaining import Document, document, plan_document
from tuskml.learners.factorization.options import FactorizationOptions
from tuskml.learners.factorization.settings import Settings
from tuskml.learners.factorization.training import settings_and_refusal, shape_of


def explain(
    group: NDArray[np.void], options: FactorizationOptions, reading: float | None
) -> Document:
    """Explains the training of one group."""
    settings = Settings.of(options)
    rows = Pass(group, fit_intercept=settings.biases, threads=settings.threads)
    shape = shape_of(rows, settings)
    settings, device = settings_and_refusal(group, settings, shape)
    asked = "algorithm" in options.given and options.algorithm != "auto"
    return document(
        group,
        "matrix_factorization",
        objective(settings),
        reading,
        model=model(shape, settings.store, settings.layout() if settings.stored else None),
        plan=plan_document(
            settings,
            settings.describe(),
            "asked for" if asked else settings.method.reason,
            "blocks as threads come to them" if settings.lock_free else "by a hash of each rating",
            settings.max_iter,
            epsilon=settings.epsilon,
        ),
        device=device,
    )


def objective(settings: Settings) -> str:
    """The objective as a formula."""
    margin = "mu + b_u + b_i + p_u.q_i" if settings.biases else "p_u.q_i"
    squares, unit = "|p_u|^2 + |q_i|^2", ""
    if settings.relative:
        squares = f"s ({squares})"
        unit = ", s = the deviation of y"
    squares += " + b_u^2 + b_i^2" if settings.biases else ""
    penalty = f" + {settings.l2 / 2:g} ({squares})" if settings.l2 else ""
    return f"mean of 1/2 (m - y)^2{penalty}, m = {margin}{unit}"


def model(shape: Shape, store: str | None = None, layout: str | None = None) -> dict[str, Any]:
    """The size of the model and its storage."""
    return {
        "users": shape.n_users,
        "items": shape.n_items,
        "width": shape.width,
        "numbers": shape.numbers,
        "store": store,
        "layout": layout,
    }


def text_of(explanation: Document) -> str:
    """Ratings, model, plan and stopping rule."""
    plan, made = explanation["plan"], explanation["model"]
    lines = [
        f"{explanation['task']}: minimise {explanation['objective']}",
        f"  rows      {explanation['rows']:,} ratings, {explanation['rows_skipped']:,} skipped",
        f"  model     {made['users']:,} users and {made['items']:,} items x {made['width']}, "
        f"{made['numbers']:,} numbers",
    ]
    if made["store"] is not None:
        lines.append(f"  store     '{made['store']}', {made['layout']}")
    lines += [
        f"  plan      {plan['description']}",
        f"  because   {plan['because']}",
        f"  order     {plan['order']}",
    ]
    if explanation["device"] is not None:
        lines.append(f"  device    {explanation['device']}")
    lines.append(f"  stops     {stops(plan)}")
    return "\n".join(lines)


def stops(plan: Document) -> str:
    """Describes the stopping rule."""
    stop = f"after {plan['max_iter']} epochs"
    if plan["epsilon"]:
        stop = f"when the objective changes by at most {plan['epsilon']:g} of itself, or {stop}"
    return stop if plan["time"] is None else f"{stop}, or after {plan['time']:g} s"
