"""Search: scorers, each of which returns one matrix `[queries, documents]`.

`make` builds the scorer of a name. `mteb_search` wraps it in mteb's search protocol (`index`, `search`,
`mteb_model_meta`), which nothing else here knows. It imports only packages and modules that `.importlinter`
puts below it, and mteb.
"""
