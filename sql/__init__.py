"""What each database runs: macros and example scripts."""
