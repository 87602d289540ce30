"""What this machine takes: constants of calibrations, and seconds of reading rows."""
