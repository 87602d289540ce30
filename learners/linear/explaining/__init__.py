"""What is said of a training: explanations, the plan in a line, options in force, time."""
