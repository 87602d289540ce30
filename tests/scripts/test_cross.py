"""Every native source compiles for a processor that is not this machine's."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = "aarch64-linux-gnu"


@pytest.mark.nightly
@pytest.mark.skipif(
    not (shutil.which("clang++") and Path("/usr", TARGET, "include").is_dir()),
    reason="it needs clang and the C and C++ libraries' headers for the other processor",
)
def test_all_sources_compile(root):
    command = [sys.executable, "scripts/build/cross.py", TARGET]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    compiled, total = done.stdout.split()[1], done.stdout.split()[3]
    assert compiled == total
    assert int(total) > 250
