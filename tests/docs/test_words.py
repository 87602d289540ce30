"""The manual is readable: short lines, a short README, and the words that the field uses."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))
PROSE = ["README.md", "CONTRIBUTING.md", *PAGES]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MOST_COLUMNS, MOST_WORDS = 110, 1000
PRIVATE = r"\b(?:doors?|(?<!no )rooms?|so-maniest|told|tells|(?:one|model|row|key) an? group)\b"
"""Words that only this project uses. Write interface, folder or package, says, per group."""


def prose(text: str) -> list[tuple[int, str]]:
    """The lines that are neither code nor a table nor an address, with their numbers."""
    plain = FENCED.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    return [
        (number, line)
        for number, line in enumerate(plain.splitlines(), 1)
        if not line.startswith("|") and "://" not in line
    ]


@pytest.mark.parametrize("page", PROSE)
def test_lines_of_prose_are_short(page: str) -> None:
    long = [n for n, line in prose((ROOT / page).read_text()) if len(line) > MOST_COLUMNS]
    assert long == [], f"{page}: lines of more than {MOST_COLUMNS} columns"


def test_the_readme_is_short() -> None:
    """Its code and tables included."""
    assert len((ROOT / "README.md").read_text().split()) <= MOST_WORDS


@pytest.mark.parametrize("page", PROSE)
def test_words_are_those_of_the_field(page: str) -> None:
    text = re.sub(r"`[^`\n]*`", "", (ROOT / page).read_text())
    assert re.findall(PRIVATE, text) == []


def test_the_readme_shows_what_the_demo_draws() -> None:
    (picture,) = re.findall(
        r"^!\[[^\]]+\]\((docs/\S+\.png)\)$", (ROOT / "README.md").read_text(), re.M
    )
    assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")
    assert (ROOT / picture).stat().st_size < 300_000
