from __future__ import annotations

from tests.reports.conftest import toy_run, toy_task

__all__ = ["toy_run", "toy_task"]
