"""Trainings on a cluster whose rows are in PostgreSQL."""
