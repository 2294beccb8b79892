"""mteb's leaderboard: what it shows, how it starts without network, and the check before a submission.

This room may import mteb and gradio (both only when a function runs), `plugin.mteb_parts`, `plugin.metadata`, `tasks`,
`names` and `errors`.
"""
