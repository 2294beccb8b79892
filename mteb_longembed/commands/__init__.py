"""The sub-commands of `mteb-longembed`, one file each, with `add_arguments(parser)` and `main(args) -> int`.

This is the top room: it may import every other room, and only `cli` imports it, by name. Heavy imports are inside
functions, so that `--help` and the error for a wrong option come at once.
"""
