"""What docs/python.md shows runs as it stands, one block after the other."""

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from tuskml import Model

mpl.use("Agg")


@pytest.mark.filterwarnings("ignore:.*input example was not provided")
def test_the_manual_s_python_runs(root: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    text = (root / "docs" / "python.md").read_text()
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/python.md", "exec"), shown)
    assert "intercept" in capsys.readouterr().out, "the summary is printed"
    assert isinstance(shown["model"], Model)
    assert (tmp_path / "convergence.png").stat().st_size > 0
    assert (tmp_path / "tip.onnx").stat().st_size > 0
    assert (tmp_path / "tip" / "MLmodel").exists()


def test_the_manual_s_links_lead_somewhere(root: Path) -> None:
    text = (root / "docs" / "python.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (root / "docs" / link).exists()] == []


def test_the_extras_that_the_manual_names_exist(root: Path) -> None:
    import tomllib

    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    named = re.findall(r"tuskml\[(\w+)\]", (root / "docs" / "python.md").read_text())
    assert named
    assert set(named) <= set(extras["optional-dependencies"])
