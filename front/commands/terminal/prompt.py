"""`tuskml sql` on a terminal: a prompt for statements, in either database."""

import contextlib
import re
import signal
import sys
from collections.abc import Callable, Iterator

from tuskml.commands.terminal.ctrl_c import ends_trainings
from tuskml.databases.script import Result
from tuskml.errors import Interrupted, TuskError
from tuskml.text.expressions import TOKEN

FIRST, NEXT = "tuskml> ", "   ...> "
NAME = "input"
DOLLARS = re.compile(r"\$(?:[^\W\d][^\W$]*)?\$")
LEAVE = ("\\q", ".quit", ".exit", "quit", "exit")
HELP = ("\\?", "\\h", ".help", "help")
TEXT = """A statement ends with ; and may have many lines. Ctrl-C ends what runs, or forgets what
was typed. Ctrl-D, exit or \\q leaves."""


def prompt(execute: Callable[[str, str], Iterator[Result]], as_json: bool = False) -> None:
    """Reads statements and prints their results, until the end of input.

    execute: runs a named script. An error is printed, and the prompt continues.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, edits the line and remembers those before
    print("tuskml: SQL with train_model and predict; help says how, exit leaves", file=sys.stderr)
    for text in statements():
        if text.rstrip(";").strip() in LEAVE:
            return
        if text.rstrip(";").strip() in HELP:
            print(TEXT)
            continue
        try:
            with ends_trainings():
                for result in execute(text, NAME):
                    print(result.as_json() if as_json else result.as_table())
        except (KeyboardInterrupt, Interrupted):
            print("tuskml: interrupted", file=sys.stderr)
        except TuskError as error:
            print(f"tuskml: {str(error).removeprefix(f'{NAME}, line 1: ')}", file=sys.stderr)


def statements() -> Iterator[str]:
    """The typed text, yielded each time it ends with a semicolon, or is one of the prompt's
    own words.
    """
    text = ""
    while True:
        try:
            with ignore_interrupts():
                line = input(NEXT if text else FIRST)
        except KeyboardInterrupt:
            print(file=sys.stderr)
            text = ""
            continue
        except EOFError:
            print(file=sys.stderr)
            if text.strip():
                yield text
            return
        text += f"\n{line}" if text else line
        if not text.strip():
            text = ""
        elif complete(text) or text.strip() in LEAVE + HELP:
            yield text
            text = ""


def complete(text: str) -> bool:
    """Returns whether text ends with a semicolon that is neither quoted nor in a comment."""
    last = ""
    for token in TOKEN.finditer(text):
        if token.lastgroup == "other" and token[0] in "'\"":
            return False  # a quote that stays open
        if token.lastgroup == "word" and DOLLARS.match(token[0]):
            return False  # so does a quote of PostgreSQL's, such as a function's body
        comment = token[0] == "/" and text.startswith("/*", token.start())
        if token.lastgroup == "other" and comment:
            return False
        if token.lastgroup != "comment" and not token[0].isspace():
            last = token[0]
    return last == ";"


@contextlib.contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Within it Ctrl-C belongs to the prompt: it must not cancel later trainings."""
    before = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)
