"""Texts that people write and read: SQL expressions, tables, sentences about mistakes."""
