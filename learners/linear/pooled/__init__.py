"""Models of many groups that learn from each other."""
