"""Stored models: the part that all learners share."""
