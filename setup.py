"""Builds tuskml: top-level folders become one package, native sources become its libraries."""

import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts" / "build"))

from native import BuildNative, PlatformWheel, libraries  # noqa: E402

ROOMS = {
    "front": "tuskml",
    "sql": "tuskml.sql",
    "udas": "tuskml.udas",
    "optimizer": "tuskml.optimizer",
    "groups": "tuskml.groups",
    "kvstore": "tuskml.kvstore",
    "partitioner": "tuskml.partitioner",
}


def packages() -> list[str]:
    """Each room, and each folder below it that holds an `__init__.py`."""
    found = []
    for folder, name in ROOMS.items():
        room = ROOT / folder
        for init in sorted(room.rglob("__init__.py")):
            found.append(".".join([name, *init.parent.relative_to(room).parts]))
    return found


setup(
    packages=packages(),
    package_dir={name: folder for folder, name in ROOMS.items()},
    include_package_data=False,
    package_data={
        "tuskml": ["py.typed"],
        "tuskml.sql": ["**/*.sql", "postgres/*.in"],
        "tuskml.udas": [  # PostgreSQL's extension is compiled where its server is
            "postgres/Makefile",
            "postgres/exports.txt",
            *(f"{folder}/*.[ch]" for folder in ("postgres", "rowblock", "scalars")),
        ],
        "tuskml.udas.gpu": ["cuda/*.cu", "cuda/*.cuh"],
        "tuskml.kvstore": ["mapped/*.[ch]"],
        "tuskml.optimizer": ["shipped.json"],
    },
    ext_modules=libraries(),
    cmdclass={"build_ext": BuildNative, "bdist_wheel": PlatformWheel},
)
