"""`compare`: which way of embedding long documents is best for a user's model and data, and what does it cost?

What lives here: the candidates, their evaluations (one candidate on one split of one task), costs, ranking,
recommendation and the page. This room may import every room except `commands`, `plugin` and `tuning`. mteb runs the
evaluations.
"""
