"""Search: scorers, each of which gives one matrix `[queries, documents]`.

`make` makes the scorer of a name. `mteb_search` puts it behind mteb's search protocol (`index`, `search`,
`mteb_model_meta`), and nothing else here knows that protocol. This room may import `encoders`, `tasks`, `data`,
`names`, `errors` and mteb.
"""
