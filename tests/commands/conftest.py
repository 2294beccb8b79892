from tests.comparing.conftest import base, data, files  # noqa: F401 (fixtures)
from tests.reports.conftest import toy_run, toy_task  # noqa: F401 (fixtures)
