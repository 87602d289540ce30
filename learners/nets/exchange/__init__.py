"""A net that several workers train together: each step is one of all of them."""
