"""Factorization machines."""
