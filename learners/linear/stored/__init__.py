"""Linear models whose weights live in a store."""
