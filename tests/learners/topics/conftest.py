"""Lets the tests here import the documents of the kernels' tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "kernels" / "topics"))
