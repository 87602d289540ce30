"""Lets the tests here import `stored_fits`, and the helpers of `tests/udas`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "udas"))
sys.path.append(str(Path(__file__).parent))
