"""The dbt package and the plugin by themselves."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import tuskml


@pytest.fixture
def plugin() -> Any:
    """The module, which takes seconds to import."""
    from tuskml import dbt

    return dbt


@pytest.mark.smoke
def test_the_package_is_where_it_says(plugin: Any) -> None:
    folder = plugin.package_path()
    project = (folder / "dbt_project.yml").read_text()
    assert f'version: "{tuskml.__version__}"' in project
    assert (folder / "macros" / "materializations" / "model.sql").is_file()
    assert (folder / "tests" / "generic" / "no_drift_from.sql").is_file()
    assert (folder / "docs" / "tuskml.md").is_file()


@pytest.mark.smoke
def test_the_lines_for_packages_yml(
    plugin: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As `python -m tuskml.dbt` runs the module, in this process, which has dbt already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["dbt.py"])
    monkeypatch.delitem(sys.modules, "tuskml.dbt")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("tuskml.dbt", run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"packages:\n  - local: {plugin.package_path()}\n"


def test_a_project_to_begin_with(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests/dbt/test_flights.py runs it."""
    folder = tmp_path / "new"
    assert plugin.main(["init", str(folder)]) == 0
    assert capsys.readouterr().out == f"next: cd {folder} && dbt deps && dbt build\n"
    assert (folder / "packages.yml").read_text() == plugin.packages()
    assert (folder / "seeds" / "flights.csv").read_text().startswith("date,carrier,hour")
    assert plugin.main(["init", str(folder)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_a_config_that_is_none(plugin: Any) -> None:
    with pytest.raises(ValueError, match="has a config 'stores', expected registry or store_root"):
        plugin.Plugin(name="tuskml", plugin_config={"stores": "x"})


def test_a_project_may_do_without_the_registry(plugin: Any, tmp_path: Path) -> None:
    import duckdb

    config: dict = {}
    made = plugin.Plugin(
        name="tuskml", plugin_config={"registry": False, "store_root": str(tmp_path)}
    )
    made.update_connection_config(None, config)
    with duckdb.connect(tmp_path / "some.duckdb", config=config) as connection:
        made.configure_connection(connection)
        cursor = connection.cursor()
        made.configure_cursor(cursor)
        assert cursor.execute("SELECT (with_payload(NULL)).coef").fetchone() == (None,)
        assert cursor.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)


def test_every_macro_for_users_is_documented(root: Path) -> None:
    """What a user's project calls stands in macros/schema.yml with all its arguments."""
    import yaml

    folder = root / "dbt" / "macros"
    listed = yaml.safe_load((folder / "schema.yml").read_text())["macros"]
    documented = {one["name"]: [a["name"] for a in one.get("arguments", [])] for one in listed}
    files = [*sorted((folder / "functions").glob("*.sql")), folder / "registry" / "rollback.sql"]
    text = "\n".join(path.read_text() for path in files)
    defined = re.findall(r"{% macro (\w+)\((.*?)\) %}", text)
    private = {"training_arguments", "features_of", "known_tasks", "metrics_of"}
    private |= {
        "metric_names",
        "classifies",
        "has_probabilities",
        "has_no_label",
        "has_documents",
        "lower_is_better",
    }
    for name, arguments in defined:
        if name not in private and not name.startswith("default__"):
            names = re.findall(r"(\w+)(?:=(?:\[\]|\{\}|[^,]+))?(?:,|$)", arguments)
            assert documented.get(name) == names, name
    tests = [path.stem for path in (root / "dbt" / "tests" / "generic").glob("*.sql")]
    ours = ["auc_at_least", "metric_at_least", "model_converged", "model_status_ok"]
    assert sorted(tests) == [*ours, "no_drift_from"]
