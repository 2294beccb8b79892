"""What `export` writes is whole or not there."""

import resource
import signal

import pytest

from mteb_longembed.encoders.export import export
from mteb_longembed.encoders.load import extend
from mteb_longembed.errors import StorageError


@pytest.fixture
def disk_takes_small_files():
    """No file may have more than 20,000 bytes, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_model_that_the_disk_does_not_take_leaves_no_folder(base, tmp_path, request) -> None:
    model = extend(base, "pi", 64, device="cpu")
    request.getfixturevalue("disk_takes_small_files")
    with pytest.raises(
        StorageError, match=r"'.*made' cannot be written \(.*\): make room, or give another folder"
    ):
        export(model, tmp_path / "made")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "made"))]
