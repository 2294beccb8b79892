"""A user's own documents, queries and judgements: read in batches, checked in one place, and made a task of mteb."""
