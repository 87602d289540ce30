"""Runs a wheel for 64-bit Arm on this x86-64 machine and compares its numbers with this machine's.

    python scripts/tests/arm_check.py dist/tuskml-VERSION-py3-none-manylinux_2_31_aarch64.whl

It needs Debian or Ubuntu with qemu-user-static. A folder gets the distribution's Python for Arm,
by apt with a state of its own, and from pip the wheel and what it needs. qemu runs
`learners_answers.py` there: a model for each task. The Python that runs this trains the same.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = Path(__file__).with_name("learners_answers.py")
QEMU = "qemu-aarch64-static"
PACKAGES = ("python3", "libstdc++6", "libgomp1")
PLATFORMS = [f"manylinux_2_{minor}_aarch64" for minor in range(31, 16, -1)]
APT = """\
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
Dir::State "{state}";
Dir::State::status "{state}/status";
Dir::Cache "{cache}";
"""
CLOSE, CLOSE_FLOAT32 = 1e-12, 1e-6
"""Tolerances, relative to the largest of a model's coefficients, or of its predictions."""
IN_FLOAT32 = ("mlp",)
"""Tasks that compute in float32, in sums whose order depends on the width of vectors."""
SECONDS = 1500


def run(*command: object, **environment: str) -> str:
    """What a program prints; SystemExit with the end of what it says where it fails."""
    done = subprocess.run(
        list(map(str, command)),
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def make_root(folder: Path) -> Path:
    """Fills the folder with the distribution's Python for Arm, and returns its executable."""
    state, cache, root = (folder / name for name in ("state", "cache", "root"))
    for needed in (state / "lists" / "partial", cache / "archives" / "partial", root):
        needed.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    config = folder / "apt.conf"
    config.write_text(APT.format(state=state, cache=cache))
    if not list(root.glob("usr/bin/python3.*")):
        install = ("install", "--yes", "--download-only", "--no-install-recommends", *PACKAGES)
        for arguments in (("update",), install):
            run("apt-get", "--quiet", *arguments, APT_CONFIG=str(config))
        for archive in sorted((cache / "archives").glob("*.deb")):
            run("dpkg-deb", "--extract", archive, root)
    return next(path for path in root.glob("usr/bin/python3.*") if path.suffix[1:].isdecimal())


def needs(wheel: Path) -> list[str]:
    """What the wheel needs on Arm: markers are those of other processors and of extras."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        text = opened.read(name).decode()
    return re.findall(r"^Requires-Dist: ([^;\n]+)$", text, re.MULTILINE)


def install(wheel: Path, python: Path, target: Path) -> None:
    """Unpacks the wheel and what it needs, for the Python of the root."""
    common = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    common += ["--upgrade", "--target", str(target), "--only-binary", ":all:", "--no-compile"]
    common += ["--implementation", "cp", "--python-version", python.name.removeprefix("python")]
    common += [part for platform in PLATFORMS for part in ("--platform", platform)]
    run(*common, *needs(wheel))
    run(*common, "--no-deps", wheel)


def distance(here: Sequence[float], there: Sequence[float]) -> float:
    """The greatest difference, as a share of the greatest number."""
    if len(here) != len(there):
        return float("inf")
    largest = max(map(abs, here), default=0.0) or 1.0
    return max((abs(a - b) / largest for a, b in zip(here, there, strict=True)), default=0.0)


def compare(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """A line for each task that answers otherwise; prints a line for each."""
    apart = []
    for task, mine in here.items():
        theirs = there[task]
        coef, predictions = (
            distance(mine[part], theirs[part]) for part in ("coef", "predictions")
        )
        same = all(mine[part] == theirs[part] for part in ("status", "iterations"))
        line = f"{task}: coefficients {coef:.1e}, predictions {predictions:.1e}"
        line += "" if same else f", {mine['status']} and {theirs['status']}"
        line += "" if same else f", {mine['iterations']} and {theirs['iterations']} iterations"
        print(line)
        close = CLOSE_FLOAT32 if task in IN_FLOAT32 else CLOSE
        if max(coef, predictions) > close or not same:
            apart.append(line)
    return apart


def main() -> None:
    """Prints how far the numbers are apart, and exits with 1 where they are not the same."""
    parser = argparse.ArgumentParser(description="Runs a wheel for 64-bit Arm by qemu.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "arm")
    parser.add_argument("tasks", nargs="*", help="all, unless some are named")
    given = parser.parse_args()
    folder = given.folder.resolve()
    python = make_root(folder)
    install(given.wheel.resolve(), python, folder / "packages")
    emulated = [QEMU, "-L", str(folder / "root"), str(python), str(ANSWERS), *given.tasks]
    there = run(*emulated, PYTHONPATH=str(folder / "packages"), PYTHONNOUSERSITE="1")
    here = run(sys.executable, ANSWERS, *given.tasks)
    apart = compare(json.loads(here), json.loads(there))
    print(f"{len(apart)} of {len(json.loads(here))} tasks differ by more than is allowed")
    sys.exit(bool(apart))


if __name__ == "__main__":
    main()
