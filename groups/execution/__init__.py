"""Where units of work run: threads of this process, or the workers of a Ray cluster."""
