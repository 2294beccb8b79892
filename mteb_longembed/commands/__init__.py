"""The sub-commands of `mteb-longembed`, one file each: its docstring is the description, `add_arguments`, `main`.

This is the top layer: it may import every other package, and only `cli` imports it, by name. Imports of torch and
mteb are inside functions, so that `--help` and usage errors need neither.
"""

#: The help of an option that several commands share.
JSON = "print JSON"
