"""Passkey and Needle, with documents that are generated offline and identical on every machine."""
