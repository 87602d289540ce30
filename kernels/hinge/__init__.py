"""State by row of the solvers of the hinge, and their kernels."""
