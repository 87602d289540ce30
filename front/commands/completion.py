"""`tuskml completion`: the completion of tuskml's commands and options for a shell.

The script is static, made by shtab from the command's own grammar: a Tab starts no Python.
"""

import argparse
import re

import shtab

from tuskml.commands.terminal.usage import Parser, describe

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


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml completion`."""
    describe(
        command,
        show_completion,
        "Prints a script that lets a shell complete tuskml's commands, options and files.",
        EXAMPLES,
    )
    command.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def show_completion(args: argparse.Namespace) -> None:
    """Prints the script."""
    print(shtab.complete(plain_grammar(args.top), args.shell))


def plain_grammar(top: Parser) -> Parser:
    """The whole grammar with one-line help, which shells show."""
    for action in top.complete()._actions:
        if hasattr(action, "completes_files"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):
            summaries = {one.dest: one.help for one in action._choices_actions}
            for name, command in action.choices.items():
                command.description = summaries.get(name) or command.description
                plain_grammar(command)
        elif action.help:
            action.help = re.sub(r"\s+", " ", action.help)
    return top
