"""Passkey and Needle: documents that are generated here, offline, and are the same on every machine."""
