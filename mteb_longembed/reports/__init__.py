"""From folders of results to tables, figures and pages.

This room reads only files. It may import `names`, `statistics` and `errors`, but no models and no tasks.
"""
