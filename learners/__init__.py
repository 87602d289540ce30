"""Learners: a folder each; what they share stands here."""
