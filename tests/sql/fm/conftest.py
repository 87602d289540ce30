"""Lets the tests here import the machines in NumPy."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "learners" / "fm"))
