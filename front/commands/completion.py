"""`tuskml completion`: what a shell needs to complete tuskml's commands and options.

The script is static, made by shtab from the command's own grammar: a Tab starts no Python.
"""

import argparse
import re
from typing import Any

import shtab

from tuskml.commands.terminal.usage import Commands, Parser, add_command

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """
bash, for new shells (needs the package bash-completion):
  mkdir -p ~/.local/share/bash-completion/completions
  tuskml completion bash > ~/.local/share/bash-completion/completions/tuskml
zsh, where ~/.zfunc is in fpath before compinit:
  tuskml completion zsh > ~/.zfunc/_tuskml
fish:
  tuskml completion fish > ~/.config/fish/completions/tuskml.fish
bash, this shell alone:
  eval "$(tuskml completion bash)"
"""


def add_completion(commands: "Commands[Any]", top: Parser) -> None:
    """The grammar of `tuskml completion`."""

    def show(given: argparse.Namespace) -> None:
        print(shtab.complete(unmarked(top), given.shell))

    command = add_command(
        commands,
        "completion",
        show,
        "print what completes tuskml's commands in bash, zsh or fish",
        "Prints a script that lets a shell complete tuskml's commands, options and files.",
        EXAMPLES,
    )
    command.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def unmarked(top: Parser) -> Parser:
    """The grammar with help in one line, which is what shells show."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {one.dest: one.help for one in action._choices_actions}
            for name, command in action.choices.items():
                command.description = summaries.get(name) or command.description
                unmarked(command)
        elif action.help:
            action.help = re.sub(r"\s+", " ", action.help)
    return top
