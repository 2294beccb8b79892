"""The report's tables: what stands in them, not how they are written."""
