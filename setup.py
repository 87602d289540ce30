"""Builds tuskml: top-level folders become one package, native sources become its libraries."""

import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts" / "build"))

from native import BuildNative, PlatformWheel, libraries  # noqa: E402

FOLDERS = {
    "front": "tuskml",
    "sql": "tuskml.sql",
    "udas": "tuskml.udas",
    "groups": "tuskml.groups",
    "learners": "tuskml.learners",
    "schedule": "tuskml.schedule",
    "kernels": "tuskml.kernels",
    "kvstore": "tuskml.kvstore",
    "partitioner": "tuskml.partitioner",
}
DBT_PACKAGE = "tuskml.dbt_package"
"""Macros that dbt reads, in a folder without an `__init__.py`, which would hide dbt's."""


def packages() -> list[str]:
    """Each top-level folder, and each folder below it that holds an `__init__.py`."""
    found = []
    for folder, name in FOLDERS.items():
        top = ROOT / folder
        for init in sorted(top.rglob("__init__.py")):
            found.append(".".join([name, *init.parent.relative_to(top).parts]))
    return found


setup(
    packages=[*packages(), DBT_PACKAGE],
    package_dir={name: folder for folder, name in FOLDERS.items()} | {DBT_PACKAGE: "dbt"},
    include_package_data=False,
    package_data={
        "tuskml": ["py.typed"],
        "tuskml.report": ["page.css", "page.js"],
        "tuskml.sql": ["**/*.sql", "postgres/*.awk", "postgres/*/*.in"],
        "tuskml.udas": [  # PostgreSQL's extension is compiled where its server is
            "postgres/Makefile",
            "postgres/exports.txt",
            *(f"{folder}/**/*.[ch]" for folder in ("postgres", "rowblock", "scalars")),
        ],
        "tuskml.kernels.gpu": ["cuda/*.cu", "cuda/*.cuh"],
        "tuskml.kvstore": ["mapped/*.[ch]"],
        "tuskml.learners.machine": ["shipped.json"],
        DBT_PACKAGE: [
            "dbt_project.yml",
            *(
                f"{folder}/**/*.{kind}"
                for folder in ("docs", "macros", "tests")
                for kind in ("md", "sql", "yml")
            ),
            *(
                f"integration_tests/{files}"
                for files in ("*.yml", ".gitignore", "models/*", "seeds/*")
            ),
        ],
    },
    ext_modules=libraries(),
    cmdclass={"build_ext": BuildNative, "bdist_wheel": PlatformWheel},
)
