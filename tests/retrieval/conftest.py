from typing import Any

import pytest

from mteb_longembed.encoders.backbone import LongTransformer


@pytest.fixture(autouse=True)
def once(bases_loaded_once: None) -> None:
    """Tests of this room load bases to search with them."""


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are tokenised."""
    texts: list[str] = []
    token_ids = LongTransformer.token_ids

    def noting(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        texts.extend(inputs)
        return token_ids(self, inputs, *args, **kwargs)

    monkeypatch.setattr(LongTransformer, "token_ids", noting)
    return texts
