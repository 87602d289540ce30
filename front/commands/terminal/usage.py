"""Shared by the subcommands of `tuskml`: grammar, usage errors, help with examples."""

import argparse
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tuskml.errors import nearest
from tuskml.learners.options.other_names import CONDITIONS, argument_meant, hint, task_hint

Commands = argparse._SubParsersAction
Run = Callable[[argparse.Namespace], None]
WIDTH = 88
STATUSES = """\
exit status:
  0    done
  1    the job failed: one sentence on standard error says why
  2    wrong usage: one sentence on standard error says what is allowed
  130  ended by Ctrl-C
"""
UNKNOWN = re.compile(r"unrecognized arguments: --([\w-]+)")
EXTRA = re.compile(r"unrecognized arguments: ([^-\s]\S*)$")
INVALID = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


class Help(argparse.RawDescriptionHelpFormatter):
    """Formats arguments and their descriptions side by side."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=WIDTH)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and whose help ends in examples as they are.

    grammar: adds the arguments and the help when they are first needed.
    """

    def __init__(
        self, *args: Any, grammar: Callable[["Parser"], None] | None = None, **given: Any
    ) -> None:
        self._grammar = grammar
        given.setdefault("formatter_class", Help)
        given.setdefault("allow_abbrev", False)
        if given.get("description"):
            given["description"] = textwrap.fill(given["description"], WIDTH)
        super().__init__(*args, **given)

    def complete(self) -> "Parser":
        """The parser with its grammar."""
        grammar, self._grammar = self._grammar, None
        if grammar is not None:
            grammar(self)
        return self

    def error(self, message: str) -> NoReturn:
        """Ends with status 2: the fault, the nearest name, and where to find help."""
        found = INVALID.search(message)
        near = nearest(found[1], re.findall(r"[\w-]+", found[2])) if found else ""
        if found and message.startswith("argument --task") and task_hint(found[1]):
            near = f"{task_hint(found[1])};"
        extra = EXTRA.search(message)
        if extra and "--database" in self._option_string_actions:
            near = f"; did you mean --database {extra[1]}?"
        unknown = UNKNOWN.search(message)
        if unknown:
            near = self._near(unknown[1])
        self.exit(2, f"{self.prog}: {' '.join(message.split())}{near or ';'} see {self.prog} -h\n")

    def _near(self, name: str) -> str:
        """A hint on the flag that an unknown one may stand for."""
        flags = [flag[2:] for flag in self._option_string_actions if flag.startswith("--")]
        meant = argument_meant(name).replace("_", "-")
        if hint(name):
            return f"{hint(name)};"
        if name.lower() in CONDITIONS and "source" in flags:
            return "; --source may be a query, 'SELECT ... WHERE ...';"
        if meant in flags:
            return f"; did you mean --{meant}?"
        return nearest(name, flags).replace("'", "--", 1).replace("'", "")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Rejects unknown arguments here, where the flags are known."""
        self.complete()
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left


def add_command(
    commands: "Commands[Any]",
    name: str,
    run: Run | None,
    summary: str,
    description: str,
    examples: str,
) -> Parser:
    """Adds a subcommand, which `describe` describes. summary: a line in the list of commands."""
    command: Parser = commands.add_parser(name, help=summary)
    describe(command, run, description, examples)
    return command


def describe(command: Parser, run: Run | None, description: str, examples: str) -> None:
    """Sets a command's help and function.

    run: None if its actions have functions; examples: commands to copy, without a heading.
    """
    command.description = textwrap.fill(description, WIDTH)
    command.epilog = "examples:\n" + textwrap.indent(textwrap.dedent(examples).strip("\n"), "  ")
    if run is not None:
        command.set_defaults(run=run)


def add_json(command: argparse.ArgumentParser, text: str) -> None:
    """Adds the option for programs."""
    command.add_argument("--json", action="store_true", help=text)


def files(action: argparse.Action) -> argparse.Action:
    """Has shells complete the argument by files' names."""
    action.completes_files = True  # type: ignore[attr-defined]
    return action


def positive(text: str) -> int:
    """A whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number
