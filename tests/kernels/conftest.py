"""Lets the tests here, and those of the GPU, import what `test_factorization` defines."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
