"""mteb's leaderboard: what it shows, its start without network, and the check before a submission.

May import mteb and gradio (both when a function runs), `plugin.mteb_parts`, `plugin.loading`, `tasks`, `names` and
`errors`.
"""
