"""`tuskml report`: what the page says, what a browser shows of it, and what it keeps out."""

import json
import math
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outline import Outline
from PIL import Image

from tuskml.report import Group, group_of, page
from tuskml.report.groups import some_of

SECONDS = 120
HOSTILE = '<img src=x onerror="document.documentElement.dataset.pwned=1">'
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--force-device-scale-factor=1", "--window-size=1200,2000"),
)
SERIES = {"light": ("#2a78d6", "#eb6834", "#128a5f"), "dark": ("#3987e5", "#e06a35", "#22a679")}
MODEL: dict[str, Any] = {
    "task": "logistic",
    "coef": [0.5, -2.0],
    "intercept": 0.1,
    "std_err": None,
    "classes": [0.0, 1.0],
    "n_rows": 100,
    "n_skipped": 3,
    "n_features": 2,
    "loss": 0.25,
    "history": [0.7, 0.4, 0.26, 0.25],
    "iterations": 3,
    "converged": True,
    "status": "ok",
    "plan": "newton, 2 threads",
    "seconds": 0.02,
    "options": '{"tuskml": 1, "l2": 0.0}',
    "store": None,
}


def many(count: int) -> list[Group]:
    """Groups, every tenth of which has not converged."""
    rng = np.random.default_rng(0)
    found = []
    for i in range(count):
        history = 0.3 + 0.4 * 0.3 ** np.arange(12) * rng.uniform(0.5, 2, 12)
        value = MODEL | {
            "coef": rng.normal(size=8).tolist(),
            "history": history.tolist(),
            "iterations": 11,
            "n_rows": i,
            "status": "not converged" if i % 10 == 0 else "ok",
        }
        found.append(group_of([f"group {i}", i % 7], value))
    return found


# --- what is computed ---


def test_a_curve_is_the_share_of_the_way_that_is_left() -> None:
    found = group_of([], MODEL | {"history": [10.0, 2.0, 1.1, 1.01, 1.0]}).curve(48)
    assert found is not None
    assert found[0].tolist() == [0, 1, 2, 3]
    assert found[1] == pytest.approx([1, 1 / 9, 0.1 / 9, 0.01 / 9])


@pytest.mark.parametrize("history", [None, [], [1.0], [1.0, 0.5], [1.0, 1.0, 1.0]])
def test_less_than_two_steps_are_no_curve(history: list | None) -> None:
    assert group_of([], MODEL | {"history": history}).curve(48) is None


def test_a_thinned_history_spans_all_iterations() -> None:
    history = (1 + 0.9 ** np.arange(200)).tolist()
    found = group_of([], MODEL | {"history": history, "iterations": 2000}).curve(10)
    assert found is not None
    assert len(found[0]) == 10
    assert found[0][-1] == pytest.approx(2000 * 198 / 199)


def test_where_not_all_fit_both_kinds_are_there() -> None:
    groups = many(100)
    kept = some_of(groups, 10)
    assert [group.status for group in kept] == ["not converged"] * 5 + ["ok"] * 5
    rows = [group.model.n_rows for group in kept if group.model]
    assert rows == [90, 80, 70, 60, 50, 99, 98, 97, 96, 95]
    assert len(some_of(groups, 96)) == 96
    assert sorted(map(id, some_of(groups, 100))) == sorted(map(id, groups))


# --- what the page says ---


def test_estimates_stand_against_what_was_taken() -> None:
    told = '{{"estimated": {{"iterations": {}, "seconds": 2.0}}}}'
    plan = "lbfgs, 2 threads, estimated 20 iterations, 2 s"
    groups = [
        group_of([i], MODEL | {"plan": plan, "iterations": 30 + i, "seconds": 1.0,
                               "options": told.format(20 + 2 * i)})
        for i in range(3)
    ]  # fmt: skip
    text = page([*groups, group_of([3], MODEL)])
    rows = re.findall(r'<th scope="row">(\w+)</th><td>(.*?)</td></tr>', text)
    cells = {name: rest.split("</td><td>") for name, rest in rows}
    assert cells["lbfgs"] == ["3", "31", "22", "3 s", "6 s"]
    assert cells["newton"] == ["1", "3", "–", "20 ms", "–"]
    assert text.count("22 iterations estimated, 31 taken") == 1
    assert text.count("2 seconds estimated, 1 taken") == 3


def test_coefficients_of_one_model_have_names_and_errors() -> None:
    value = MODEL | {"coef": [0.5, -2.0], "std_err": [0.1, 0.2, 0.3]}
    text = Outline(page([group_of([], value)], features=["age", "dose & more"])).text
    assert text.index("dose & more -2, standard error 0.3") < text.index(
        "age 0.5, standard error 0.2"
    )


