"""A simulated cluster that learns over groups: pure functions, calibrated by real runs."""
