"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

# tests never assert times, so hypothesis may not either
settings.register_profile("longembed", deadline=None)
settings.load_profile("longembed")
