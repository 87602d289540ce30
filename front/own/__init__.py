"""Learners of the user's own: estimators of other packages, trained and used by SQL."""
