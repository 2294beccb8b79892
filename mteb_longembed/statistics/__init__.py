"""How sure is a number? Intervals and tests over queries, for reports and for comparisons.

What lives here: `intervals` (what an interval is), `bootstrap` (intervals of means), `binomial` (intervals of right
answers out of n, where only the count is known) and `paired` (tests of a difference).
What it may import: numpy, scipy and `mteb_longembed.errors`. It knows no model, no task and no file.
Scores go in as arrays, one value for each query, or as mappings from a query's id to its score.
"""
