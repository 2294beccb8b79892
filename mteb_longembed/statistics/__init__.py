"""How sure is a number? Intervals and tests over queries, for reports and for comparisons.

What lives here: `intervals` (what an interval is, and that of a share), `bootstrap` (intervals of means, and
the paired test of a difference).
What it may import: numpy, scipy and `mteb_longembed.errors`. It knows nothing about models, tasks or files.
Scores are arrays with one value for each query, or mappings from a query's id to its score.
"""
