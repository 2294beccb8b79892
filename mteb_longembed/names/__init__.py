"""Names of extended models: their grammar, their canonical form, the aliases, and how values are written.

This room knows nothing of a model's weights or files, so it may import only the standard library and
`mteb_longembed.errors`: no torch, no mteb. Everything else may import it.
"""
