"""From folders of results to one DataFrame, a table by strategy, and a figure by length, without models and tasks."""
