"""Parquet shards that are sorted by group: writing them, and finding the groups of files."""
