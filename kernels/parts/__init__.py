"""Sums over the rows of a group whose parts are on different workers."""
