from tests.comparing.conftest import base, data, files  # noqa: F401 (fixtures)
from tests.retrieval.conftest import encoded  # noqa: F401 (fixture)
