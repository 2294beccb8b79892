"""The sub-commands of `mteb-longembed`, one file each, with `add_arguments(parser)` and `main(args) -> int`.

The top room: it may import every other, and nothing imports it but `cli`, by name. Heavy imports stand inside
functions, so that `--help` and a misspelt option answer at once.
"""
