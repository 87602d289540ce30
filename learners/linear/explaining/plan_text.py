"""What a model says of its training: a line on the plan, and the options that were in force."""

import json
from typing import Any

from tuskml.learners.explaining.shown import shown_seconds
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.inference.names import CLASSIC
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.models import FORMAT
from tuskml.learners.options.kinds import ByClass


def plan_line(plan: Plan) -> str:
    """One line for the model's `plan`."""
    algorithm = ALGORITHMS[plan.family]
    parts = [plan.algorithm if plan.base is None else f"{plan.algorithm} (of {plan.base})"]
    if plan.after is not None:
        parts.append(plan.after)
    if algorithm.batched:
        parts.append(f"batches of {plan.batch_size}")
    if algorithm.stepped:
        parts.append(f"step {plan.schedule}")
    parts += [f"{kind} {name}" for kind, name in plan.own_parts()]
    if plan.sample_stride > 1:
        parts.append(f"started on 1/{plan.sample_stride} of the rows")
    if len(plan.smoothing) > 1:
        parts.append(f"hinge smoothed down to {plan.smoothing[-1]:g}")
    parts.append("1 thread" if plan.threads == 1 else f"{plan.threads} threads")
    if plan.device is not None:
        parts.append(f"on {plan.device}")
    if plan.estimated is not None:
        iterations, seconds = plan.estimated
        parts.append(f"estimated {iterations:.0f} iterations, {shown_seconds(seconds)}")
    if plan.unmet is not None:
        parts.append(f"{plan.unmet} is too little for epsilon {plan.epsilon:g}")
    return ", ".join(parts)


def resolved(options: LinearOptions, plan: Plan, more: dict[str, Any] | None = None) -> str:
    """The options that were in force, as JSON; the version comes first, where `predict` looks.

    more: members of a stored model.
    """
    shown: dict[str, Any] = {
        "tuskml": FORMAT,
        "algorithm": plan.algorithm,
        "max_iter": plan.max_iter,
        "epsilon": plan.epsilon,
        "converge": plan.converge,
        "l1": options.l1,
        "l2": options.l2,
        "fit_intercept": options.fit_intercept,
        "threads": plan.threads,
        "seed": options.seed,
        "deterministic": options.ordered,
    }
    shown |= dict(plan.own_parts())
    if ALGORITHMS[plan.family].sets_steps:
        shown |= {"step": plan.step, "schedule": plan.schedule, "batch_size": plan.batch_size}
    if plan.device is not None:
        shown["device"] = "gpu"
    if plan.estimated is not None:
        iterations, seconds = plan.estimated
        shown["estimated"] = {
            "iterations": round(iterations),
            "seconds": float(f"{seconds:.2g}"),
        }
    if options.class_weight is not None:
        shown["class_weight"] = shown_weights(options.class_weight)
    if options.classes is not None:
        shown["classes"] = getattr(options.classes, "names", options.classes)
    if options.covariance != CLASSIC:
        shown["covariance"] = options.covariance
    if options.cluster is not None:
        shown["cluster"] = options.cluster
    if options.validation:
        shown["validation"] = options.validation
    return json.dumps(shown | (more or {}), separators=(",", ":"))


def shown_weights(weight: str | tuple[float, ...]) -> Any:
    """Class weights as the option has them."""
    if not isinstance(weight, ByClass):
        return weight
    if weight.are_text:
        return weight.by_name
    return {f"{one:.17g}": of_one for one, of_one in zip(weight.classes, weight, strict=True)}
