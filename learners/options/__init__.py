"""The options of `train_model`: kinds of values, the table that a learner declares, and hints."""
