"""What stored models of all learners share."""
