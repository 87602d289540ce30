"""The page: head, sections, style and script in one text that needs no network."""

import base64
import hashlib
import json
import time
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from tuskml.api.drift import Drift
from tuskml.databases.script import plain
from tuskml.report import (
    coefficients,
    group_table,
    paths,
    predictions,
    recommendations,
    searches,
    sections,
)
from tuskml.report.groups import Group
from tuskml.version import VERSION

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#groups">To the table of groups</a>
<header><div><h1>{title}</h1><p>{subtitle}</p></div>
<button id="theme" type="button" hidden>Dark</button></header>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
"""
TAIL = """
</main>
<footer><p>tuskml {version}</p></footer>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
LINKS = {
    "summary": "In all",
    "convergence": "Convergence",
    "searches": "Searches",
    "paths": "Paths",
    "predictions": "Predictions",
    "drift": "Drift",
    "recommended": "Recommendations",
    "plans": "Plans",
    "coefficients": "Coefficients",
    "importance": "Importance",
    "stores": "Store",
    "groups": "Groups",
}


def page(
    groups: Sequence[Group],
    *,
    keys: Sequence[str] = (),
    features: Sequence[str] = (),
    title: str = "Training report",
    source: str = "",
    made: float | None = None,
    scores: predictions.Scores | None = None,
    drifts: Sequence[Drift] = (),
) -> str:
    """The report of models as one HTML page.

    groups: their keys have as many texts as keys has names; features: the features' names, x1, x2,
    ... where there are none; source: where the models were found, in words; made: seconds of the
    clock, now unless given; scores: what `tuskml.evaluate(..., curves=True)` says of each group's
    predictions, by name; drifts: of the columns of these rows. The page stays below some megabytes
    whatever the number of groups: beyond `group_table.ROWS` it shows those worth a look and the
    largest, and says so.
    """
    style, script = asset("page.css"), asset("page.js")
    parts = {
        "summary": sections.summary(groups),
        "convergence": sections.convergence(groups),
        "searches": searches.searches(groups),
        "paths": paths.paths(groups, features),
        "predictions": predictions.predictions(scores or {}),
        "drift": predictions.drift(drifts),
        "recommended": recommendations.recommendations(groups),
        "plans": sections.plans(groups),
        "coefficients": coefficients.coefficients(groups, features),
        "importance": coefficients.importance(groups, features),
        "stores": sections.stores(groups),
        "groups": group_table.section_of(groups, keys, features),
    }
    there = [name for name, text in parts.items() if text]
    when = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(made))
    head = HEAD.format(
        policy=policy(style, script),
        title=escape(title),
        style=style,
        subtitle=escape(", ".join(filter(None, [source, when]))),
        links="".join(f'<li><a href="#{name}">{LINKS[name]}</a></li>' for name in there),
    )
    shown = plain(group_table.details(groups, features))
    data = json.dumps(shown, separators=(",", ":"), allow_nan=False)
    return (
        head
        + "\n".join(parts[name] for name in there)
        + TAIL.format(version=VERSION, data=inert(data), script=script)
    )


def asset(name: str) -> str:
    """The text of a file next to this one."""
    return files("tuskml.report").joinpath(name).read_text(encoding="utf-8")


def policy(style: str, script: str) -> str:
    """The content security policy: no network, and only the page's own style and script."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; "
        f"script-src 'sha256-{digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def inert(data: str) -> str:
    """JSON that cannot end the element it stands in."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
