"""Linear models of rows that are read by row group."""
