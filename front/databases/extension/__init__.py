"""The extension in PostgreSQL: built, installed, checked, upgraded, and scripts in psql's way."""
