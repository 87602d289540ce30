"""CONTRIBUTING's limits of C, C++ and CUDA: lines of a function and of a file, parameters.

python scripts/lint/limits_c.py [FILE ...]

Without files it looks at all that git knows of. It counts braces and parentheses; it is no parser.
A line of code is neither blank nor a comment. Each finding is a line; it exits with 1 if there is
one that EXCEPTIONS does not list.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_LINES, MOST_PARAMETERS, MOST_FILE_LINES = 40, 7, 400
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"}
LAUNCHED = "a kernel: the driver takes its arguments one by one"
ONE_BLOCK = "the registers and shared memory of one block; not yet divided"
HOT = "a model in registers, which a call would put into memory"
ACCESS = "the signature of tusk_frame_access"
LATER = "not yet divided"
EXCEPTIONS = {
    "kernels/gpu/cuda/cholesky.cuh:solve_in_place": ONE_BLOCK,
    "kernels/gpu/cuda/curvature.cu:curvature": LAUNCHED,
    "kernels/gpu/cuda/epoch.cu:epoch": f"{LAUNCHED}; {ONE_BLOCK}",
    "kernels/gpu/cuda/factorization.cu:train_ratings": f"{LAUNCHED}; {ONE_BLOCK}",
    "kernels/gpu/cuda/gradient.cu:gradient": ONE_BLOCK,
    "kernels/gpu/cuda/newton.cu:newton": f"{LAUNCHED}; {ONE_BLOCK}",
    "kernels/gpu/cuda/nets.cu:train_nets": f"{LAUNCHED}; {ONE_BLOCK}",
    "kernels/gpu/cuda/panel.cuh:add_up": ONE_BLOCK,
    "kernels/gpu/cuda/wide.cu:wide_rows": f"{LAUNCHED}; {ONE_BLOCK}",
    "kernels/native/epochs/rowwise_walk.hpp:walk": HOT,
    "kernels/native/stored/scratch.cpp:acquire": ACCESS,
    "kvstore/native/cache/acquire.cpp:ks_acquire": ACCESS,
    "kvstore/native/routes/routes.cpp:acquire": ACCESS,
    "kvstore/native/sealed.cpp:seal": LATER,
    "kvstore/native/sealed.cpp:ks_seal": LATER,
}
"""`file:function`, or a file, and why it may be longer or take more."""

NOISE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#(?:\\\n|[^\n])*""",
    re.DOTALL | re.MULTILINE,
)
COMMENT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
NO_FUNCTION = {"if", "for", "while", "switch", "catch", "return", "sizeof", "alignas", "decltype"}
NAME = re.compile(r"(~?\w+|operator\s*(?:\(\)|[^\s\w(]+))\s*$")
BEHIND = re.compile(r"\s*(?:const\b|noexcept\b|override\b|mutable\b|->\s*[\w:<>&*\s]+|\s)*")


@dataclass(frozen=True)
class Function:
    """A function with a body: where it begins, its lines, and its parameters."""

    name: str
    line: int
    lines: int
    parameters: int


def blanked(text: str) -> str:
    """The text without comments, strings and preprocessor lines; lines stay where they are."""
    return NOISE.sub(kept_lines, text)


def kept_lines(found: re.Match[str]) -> str:
    """As much blank text as was found, with the same ends of lines."""
    return (
        found[0] if found[0][0] in "\"'" and found.re is COMMENT else re.sub(r"\S", " ", found[0])
    )


def functions(text: str) -> Iterator[Function]:
    """The functions that are defined in a text, lambdas left out."""
    plain = blanked(text)
    for opened in re.finditer(r"\{", plain):
        head = head_of(plain, opened.start())
        if head is None:
            continue
        name, start, parameters = head
        end = matching(plain, opened.start(), "{", "}")
        first = plain.count("\n", 0, start) + 1
        yield Function(name, first, code_lines(plain[start : end + 1]), parameters)


def code_lines(plain: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in plain.splitlines())


