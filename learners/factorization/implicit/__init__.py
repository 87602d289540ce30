"""Matrix factorization of implicit feedback: how often a user chose an item."""
