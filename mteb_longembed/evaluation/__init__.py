"""Evaluate a scorer on a split: metrics, scores by query, ties, and intervals."""
