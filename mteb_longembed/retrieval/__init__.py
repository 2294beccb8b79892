"""Search: scorers, each of which returns one matrix `[queries, documents]`.

`make` builds the `Index` of a name. It imports only packages and modules that `.importlinter` puts below it, and mteb
only for models of mteb's own.
"""
