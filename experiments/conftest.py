"""Two scripts need packages of the examples, which the tests do not."""

from importlib.util import find_spec

NEEDS = {"databases.py": "lancedb", "workers.py": "ray"}
collect_ignore = [file for file, package in NEEDS.items() if find_spec(package) is None]
