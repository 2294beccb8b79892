"""How sure is a number? Intervals and tests over queries, for reports and for comparisons.

What lives here: `intervals` (what an interval is), `bootstrap` (intervals of means), `binomial` (intervals of right
answers out of n, if only their count is known) and `paired` (tests of a difference).
What it may import: numpy, scipy and `mteb_longembed.errors`. It knows nothing about models, tasks or files.
Scores are arrays with one value for each query, or mappings from a query's id to its score.
"""
