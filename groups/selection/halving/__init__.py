"""Searches that stop losers early."""
