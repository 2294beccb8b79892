"""mteb's leaderboard: what it shows, and how it starts without network."""
