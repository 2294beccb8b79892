"""`compare`: which method for long documents is best for a user's model and data, and what does it cost?

From candidates and a run to one frame of scores by query; from that to one frame of candidates (`summary`), and from
that to `verdict` and the page. This package may import every other one except `commands`, `plugin` and `tuning`.
"""
