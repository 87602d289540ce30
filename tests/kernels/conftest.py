"""Lets the tests here, and those in the folders below, import what others define."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE / "stored"), str(HERE / "topics")]
