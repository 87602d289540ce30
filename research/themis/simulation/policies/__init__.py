"""Schedulers of the simulation. Machines are chosen alike for all."""
