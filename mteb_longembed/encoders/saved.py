"""The models that we saved: which folders and repositories hold one, and what their setting says."""

from dataclasses import asdict, dataclass
from typing import Self

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import LongEmbedError, ModelError
from mteb_longembed.files import Json

from .repository import Files

#: The class of the backbone of a model that we saved, as modules.json names it.
BACKBONE = "mteb_longembed.encoders.model.LongTransformer"


@dataclass(frozen=True)
class SavedSetting:
    """The entry `longembed` of sentence_bert_config.json."""

    strategy: Strategy  #: with all lengths and parameters
    base: str  #: the name of the base that the model was made from
    base_revision: str | None = None  #: the commit of the base on the hub
    has_long_rows: bool = False  #: whether the position rows of long documents are in the weights

    @classmethod
    def read(cls, setting: Json, where: str) -> Self:
        """Read the setting in the file `where`.

        Raises:
            ModelError: if it names none of our strategies, or a value breaks a rule.
        """
        try:
            values = {**setting}
            base, revision = values.pop("base"), values.pop("base_revision")
            has_long_rows = bool(values.pop("has_long_rows", False))
            return cls(STRATEGIES[values.pop("strategy")](**values), base, revision, has_long_rows)
        except (TypeError, KeyError, ValueError) as error:
            raise ModelError(f"{where} must hold a strategy with its parameters ({error}).") from error

    def to_json(self) -> Json:
        """Return the setting as it is saved."""
        made_of = {"base": self.base, "base_revision": self.base_revision}
        values = {"strategy": self.strategy.KEY, **asdict(self.strategy), **made_of}
        if self.has_long_rows:
            values["has_long_rows"] = True
        return values


def is_saved(name: str, revision: str | None) -> bool:
    """Return whether a repository on the hub has a model that we saved. False if it cannot be read."""
    try:
        return BACKBONE in [module["type"] for module in Files.open(name, revision).modules()]
    except LongEmbedError:
        return False
