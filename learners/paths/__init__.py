"""Linear models with an L1 penalty, along paths of penalties."""
