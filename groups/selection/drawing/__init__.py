"""Candidates that are drawn: from ranges, and by what the trials before them say."""
