"""Tests of exchanges share a training."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
