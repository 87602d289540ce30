"""What solvers of the hinge keep for each row, and their kernels."""
