"""Copies of rows: gathered, with other ids, or with names replaced by numbers."""
