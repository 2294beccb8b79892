"""Names of extended models: their grammar, their canonical form, the aliases, and how values are written.

This room knows nothing about a model's weights or files. It may import only the standard library and
`mteb_longembed.errors`: no torch, no mteb. Every other room may import it.
"""