def test_the_table_has_the_interval_of_the_summary() -> None:
    found = group_of([], MODEL | {"coef": [0.5, -2.0], "std_err": [0.1, 0.2, 0.3]})
    text = page([found], features=["age", "dose"])
    lines = re.findall(r'<th scope="row">([^<]*)</th><td>(.*?)</td></tr>', text)
    cells = {name: rest.split("</td><td>") for name, rest in lines}
    assert found.model is not None
    for name, term in zip(("intercept", "age", "dose"), found.model.summary().terms, strict=True):
        assert cells[name][1] == f"{term.lower:.4g} to {term.upper:.4g}"
    assert cells["intercept"][0] == "0.1"


def test_rows_are_skipped_for_reasons_that_the_page_names() -> None:
    notes = (
        "3 of 9 rows were skipped (33.3%): column 'a, b in 3' is NULL in 2 (22.2%), label is NULL "
        "in 1 (11.1%)",
        "1,200 of 9,000 rows were skipped (13.3%): column 'a, b in 3' is NULL in 1,200 (13.3%)",
        None,
    )
    text = page([group_of([i], MODEL | {"note": note}) for i, note in enumerate(notes)])
    assert (
        "Rows were skipped where column 'a, b in 3' is NULL in 1,202, label is NULL in 1."
        in Outline(text).text
    )


def test_the_worst_group_is_the_first_of_the_metrics() -> None:
    aucs = {"a": 0.8, "b": None, "c": 0.6, "d": 0.9}
    scores = {name: {"n_rows": 5, "n_not_scored": 0, "auc": auc} for name, auc in aucs.items()}
    text = page([group_of([name], MODEL) for name in aucs], scores=scores)
    section = text[text.index('<section id="predictions"') :].partition("</section>")[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', section) == ["c", "a", "d", "b"]
    assert "the lowest auc first" in section


def test_coefficients_of_many_models_have_their_spread() -> None:
    groups = [group_of([i], MODEL | {"coef": [0.0, float(i)]}) for i in range(1, 12)]
    text = Outline(page(groups)).text
    assert "x2 6, from 2 to 10" in text  # 10th, 50th and 90th percentile of 1 to 11


def test_a_group_without_rows_and_numbers_that_are_none() -> None:
    value = MODEL | {"loss": math.nan, "status": "diverged", "coef": None, "history": [math.nan]}
    groups = [group_of(["a"], None), group_of(["b"], value), group_of(["c"], MODEL)]
    found = Outline(page(groups, keys=["key"]))
    for words in ("no usable row", "diverged", "of 3 groups"):
        assert words in found.text


def test_ratings_have_factors_and_no_coefficients() -> None:
    value = MODEL | {"task": "matrix_factorization", "coef": [0.1] * 30, "classes": [5, 5, 3]}
    assert "No model has non-zero coefficients" in Outline(page([group_of([], value)])).text


@pytest.mark.nightly
def test_a_page_of_many_groups_stays_small() -> None:
    groups = many(3200)
    text = page(groups, keys=["name", "day"])
    assert len(text.encode()) < 4_000_000
    found = Outline(text)
    assert sum(tag == "tr" for tag, _ in found.elements) > 3000
    assert "3,000 of 3,200 groups" in found.text
    assert text.count('<g class="curve') == 200


def test_text_of_a_database_stays_text() -> None:
    value = MODEL | {"status": HOSTILE, "plan": HOSTILE, "options": json.dumps({"x": "</script>"})}
    text = page(
        [group_of([HOSTILE, 1], value)],
        keys=[HOSTILE, "b"],
        features=[HOSTILE, HOSTILE],
        title=HOSTILE,
        source=HOSTILE,
    )
    found = Outline(text)
    assert found.all("img") == []
    assert len(found.all("script")) == 2
    assert HOSTILE in found.text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert data is not None
    assert json.loads(data[1])[0]["name"] == f"{HOSTILE}, 1"


def test_the_page_needs_no_network() -> None:
    text = page(many(20))
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)="(?!#)|url\(|@import', text)


def test_the_page_can_be_read_by_everyone() -> None:
    text = page(many(20), keys=["name", "day"])
    found = Outline(text)
    assert found.all("html")[0]["lang"] == "en"
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for name in ("aria-labelledby", "for"):
        assert {a[name] for _, a in found.elements if name in a} <= set(ids)
    assert all(a.get("scope") for a in found.all("th"))
    assert len(found.all("caption")) == len(found.all("table"))
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        root = ET.fromstring(drawing)
        told = (root.get("role"), bool(root.get("aria-label")))
        assert root.get("aria-hidden") == "true" or told == ("img", True)


