"""The tables of the report. `writers` writes them in different formats."""
