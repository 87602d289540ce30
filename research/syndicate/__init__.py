"""Exchanges of bulk data (Syndicate): baselines, and recommendation models that exchange."""
