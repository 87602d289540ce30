"""The release workflow names programs, targets and rights that exist and that it needs."""

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")


@pytest.fixture(scope="module")
def workflow(root: Path) -> dict[str, Any]:
    found = yaml.safe_load((root / ".github" / "workflows" / "release.yml").read_text())
    assert isinstance(found, dict)
    return found


def commands(workflow: dict[str, Any]) -> str:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return "\n".join(step.get("run", "") for step in steps)


def test_what_it_runs_is_there(workflow: dict[str, Any], root: Path) -> None:
    run = commands(workflow)
    scripts = set(re.findall(r"scripts/[\w/]+\.py", run))
    assert scripts == {"scripts/build/release.py", "scripts/tests/fresh_wheel.py"}
    assert all((root / name).is_file() for name in scripts)
    makefile = (root / "Makefile").read_text()
    for target in re.findall(r"\bmake (\w+)", run):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_jobs_wait_for_each_other(workflow: dict[str, Any]) -> None:
    """Nothing is published that was not tried in fresh environments and attested."""
    jobs = workflow["jobs"]
    order, job = [], "github"
    while job:
        order.append(job)
        job = jobs[job].get("needs")
    assert order == ["github", "pypi", "bundle", "fresh", "wheel"] == list(reversed(list(jobs)))


def test_rights(workflow: dict[str, Any]) -> None:
    """PyPI trusts the workflow itself: no job has a password."""
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {"contents": "read"}
    assert jobs["pypi"]["permissions"] == {"id-token": "write"}
    assert jobs["bundle"]["permissions"]["attestations"] == "write"
    writers = [name for name, job in jobs.items() if "write" in str(job.get("permissions"))]
    assert writers == ["bundle", "pypi", "github"]
    secrets = re.findall(r"secrets\.(\w+)", yaml.safe_dump(workflow))
    assert secrets == ["DUCKDB_EXTENSION_KEY"]
