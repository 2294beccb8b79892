"""Passkey and Needle: documents that are generated here, offline and the same on every machine."""
