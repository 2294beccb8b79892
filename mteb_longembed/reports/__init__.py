"""From folders of results to tables, figures and pages.

Reads files only: may import `names`, `statistics` and `errors`, never a model or a task.
"""
