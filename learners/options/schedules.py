"""How steps shrink, as all learners that take steps have it."""

POWERS = {"constant": 0.0, "1/sqrt(i)": 0.5, "1/i": 1.0, "1/i^2": 2.0}
"""By schedule, the power of the iteration that divides the first step."""
