"""Other people's numbers, kept as data with their sources: the paper's, BEIR's, and mteb's public results."""
