"""Sums over the rows of a group of which each part lies somewhere else."""
