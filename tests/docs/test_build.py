"""The manual builds without a warning, its links lead somewhere, and it names files that exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
FOLDERS = "front|sql|udas|optimizer|groups|learners|kernels|kvstore|partitioner|schedule"
FOLDERS += "|scripts|tests|docs|dbt|research"


# jsonschema checks IRIs by rfc3987_syntax, whose grammar takes seconds to compile.
SPHINX = """
import sys
sys.modules["rfc3987_syntax"] = None
from sphinx.cmd.build import main
sys.exit(main(sys.argv[1:]))
"""


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Sphinx, strict: a warning is an error."""
    command = [sys.executable, "-c", SPHINX, "-W", "--keep-going", "-q", "-E"]
    return subprocess.run(
        [*command, "-b", "html", "-d", str(target / ".trees"), str(source), str(target)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_manual_builds_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    done = build(DOCS, tmp_path)
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert {page.stem for page in PAGES} <= {page.stem for page in pages}
    fetched = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//")
    assert [page.name for page in pages if fetched.search(page.read_text())] == []


@pytest.mark.nightly
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    text = (
        (DOCS / "conf.py")
        .read_text()
        .replace("parent.parent", f"parents[0] / {str(DOCS.parent)!r}")
    )
    (source / "conf.py").write_text(text)
    (source / "index.md").write_text("# One\n\n[a](#two) [b](three.md)\n")
    done = build(source, tmp_path / "html")
    assert done.returncode != 0
    assert "two" in done.stderr
    assert "three.md" in done.stderr


@pytest.mark.parametrize("page", OUTSIDE)
def test_links_outside_the_manual_lead_somewhere(page: str, root: Path) -> None:
    text = (root / page).read_text()
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if "://" in target:
            continue
        path = root / page if not target else root / target
        assert path.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(path.read_text()), f"{page}: {target}#{anchor}"


def anchors(text: str) -> set[str]:
    """The headings' names in links, as GitHub and MyST make them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize(
    "page", [p.relative_to(DOCS.parent).as_posix() for p in PAGES] + ["README.md"]
)
def test_files_that_are_named_exist(page: str, root: Path) -> None:
    text = (root / page).read_text()
    named = re.findall(rf"`((?:{FOLDERS})/[\w./*-]*)`", text)
    assert [name for name in named if not list(root.glob(name.rstrip("/")))] == []
