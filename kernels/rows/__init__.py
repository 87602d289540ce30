"""Copies of rows: side by side, with other ids, or with names made numbers."""
