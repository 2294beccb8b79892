"""What a name asks for: `BASE+STRATEGY[@TARGET][:key=value,...]` as one typed and checked value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from mteb_longembed.encoders.strategies import Strategy, get_strategy
from mteb_longembed.encoders.vectors import Vectors, read_vectors
from mteb_longembed.errors import IncompatibleError, InputError, UnknownNameError
from mteb_longembed.files import holds_model, is_folder
from mteb_longembed.names.grammar import (
    MAX_LENGTH,
    SEARCH_SETTINGS,
    split_name,
    split_settings,
    target_alone,
)
from mteb_longembed.names.parameters import read, read_tokens, spell
from mteb_longembed.names.zoo import ZOO

#: Checked values by the names of their parameters.
Settings = Mapping[str, object]
#: Short spellings of compute types -> torch's names.
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_SHORT: dict[str | None, str] = {full: short for short, full in DTYPES.items()}
#: The parameters that every name may set after the colon, whatever its strategy.
OF_EVERY_NAME = ("dtype", "revision", "trained_len", "trust_remote_code", "vectors")


@dataclass(frozen=True)
class ModelSpec:
    """A base, a strategy and their settings. Values may be given as text or in Python types; they are kept typed.

    None stands for the default.

    Args:
        base: an alias, a hub id or a folder. Empty for a loaded model.
        strategy: registry key.
        target_len: longest input of the extended model in tokens.
        trained_len: longest input in tokens that the base was trained on.
        revision: commit, branch or tag of the base on the hub.
        dtype: compute type.
        trust_remote_code: whether code of the base's repository may run.
        vectors: content tokens for each vector, or `window`.
        params: the strategy's own parameters.
    """

    base: str
    strategy: str = "none"
    target_len: int | str | None = None
    trained_len: int | str | None = None
    revision: str | None = None
    dtype: str | None = None
    trust_remote_code: bool | str = False
    vectors: Vectors | None = None
    params: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        declared = self.kind.declared()
        for key, value in self.params.items():
            if key in SEARCH_SETTINGS:
                raise InputError(
                    f"{key} changes search and no model, got {key}={value}: use mteb_longembed.search(NAME), or for "
                    "weights and whiten mteb_longembed.adapt(NAME, documents) without them."
                )
            if key not in declared:
                raise UnknownNameError(f"parameter of {self.strategy}", key, declared)
        given = {key: value for key, value in self.params.items() if value is not None}
        params = {key: read(f"{self.strategy}'s {key}", declared[key], value) for key, value in given.items()}
        self._keep("params", params)
        if self.dtype == "int8":
            raise InputError(
                "dtype must be one of fp32, fp16, bf16, got int8: write the model with mteb_longembed.export, and "
                "quantise that folder with the ONNX or OpenVINO backend of sentence-transformers."
            )
        self._keep(
            "dtype", read("dtype", Literal[tuple(DTYPES)] | None, _SHORT.get(self.dtype or "", self.dtype))
        )
        for name, what in (("trained_len", "trained_len"), ("target_len", "the target")):
            if getattr(self, name) is not None:
                self._keep(name, read_tokens(what, getattr(self, name)))
        self._keep("trust_remote_code", read("trust_remote_code", bool, self.trust_remote_code))
        self._keep("vectors", read_vectors(self.vectors))
        if self.vectors == "window" and "windows" not in self.kind.overrides():
            raise IncompatibleError(
                f"vectors={self.vectors} needs a strategy that cuts windows, got {self.strategy}; use pcw, or "
                "vectors=N."
            )

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the instance is frozen for others

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the name of a model. A folder that holds a model is a base, whatever signs are in its name.

        Settings of search are none of a model: `retrieval.settings.read_name` reads both.

        People may write a colon before the parameters. A canonical name has a comma there, for Windows' folders.
        """
        if len(text) > MAX_LENGTH:
            raise InputError(
                f"a model's name must have at most {MAX_LENGTH:,} characters, got {len(text):,} that start with "
                f"{text[:40]!r}: shorten the name."
            )
        if holds_model(text):
            return cls(text)
        base, strategy, target, settings = split_name(text)
        if strategy is None and (alone := target_alone(text)):
            raise InputError(
                f"a target length needs a strategy before it, got {text!r}: write {alone['base']}+STRATEGY@"
                f"{alone['target']}, such as {alone['base']}+none@{alone['target']}."
            )
        if "/" not in base and "\\" not in base and base not in ZOO and not is_folder(base):
            raise UnknownNameError(
                "base (not an alias, a folder or a hub id such as ORGANISATION/NAME)", base, ZOO
            )
        if strategy is None:
            return cls(base)
        params: dict[str, Any] = split_settings(text, settings)
        general = {key: params.pop(key) for key in OF_EVERY_NAME if key in params}
        return cls(base, strategy, target, params=params, **general)

    def __str__(self) -> str:
        """The name. For the specification of a checkpoint it is the canonical one.

        >>> str(ModelSpec("intfloat/e5-base-v2", "ntk", "4k", params={"sigma": "4"}))
        'intfloat/e5-base-v2+ntk@4096,sigma=4'
        >>> str(ModelSpec("me/e5-base-se"))
        'me/e5-base-se'
        """
        return self.with_settings({})

    def with_settings(self, settings: Settings) -> str:
        """The name with further settings, those of a search.

        >>> ModelSpec("me/e5-base-se").with_settings({"fuse": "bm25"})
        'me/e5-base-se+none,fuse=bm25'
        """
        given = {key: getattr(self, key) for key in OF_EVERY_NAME}
        given = {key: value for key, value in given.items() if value not in (None, False)}
        given = {**self.params, **given, **settings}
        written = "".join(f",{key}={spell(given[key])}" for key in sorted(given))
        target = ""
        if self.target_len is not None:
            target = f"@{self.target_len}"
        if written or target or self.strategy != "none":
            return f"{self.base}+{self.strategy}{target}{written}"
        return self.base

    @property
    def kind(self) -> type[Strategy]:
        """The class of the strategy."""
        return get_strategy(self.strategy)
