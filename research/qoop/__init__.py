"""Re-planning while queries run (QOOP): the model of its analysis, and adversaries."""
