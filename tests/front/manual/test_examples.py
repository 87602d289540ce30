"""What the manual shows runs as it is: README, docs/sql/, the example scripts."""

import re
from pathlib import Path

import pytest
from own import own_things

from tuskml.commands.cli import main
from tuskml.databases.script import run
from tuskml.learners.linear.result import STATUSES

SQL_PAGES = sorted((Path(__file__).resolve().parents[3] / "docs" / "sql").glob("*.md"))
EXAMPLES = (
    "first_model",
    "model_per_group",
    "choose_penalty",
    "sparse_text",
    "film_recommender",
    "feature_layout",
)


def blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of a language that are run."""
    fence = rf"^(<!-- not run: .*? -->\n)?```{language}\n(.*?)^```$"
    found = re.findall(fence, path.read_text(), re.MULTILINE | re.DOTALL)
    return [block for not_run, block in found if not not_run]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_end_in_a_table(name: str, root: Path, capsys) -> None:
    assert main(["sql", str(root / "sql" / "examples" / f"{name}.sql")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert len(out.rsplit("\n\n", 1)[-1].splitlines()) >= 5


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_twice_on_one_database(name: str, root: Path, tmp_path: Path) -> None:
    path = str(root / "sql" / "examples" / f"{name}.sql")
    for _ in range(2):
        assert main(["sql", path, "--database", str(tmp_path / "x.duckdb"), "--json"]) == 0


def results(con, root: Path, name: str) -> list[list[tuple]]:
    text = (root / "sql" / "examples" / f"{name}.sql").read_text()
    return [result.rows for result in run(con, text, name)]


def test_the_patients_have_their_textbook_coefficients(con, root: Path) -> None:
    summary = results(con, root, "first_model")[1]
    # Apache MADlib's manual, logistic regression, to the digits that it prints
    assert [round(row[2], 5) for row in summary] == [-6.36347, -1.02411, 0.11904]
    assert [round(row[3], 5) for row in summary] == [3.21390, 1.17108, 0.05498]


def test_the_shops_show_statuses_and_find_their_slopes(con, root: Path) -> None:
    models, _, scores = results(con, root, "model_per_group")
    assert {row[0]: row[3] for row in models} == {
        "beach": "ok",
        "campus": "ok",
        "market": "ok",
        "station": "ok",
        "museum": "constant feature",
        "pop-up": "too few rows",
    }
    for shop, _, rmse, _, true, found in scores:
        assert rmse < 6  # the noise's amplitude
        assert shop == "museum" or abs(true - found) < 0.2


def test_new_messages_are_told_apart(con, root: Path) -> None:
    risks = dict(results(con, root, "sparse_text")[-1])
    assert sorted(risk > 50 for risk in risks.values()) == [False, False, True, True]


def test_pages_of_a_guide_share_a_key(con, root: Path) -> None:
    pages, layouts, _ = results(con, root, "feature_layout")
    assert pages[0] == (0, 4000)
    assert {visits for _, visits in pages[1:]} == {500}
    for _, features, _, before, after, saved in layouts:
        assert (features, before) == (33, 6.0)
        assert after < 4
        assert saved == pytest.approx(1 - after / 6)


def test_the_readme_s_sql_finds_what_its_rows_were_made_of(con, root: Path) -> None:
    (block,) = blocks(root / "README.md", "sql")
    *_, last = run(con, block, "README.md")
    assert [(shop, status, round(at_25, 6)) for shop, _, status, at_25 in last.rows] == [
        (0, "ok", 75),  # 40 + 25 + 10 at a weekend
        (1, "ok", 100),
        (2, "ok", 125),
    ]


@pytest.mark.nightly
def test_operators_of_one_s_own_run_one_after_the_other(root: Path, capsys) -> None:
    scope: dict[str, object] = {}
    with own_things():
        for block in blocks(root / "docs" / "operators.md", "python"):
            exec(compile(block, "docs/operators.md", "exec"), scope)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[:3]] == ["0", "1", "2"]
    assert "sampler by_norm" in printed[3]
    assert printed[4].endswith(", 3)")
    assert any(line.split()[:1] == ["brief"] for line in printed[5:])


@pytest.mark.sample(4)  # tests/docs/test_blocks.py runs all pages
@pytest.mark.parametrize("page", SQL_PAGES, ids=lambda page: page.stem)
def test_the_manual_s_sql_has_answers(page: Path, con) -> None:
    for block in blocks(page, "sql"):
        for result in run(con, block, page.name):
            assert result.rows


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/sql.md", "docs/operators.md"]
)
def test_links_lead_somewhere(page: str, root: Path) -> None:
    text = (root / page).read_text()
    found = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    assert [
        link for link in found if "://" not in link and not ((root / page).parent / link).exists()
    ] == []


def test_the_readme_s_shell_commands_exist(root: Path) -> None:
    make = (root / "Makefile").read_text()
    for page in ("README.md", "CONTRIBUTING.md"):
        for block in blocks(root / page, "sh"):
            for line in block.splitlines():
                command, argument = line.split()[:2]
                if command == "make":
                    assert re.search(rf"^{argument}:", make, re.MULTILINE), line
                else:
                    assert (root / line.split()[2]).is_file(), line


def test_statuses_are_explained(root: Path) -> None:
    text = (root / "docs" / "reference" / "statuses.md").read_text()
    assert [status for status in STATUSES if f"`{status}`" not in text] == []


def test_every_function_is_in_the_manual(con, root: Path) -> None:
    found = con.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE schema_name = 'main' AND "
        "(NOT internal OR function_name IN ('train_model', 'explain_training', 'hash_features'))"
    ).fetchall()
    manual = "".join(page.read_text() for page in (*SQL_PAGES, root / "docs" / "registry.md"))
    reference = (root / "docs" / "reference" / "functions.md").read_text()
    for (name,) in found:
        if name.startswith(("_tusk", "tuskml_")):
            continue
        assert f"{name}(" in manual
        assert f"`{name}`" in reference
