"""What follows from a training: errors, statuses, and models that rows do not determine."""
