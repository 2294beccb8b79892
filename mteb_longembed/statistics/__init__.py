"""How sure is a number? Intervals and shares over groups of queries, for reports and for comparisons.

Scores are arrays with one value for each query. This room knows nothing about models, tasks or files.
"""
