"""The contents of the report's tables. The room `writers` writes them in different formats."""
