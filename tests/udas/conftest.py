"""Lets the tests here import their helpers, `rows` and `fitting`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
