"""Names of extended models: their grammar, the aliases, and how values are written. No torch, no mteb."""
