"""Shells complete `tuskml`: asked in a terminal, by the Tab key."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tuskml.commands.cli import main

SECONDS = 60
START = {
    "bash": ("bash --norc --noprofile -i", "source {script}; bind 'set bell-style none'; PS1='>'"),
    "zsh": (
        "zsh -f -i",
        "fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -d {folder}/dump; PS1='>'",
    ),
}
NAMES = {"bash": "tuskml.bash", "zsh": "_tuskml", "fish": "tuskml.fish"}
TYPED = [
    ("tuskml tr", "tuskml train "),
    ("tuskml store exp", "tuskml store export "),
    ("tuskml train some.duckdb --ta", "tuskml train some.duckdb --task "),
    ("tuskml train some.duckdb --task log", "tuskml train some.duckdb --task logistic "),
    ("tuskml sql unmistak", "tuskml sql unmistakable.sql "),
]


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path, capsys) -> tuple[str, Path]:
    """A shell's name, and a folder with its script of completions and one file."""
    name = request.param
    if shutil.which(name) is None:
        if os.environ.get("TUSKML_REQUIRE_SHELLS"):
            pytest.fail(f"TUSKML_REQUIRE_SHELLS is set, and {name} is not installed")
        pytest.skip(f"{name} is not installed")
    assert main(["completion", name]) == 0
    (tmp_path / NAMES[name]).write_text(capsys.readouterr().out)
    (tmp_path / "unmistakable.sql").touch()
    return name, tmp_path


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        command, setup = START[name]
        self.master, slave = pty.openpty()
        environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder)}
        self.process = subprocess.Popen(
            command.split(),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self.type(setup.format(script=folder / NAMES[name], folder=folder) + "; echo rea'dy'\n")
        self.read_until(r"ready\r")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read_until(self, pattern: str) -> str:
        """What the shell shows, up to a pattern, or for SECONDS."""
        shown, deadline = "", time.monotonic() + SECONDS
        while not re.search(pattern, shown) and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                shown += os.read(self.master, 4096).decode(errors="replace")
        return shown

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.mark.parametrize("shell", ["bash", "zsh"], indirect=True)
def test_the_tab_key_completes(shell: tuple[str, Path]) -> None:
    terminal = Terminal(*shell)
    try:
        for typed, completed in TYPED:
            terminal.type(f"{typed}\t")
            shown = terminal.read_until(re.escape(completed))
            assert completed in shown
            terminal.type("\x15")  # Ctrl-U: an empty line again
    finally:
        terminal.close()


@pytest.mark.parametrize("shell", ["fish"], indirect=True)
def test_fish_completes(shell: tuple[str, Path]) -> None:
    _, folder = shell
    for typed, completed in TYPED:
        question = f"source {folder}/tuskml.fish; complete -C '{typed}'"
        answer = subprocess.run(
            ["fish", "--no-config", "-c", question],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            timeout=SECONDS,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"},
        )
        found = [line.split("\t")[0] for line in answer.stdout.splitlines()]
        assert found == [completed.split()[-1]]


def test_another_shell_is_wrong_usage(capsys) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err.replace("choose from ", "")


def test_help_is_as_before_after_a_completion(capsys) -> None:
    main(["train", "--help"])
    before = capsys.readouterr().out
    main(["completion", "bash"])
    capsys.readouterr()
    main(["train", "--help"])
    assert capsys.readouterr().out == before