def head_of(text: str, brace: int) -> tuple[str, int, int] | None:
    """Name, start and number of parameters of the function whose body begins at a brace."""
    start = 1 + max(text.rfind(mark, 0, brace) for mark in ";{}")
    start = after_labels(text, start, brace)
    head = text[start:brace]
    opened = parameters_at(head)
    if opened is None:
        return None
    closed = matching(head, opened, "(", ")")
    behind = head[closed + 1 :]
    found = NAME.search(head[:opened])
    if (
        found is None
        or found[1] in NO_FUNCTION
        or not is_definition(head[: found.start()], behind)
    ):
        return None
    begin = start + len(head) - len(head.lstrip())
    return found[1], begin, parameter_count(head[opened + 1 : closed])


def after_labels(text: str, start: int, brace: int) -> int:
    """Behind `public:` and such."""
    found = re.match(r"\s*(?:public|private|protected)\s*:", text[start:brace])
    return start + found.end() if found else start


def parameters_at(head: str) -> int | None:
    """Where the parameters' parenthesis is: the first outside of templates' brackets."""
    depth = 0
    skipped = re.match(r"\s*template\s*<", head)
    for place, mark in enumerate(head):
        if skipped and mark == "<":
            depth += 1
        elif skipped and mark == ">":
            depth -= 1
        elif mark == "(" and depth == 0 and not is_attribute(head[:place]):
            return place
    return None


def is_attribute(before: str) -> bool:
    """Whether a parenthesis behind this text belongs to an attribute or a requirement."""
    return bool(
        re.search(r"(__attribute__\s*\(*|__launch_bounds__|requires|\bdefined)\s*$", before)
        or before.count("(") > before.count(")")
    )


def is_definition(before: str, behind: str) -> bool:
    """Whether what is around name and parameters is what a definition has."""
    if re.search(r"[=?]|\breturn\b", before.replace("==", "")):
        return False
    rest = behind[BEHIND.match(behind).end() :]  # type: ignore[union-attr]
    return rest == "" or rest.startswith(":")


def matching(text: str, place: int, opening: str, closing: str) -> int:
    """Where what opens at a place closes; the end of a text that does not close it."""
    depth = 0
    for at in range(place, len(text)):
        depth += (text[at] == opening) - (text[at] == closing)
        if depth == 0:
            return at
    return len(text) - 1


def parameter_count(inside: str) -> int:
    """Parameters between a function's parentheses."""
    depth, count = 0, 1
    for mark in inside:
        depth += (mark in "(<[{") - (mark in ")>]}")
        count += mark == "," and depth == 0
    return 0 if inside.strip() in ("", "void") else count


def findings(path: Path, shown: str) -> Iterator[tuple[str, str]]:
    """What is beyond a limit in a file: a key of EXCEPTIONS, and a sentence."""
    text = path.read_text()
    lines = code_lines(COMMENT.sub(kept_lines, text))
    if lines > MOST_FILE_LINES:
        yield shown, f"{shown}: {lines} lines, allowed are {MOST_FILE_LINES}"
    for found in functions(text):
        key, where = f"{shown}:{found.name}", f"{shown}:{found.line}: {found.name} has"
        if found.lines > MOST_LINES:
            yield key, f"{where} {found.lines} lines, allowed are {MOST_LINES}"
        if found.parameters > MOST_PARAMETERS:
            yield key, f"{where} {found.parameters} parameters, allowed are {MOST_PARAMETERS}"


def sources() -> list[str]:
    """All sources in C, C++ and CUDA that git knows of."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.splitlines() if Path(name).suffix in SUFFIXES]


def main(names: list[str]) -> int:
    """Prints what is beyond the limits; 1 if anything is that EXCEPTIONS does not list."""
    found = [
        finding
        for name in names or sources()
        if Path(name).is_file()
        for finding in findings(Path(name), name)
    ]
    beyond = [sentence for key, sentence in found if key not in EXCEPTIONS]
    print("\n".join(beyond), end="\n" if beyond else "")
    return int(bool(beyond))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
