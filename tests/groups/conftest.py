"""Lets the tests here import the helpers of `tests/udas`, `rows` and `fitting`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "udas"))
