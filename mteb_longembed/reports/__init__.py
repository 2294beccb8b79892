"""From folders of results to one DataFrame, a table by strategy, and a figure by length.

This room reads only files. It may import `names`, `statistics`, `files` and `errors`, but no models and no tasks.
"""
