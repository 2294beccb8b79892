"""A user's own documents, queries and judgements: read by pandas, checked in one place, and made a task of mteb."""