def contrast(one: str, other: str) -> float:
    """Of two colours (WCAG 2.2, relative luminance)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    bright, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1, 2])
def test_colours_can_be_told_from_what_is_behind(root: Path, theme: int) -> None:
    style = (root / "front" / "report" / "page.css").read_text()
    blocks = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", b)) for b in re.findall(r"{([^{}]*)}", style)
    ]
    colours = [block for block in blocks if "card" in block][theme]
    for name in ("ink", "soft", "faint", "link"):
        assert min(contrast(colours[name], colours[k]) for k in ("card", "page")) >= 4.5, name
    for name in ("good", "fair", "bad"):
        assert contrast(colours[name], colours[f"{name}-bg"]) >= 4.5, name
    for name in ("s1", "s2", "s3", "s4", "s5", "s6"):
        assert contrast(colours[name], colours["card"]) >= 3, name


# --- what a browser shows ---


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("TUSKML_REQUIRE_BROWSER"):
            pytest.fail("TUSKML_REQUIRE_BROWSER is set, and chromium is not installed")
        pytest.skip("chromium is not installed: scripts/browser_packages.sh does it as root")
    return found


def browse(chromium: str, folder: Path, file: Path, state: str, *flags: str) -> str:
    """What the browser prints of a page, with a profile of its own."""
    done = subprocess.run(
        [
            chromium,
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            *flags,
            f"{file.as_uri()}{state}",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def drawn(picture: Path, colour: str) -> np.ndarray:
    """Places of a colour's pixels: rows and columns."""
    wanted = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)])
    with Image.open(picture) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    return np.argwhere(np.abs(pixels - wanted).max(axis=2) <= 8)


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_browser_draws_the_curves(chromium: str, report: Path, tmp_path: Path, theme) -> None:
    chosen = tmp_path / f"{theme}.html"
    text = report.read_text()
    chosen.write_text(text.replace("<html ", f'<html data-theme="{theme}" '))
    without = tmp_path / "without.html"
    without.write_text(re.sub(r'<g class="curve.*?</g>', "", chosen.read_text()))
    for file in (chosen, without):
        picture = tmp_path / f"{file.stem}.png"
        browse(chromium, tmp_path, file, "", f"--screenshot={picture}")
        for colour in SERIES[theme]:
            places = drawn(picture, colour)
            spread = np.ptp(places[places[:, 0] < 800], axis=0)
            # A curve goes far down and across; without curves there is the legend's mark alone.
            assert (spread > [100, 200]).all() == (file is chosen), (file, colour, spread)


def test_a_browser_sorts_searches_and_opens(chromium: str, report: Path, tmp_path: Path) -> None:
    def body(state: str) -> str:
        dom = browse(chromium, tmp_path, report, state, "--dump-dom")
        assert 'data-ready="yes"' in dom
        return dom

    dom = body("#sort=2&q=a&one=0")  # the third column is the number of rows
    rows = re.findall(r"<tr[^>]*><th scope=\"row\"><button.*?</tr>", dom, re.DOTALL)
    names = [re.sub(r"<.*?>", " ", row).split()[0] for row in rows]
    assert names == ["small", "middle", "large"]
    assert 'aria-sort="ascending"' in dom
    assert [row.startswith('<tr hidden=""') for row in rows] == [False, False, False]
    opened = dom[dom.index('id="one"') :]
    assert 'aria-label="Convergence of ' in opened
    assert re.search(r'<g class="curve series-1"><path d="M[\d.]+ [\d.]+L', opened)
    assert "dose" in opened
    dom = body("#sort=2-&q=middle")
    rows = re.findall(r"<tr[^>]*><th scope=\"row\"><button.*?</tr>", dom, re.DOTALL)
    shown = {re.sub(r"<.*?>", " ", row).split()[0]: "hidden" not in row[:20] for row in rows}
    assert shown == {"large": False, "middle": True, "small": False}
    assert list(shown) == ["large", "middle", "small"]
    assert ">1 of 3</span>" in dom


@pytest.mark.nightly
def test_a_browser_runs_no_script_of_a_key(chromium: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    groups = [
        group_of([HOSTILE], MODEL | {"plan": HOSTILE, "options": json.dumps({"a": HOSTILE})})
    ]
    path.write_text(page(groups, keys=[HOSTILE], features=[HOSTILE], title=HOSTILE))
    dom = browse(chromium, tmp_path, path, "#one=0", "--dump-dom")
    assert 'data-ready="yes"' in dom
    assert "data-pwned" not in dom
    assert "&lt;img src=x" in dom[dom.index('id="one"') :]
