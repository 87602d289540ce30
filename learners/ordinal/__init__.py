"""Ordinal regression: cumulative link models."""
