"""Explanations of a training that all learners share, as data and as text."""
