"""Every block of the manual runs, or says why it does not; what it shows is what is printed."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from manual import BOTH, OWN_TESTS, RUN, Block, Runner, Shown, blocks, in_postgres, shown

import tuskml
from tuskml.commands import cli
from tuskml.databases import script

mpl.use("Agg")
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
WITH_BLOCKS = [page for page in PAGES if any(b.reason is None for b in blocks(DOCS / page))]
IN_POSTGRES = [
    page
    for page in WITH_BLOCKS
    if any(block.both or block.language == "pgsql" for block in blocks(DOCS / page))
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the page's reader is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def session(cluster: Any, folder: Path) -> Iterator[Any]:
    cluster.create_database("tusk_manual")
    with cluster.connect("tusk_manual") as connection:
        yield connection
    cluster.drop_database("tusk_manual")


@pytest.mark.parametrize("page", PAGES)
def test_a_block_is_run_or_says_why_not(page: str) -> None:
    wrong = [
        f"{block} is {block.language or 'of no language'}"
        for block in blocks(DOCS / page)
        if block.reason is None and block.language not in (*RUN, "text")
    ]
    assert wrong == [], f"expected one of {RUN}, text behind one of them, or <!-- not run: why -->"


@pytest.mark.parametrize("page", sorted(OWN_TESTS.keys() & set(PAGES)))
def test_a_page_s_own_test_names_it(page: str, root: Path) -> None:
    assert page in (root / OWN_TESTS[page]).read_text()


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_blocks_run_and_print_what_is_shown(page: str, folder: Path) -> None:
    path = DOCS / page
    found = blocks(path)
    compare(path, list(Runner().page([b for b in found if not behind(b, found, "pgsql")])))


@pytest.mark.sample(16)
@pytest.mark.parametrize("page", IN_POSTGRES)
def test_blocks_run_in_postgresql(page: str, session: Any) -> None:
    path = DOCS / page
    found = blocks(path)
    runner = Runner(session)
    kept = [b for b in found if b.language == "pgsql" or behind(b, found, "pgsql")]
    compare(path, list(runner.page(kept)))
    printed = ""
    for block in found:
        if block.both and block.reason is None:
            if block.language == "sql":
                printed = in_postgres(session, block.text)
            elif block.language == "text":
                assert block.text == printed, f"{block}: PostgreSQL prints something else"


def test_the_first_pages_run_one_after_the_other_in_either_database(session: Any) -> None:
    """A reader tries README and quickstart in the same database, in any order, and twice."""
    con = tuskml.connect(threads=1)
    run = {
        "pgsql": lambda text, name: in_postgres(session, text),
        "sql": lambda text, name: shown(list(script.run(con, text, name))),
    }
    pages = [DOCS.parent / "README.md", DOCS / "quickstart.md"]
    for language, answers in run.items():
        for page in (*pages, *reversed(pages)):
            found = [b for b in blocks(page) if b.language == language]
            assert found
            assert all(answers(block.text, str(block)) for block in found)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page}" for page in PAGES)])
def test_commands_that_are_shown_exist(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS.parent / page).read_text()
    shown = set(re.findall(r"(?:^\$ .*?\b|`)tuskml ([a-z]+)\b", text, re.MULTILINE))
    assert [name for name in sorted(shown) if cli.main([name, "--help"]) != 0] == []
    capsys.readouterr()


def behind(block: Block, found: list[Block], language: str) -> bool:
    """Whether a block is of that language, or shows what such a block printed."""
    before = [b for b in found if b.place <= block.place and b.language != "text"]
    return bool(before) and before[-1].language == language


def compare(path: Path, given: list[Shown]) -> None:
    """What is shown is what was printed; with TUSKML_WRITE it is made so."""
    wrong = [one for one in given if one.written != one.printed]
    if os.environ.get("TUSKML_WRITE"):
        text = path.read_text()
        for one in reversed(wrong):
            place, end = one.block.place, one.block.place + len(one.block.text)
            text = text[:place] + one.printed + text[end:]
        path.write_text(text)
        return
    for one in wrong:
        assert one.written == one.printed, f"{one.block}: run this test with TUSKML_WRITE=1"


def test_the_cookbook_is_for_both_databases() -> None:
    text = (DOCS / "cookbook.md").read_text()
    assert text.count(BOTH) >= 5
    assert text.count("\n## ") >= 10
