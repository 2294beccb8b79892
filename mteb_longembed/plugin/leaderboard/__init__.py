"""mteb's leaderboard: what it shows, how it starts without network, and the check before a submission."""
