"""What an evaluation is: metrics, scores by query, ties, and the identity of data."""
