"""Tasks, operators and algorithms of the user's own."""
