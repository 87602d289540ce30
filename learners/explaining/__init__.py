"""What all learners' explanations of a training have in common, as data and as text."""
