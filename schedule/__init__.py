"""Who may use what, when: `budget` says how many threads."""
