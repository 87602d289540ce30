"""The plan of a search, as text or JSON."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.preparation import Readable, readable
from tuskml.groups.selection.choosing import race_finalists, rungs
from tuskml.groups.selection.lanes import Load
from tuskml.groups.selection.lanes import sentences as load_in_words
from tuskml.groups.selection.search import Search
from tuskml.groups.selection.trials import races, shares
from tuskml.learners.learner import Request
from tuskml.learners.registry import learner_of
from tuskml.schedule import budget


def explain_search(groups: NDArray[np.void], search: Search, memory: int) -> Iterator[str]:
    """Yields the search, followed by the plan of the first candidate on all rows of each group."""
    first = search.candidates[0]
    request: Request[Any, Any] = Request(first.task, first.options, held_out=search.dealt)
    about = describe_search(search)
    with readable(groups, request, memory) as seen:
        about["schedule"] = schedule_load(seen, search, about, memory)
        for text in learner_of(first.task).explain(seen.groups, seen.request, memory):
            if first.options.format == "json":
                yield json.dumps({"search": about} | json.loads(text))
            else:
                yield f"{sentences(about)}\n\nthe first candidate, {first.shown}:\n{text}"


def schedule_load(
    seen: Readable, search: Search, about: dict[str, Any], memory: int
) -> dict[str, object]:
    """The load of all trainings of all groups, as if each candidate took as long as the first."""
    request, learner = seen.request, learner_of(seen.request.task)
    asked = replace(request, options=replace(request.options, format="json"))
    told = [json.loads(text) for text in learner.explain(seen.groups, asked, memory)]
    chosen = [one for text in told for one in text["candidates"] if one["chosen"]]
    one = sum(plan["seconds"]["point"] for plan in chosen if plan["seconds"])
    kept = search.dealt.work
    passes = 1 + sum(rung["candidates"] * rung["rows"] for rung in about["rungs"]) * kept
    threads = request.options.threads or budget.threads()
    return Load(seen.groups["n_rows"].astype(np.int64), threads, passes).estimate(one)


def describe_search(search: Search) -> dict[str, Any]:
    """The number of trainings, their rows, and the metric."""
    n, sets = len(search.candidates), len(search.sets)
    if search.estimate is not None:
        n = sum(search.estimate.counts())
    tried = rungs(n, shares(search)[0])
    trainings = sum(count for count, _ in tried) * sets
    if races(search):
        few = race_finalists(n, sets)
        tried, trainings = [(n, 1 / sets), (few, 1 - 1 / sets)], n + few * (sets - 1)
    return {
        "candidates": n,
        "strategy": "halving" if search.halving else "tpe" if search.estimate else "all",
        "folds": sets,
        "held_out": search.dealt.share or 1 / search.dealt.dealt,
        "fold_by": None if search.dealt.in_time else search.dealt.column,
        "time_by": search.dealt.column if search.dealt.in_time else None,
        "window": search.dealt.window,
        "metric": search.metric,
        "one_standard_error": search.one_standard_error,
        "rungs": [{"candidates": count, "rows": share} for count, share in tried],
        "trainings": trainings + 1,
        "time": search.time,
    }


def sentences(about: dict[str, Any]) -> str:
    """Describes the search in words."""
    folds = f"{about['folds']} folds" if about["folds"] > 1 else "one set of held-out rows"
    lines = [
        f"search: {about['candidates']} candidates on {folds} of {about['held_out']:.3g} of a "
        f"group's rows, {about['trainings']} trainings per group with the last one on all rows",
        f"metric: {about['metric']}"
        + (", the simplest within one standard error" if about["one_standard_error"] else ""),
    ]
    if about["strategy"] == "tpe":
        lines.append("tpe: each group chooses its candidates by its trials before")
    if about["fold_by"] is not None:
        lines.append(f"folds: rows of equal '{about['fold_by']}' are in one fold")
    if about["time_by"] is not None:
        window = about["window"]
        rows = "rows" if window is None else f"rows of the {window} stretches as long right"
        lines.append(f"folds: each is predicted from the {rows} before it by '{about['time_by']}'")
    if len(about["rungs"]) > 1:
        lines.append(halving_in_words(about))
    lines += load_in_words(about["schedule"])
    return "\n".join(lines)


def halving_in_words(about: dict[str, Any]) -> str:
    """Describes the candidates and rows of each rung."""
    (every, share), (few, rest) = ((one["candidates"], one["rows"]) for one in about["rungs"])
    if rest < 1:  # the other folds
        others = about["folds"] - 1
        return f"halving: {every} on the first fold, {few} on the other {others}"
    return f"halving: {every} on {share:.3g}, {few} on 1 of the rows that are not held out"
