"""Gradient boosting of a group whose rows lie in parts."""
