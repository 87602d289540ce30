"""Writes the archive for PGXN: the extensions' sources, a Makefile at its root, and META.json.

    python scripts/build/pgxn.py dist

`pgxn install dist/tuskml-VERSION.zip` builds and installs both extensions by the server's
pg_config. The Python packages of tuskml_train come by pip; the setting tuskml.python_path names
where they are.
"""

import argparse
import json
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SPECIFICATION = {"version": "1.0.0", "url": "https://pgxn.org/meta/spec.txt"}
MAKEFILE = """\
# Runs the Makefile of the extensions in a folder of its own.
all install uninstall:
\tmkdir -p build
\t$(MAKE) -C build -f $(CURDIR)/udas/postgres/Makefile $@

clean:
\trm -rf build

.PHONY: all install uninstall clean
"""
SOURCES = (
    *("udas/postgres/**/*", "udas/rowblock/**/*", "udas/scalars/**/*", "kvstore/mapped/*"),
    *("sql/postgres/**/*", "docs/postgres.md", "docs/approval.md"),
    *("LICENSE", "README.md", "SECURITY.md", "CHANGELOG.md", "pyproject.toml"),
)
ENDINGS = (".awk", ".c", ".h", ".sql", ".in", ".md", ".txt", ".toml")


def meta(project: dict[str, Any]) -> dict[str, Any]:
    """META.json of PGXN's specification 1.0.0, from the table `project` of pyproject.toml."""
    version = project["version"]
    abstracts = {
        "tuskml": "Predictions, explanations and metrics of models in SQL, in C alone",
        "tuskml_train": "Training by SQL aggregates, one model a group; needs PL/Python",
    }
    return {
        "name": "tuskml",
        "abstract": project["description"],
        "description": "tuskml trains machine-learning models by SQL aggregates, one for each "
        "group, and keeps them as values that SQL joins with rows to predict.",
        "version": version,
        "maintainer": ["The tuskml maintainers"],
        "license": "apache_2_0",
        "provides": {
            name: {
                "abstract": abstract,
                "file": f"sql/postgres/{name}/{name}.control.in",
                "docfile": "docs/postgres.md",
                "version": version,
            }
            for name, abstract in abstracts.items()
        },
        "prereqs": {
            "runtime": {
                "requires": {"PostgreSQL": "13.0.0"},
                "recommends": {"plpython3u": 0},
            }
        },
        "release_status": "unstable" if version.startswith("0.") else "stable",
        "tags": ["machine learning", "aggregates", "predictions", "statistics"],
        "generated_by": "scripts/build/pgxn.py",
        "meta-spec": SPECIFICATION,
    }


def sources() -> Iterator[Path]:
    """The files of the archive, relative to the root, each once and in order."""
    found = {path for pattern in SOURCES for path in ROOT.glob(pattern) if path.is_file()}
    for path in sorted(found):
        if path.suffix in ENDINGS or path.name in ("Makefile", "LICENSE"):
            yield path.relative_to(ROOT)


def write(folder: Path) -> Path:
    """The archive, whose bytes depend on its files alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    top = f"tuskml-{project['version']}"
    texts = {"META.json": json.dumps(meta(project), indent=2) + "\n", "Makefile": MAKEFILE}
    texts |= {str(path): (ROOT / path).read_text() for path in sources()}
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{top}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(f"{top}/{name}"), text, zipfile.ZIP_DEFLATED)
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the archive for PGXN.")
    parser.add_argument("folder", type=Path, help="where the archive is written")
    print(write(parser.parse_args().folder))
