"""Small neural nets."""
