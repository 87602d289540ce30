"""Asks auditwheel whether wheels keep what their tags promise: python audit.py WHEEL..."""

import json
import re
import subprocess
import sys
from pathlib import Path


def promised(wheel: Path) -> str:
    """The platform of a wheel's name, such as `manylinux_2_31_x86_64`."""
    return wheel.stem.rsplit("-", 1)[1]


def oldest_platform(wheel: Path) -> str:
    """The oldest platform that the wheel's libraries run on, by auditwheel."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json"]
    done = subprocess.run([*command, str(wheel)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"auditwheel show {wheel}: {done.stdout}{done.stderr}")
    return str(json.loads(done.stdout)["overall_tag"])


def glibc(platform: str) -> tuple[int, int]:
    """The C library's version in a platform's name; a very new one where it names none."""
    version = re.match(r"manylinux_(\d+)_(\d+)_", platform)
    return (int(version[1]), int(version[2])) if version else (1000, 0)


def main() -> None:
    """Prints the result of each wheel, and exits with 1 if one promises more than it keeps."""
    kept = True
    for wheel in map(Path, sys.argv[1:]):
        least = oldest_platform(wheel)
        kept &= glibc(least) <= glibc(promised(wheel))
        print(f"{wheel.name}: its libraries need {least}")
    sys.exit(not kept)


if __name__ == "__main__":
    main()
