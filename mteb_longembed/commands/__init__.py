"""The sub-commands of `mteb-longembed`, one file each: its docstring is the description, `add_arguments`, `main`.

This is the top room: it may import every other room, and only `cli` imports it, by name. Heavy imports are inside
functions, so that `--help` and the error for a wrong option come at once.
"""

#: The help of an option that several commands have.
JSON = "print JSON"
