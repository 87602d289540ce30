"""Workers that exchange by plans: connections, agreement on plans, what happens when one fails."""
