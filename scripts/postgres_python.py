"""Fills the environment of `postgres_version.sh`: packages, and this checkout as tuskml."""

import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTED_BY = (
    "hypothesis",
    "pandas",
    "pgspot",
    "psutil",
    "pyarrow",
    "pytest",
    "pytest-xdist",
    "scikit-learn",
    "statsmodels",
)


def main() -> None:
    """Installs requirements, and writes the paths of tuskml and its version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["postgres"], *TESTED_BY]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *needed], check=True)
    site = Path(sysconfig.get_path("purelib"))
    (site / "tuskml.pth").write_text(f"{ROOT / '.links'}\n")
    facts = site / f"tuskml-{project['version']}.dist-info"
    facts.mkdir(exist_ok=True)
    lines = ("Metadata-Version: 2.1", "Name: tuskml", f"Version: {project['version']}")
    (facts / "METADATA").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
