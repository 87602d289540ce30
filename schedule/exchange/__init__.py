"""The exchange between workers as a plan: motifs, joint optimisation of order and execution."""
