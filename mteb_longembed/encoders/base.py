"""A base: the small files of a model, read before any weights load, or the same facts of a loaded model."""

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from posixpath import join

from transformers import AutoConfig, PretrainedConfig

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from mteb_longembed.files import Json
from mteb_longembed.hub import hub_answers, translate_hub_errors
from mteb_longembed.values import Vectors, read
from mteb_longembed.zoo import ZooEntry, entry_of

from .backbone import SavedSetting, transformer_of
from .e5rope import E5_ROPE
from .families import EmbeddingModel, Family, family_of, family_of_modules
from .pooling import pooling_mode
from .positions import allowed_len
from .repository import BACKBONE, Files, local_name

#: The entry of a base that the zoo lacks.
_UNLISTED = ZooEntry(hub_id="")
#: Heads of models that classify and do not embed.
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")


@dataclass(frozen=True)
class Base:
    """A base model. Facts that its files do not state are None."""

    name: str  #: a hub id or `local/NAME`
    files: Files  #: the files themselves
    config: PretrainedConfig  #: transformers' configuration
    #: the longest input in tokens, as sentence-transformers has it in `max_seq_length` before the configuration's limit
    max_seq_length: object = None
    modules: Sequence[Mapping[str, str]] = ()  #: the entries of modules.json, as `Files.modules` returns them
    entry: ZooEntry = _UNLISTED  #: the zoo's entry
    pooling: str | None = None  #: the pooling's mode; several are joined by `+`
    similarity: str | None = None  #: by sentence-transformers' name
    runs_code: bool = False  #: whether the repository has code of its own that may run
    adapter_of: Files | None = None  #: the files of the base, if these are only an adapter of PEFT
    saved_strategy: Strategy | None = None  #: the strategy inside, if we saved the model
    extends: str | None = None  #: the name of the base that a model that we saved was made from
    #: `vectors` of a model that we saved; None for one vector per document
    vectors: Vectors | None = None
    digest: str | None = None  #: digest of a loaded model
    family: Family = "dense"  #: what its vectors are

    @cached_property
    def revision(self) -> str | None:
        """The commit on the hub, a hash of the local files, or the digest of a loaded model."""
        if self.digest is not None or not self.files.local:
            return self.digest or self.files.commit
        own = self.files.hashed(self._folders, code=self.runs_code)
        if self.adapter_of is None:
            return own
        other = self.adapter_of.commit or self.adapter_of.hashed([""], code=False)
        return hashlib.sha256(f"{own} {other}".encode()).hexdigest()[:40]

    @cached_property
    def _folders(self) -> set[str]:
        return {"", *(module["path"] for module in self.modules)}

    def fingerprint(self) -> object:
        """Return a fingerprint of its files, which changes with their content."""
        adapted = [] if self.adapter_of is None else self.adapter_of.fingerprint([""])
        return self.files.fingerprint(self._folders), adapted

    @cached_property
    def trained_len(self) -> int | None:
        """The longest input in tokens that the base was trained on."""
        if self.saved_strategy is not None:
            return self.saved_strategy.trained_len
        if self.entry.trained_len is not None:
            return self.entry.trained_len
        lengths = [self.max_seq_length, allowed_len(self.config)]
        # 10**9 and more stand for "no limit"
        return min((n for n in lengths if isinstance(n, int) and 0 < n < 10**9), default=None)


#: The bases that this process has read, with the fingerprint of their files at that time. A base read while the hub did
#: not answer is read again once it does.
_READ: dict[tuple[Files, ZooEntry, bool, bool], tuple[Base, object]] = {}


def read_base(name: str, revision: str | None, *, trust_remote_code: bool) -> Base:
    """Read the small files of a base. The zoo's entry replaces or completes them.

    A process reads each commit once, and a folder again if a file in it has changed.

    Raises:
        HubError, ModelError: if the files cannot be read, or do not hold an embedding model.
    """
    entry = entry_of(name) or _UNLISTED
    if entry.source != "hub":
        raise ModelError(
            f"{name} runs behind mteb's own interface and has no weights to extend; use mteb.get_model or "
            f"mteb run -m {name}."
        )
    files = Files.open(entry.folder or entry.hub_id or name, revision or entry.revision)
    key = files, entry, trust_remote_code, files.local or hub_answers()
    if key in _READ:
        base, fingerprint = _READ[key]
        if fingerprint == base.fingerprint():
            return base
    base = _base_in(files, entry, trust_remote_code=trust_remote_code)
    _READ[key] = base, base.fingerprint()
    return base


def _base_in(files: Files, entry: ZooEntry, *, trust_remote_code: bool) -> Base:
    modules = files.modules()
    types = [module["type"] for module in modules]
    saved = files.json("config_sentence_transformers.json")
    family = family_of_modules(types, saved.get("model_type"))
    folder = ""
    if modules:
        # the transformer of a sparse model may read documents alone
        routed = family == "sparse" and types[0].endswith(".Router") and len(modules) > 1
        folder = modules[int(routed)]["path"]
    adapter_of = _base_of_adapter(files, folder)
    config_files, config_folder = (files, folder) if adapter_of is None else (adapter_of, "")
    raw = config_files.json(join(config_folder, "config.json"))
    if not modules and "HF_ColBERT" in (raw.get("architectures") or ()):
        family = "late-interaction"  # of Stanford's library
    _check_embeds(files.path, types, raw)
    transformer = _transformer_settings(files, folder) if modules else {}
    pooling = _pooling_settings(files, modules)
    setting = vectors = None
    runs_code = False
    if BACKBONE in types:
        setting = SavedSetting.read(
            transformer.get("longembed", {}), f"sentence_bert_config.json of {files.path}"
        )
        vectors = read("vectors", Vectors | None, pooling.get("vectors"))
    elif raw.get("model_type") != E5_ROPE:
        is_foreign = "auto_map" in raw or not all(name.startswith("sentence_transformers.") for name in types)
        runs_code = trust_remote_code and is_foreign
    own_name = entry.hub_id or files.path
    if files.local and not entry.hub_id:
        own_name = local_name(files.path)
    return Base(
        name=own_name,
        files=files,
        config=_config(raw, config_files, config_folder, runs_code=runs_code),
        max_seq_length=_max_seq_length(transformer, [(files, folder), (config_files, config_folder)]),
        modules=modules,
        entry=entry,
        pooling=pooling_mode(pooling) or entry.pooling,
        similarity=saved.get("similarity_fn_name"),
        runs_code=runs_code,
        adapter_of=adapter_of,
        saved_strategy=None if setting is None else setting.strategy,
        extends=None if setting is None else setting.base,
        vectors=vectors,
        family=family,
    )


def _base_of_adapter(files: Files, folder: str) -> Files | None:
    """Return the files of the base if a folder holds only an adapter of PEFT; None if it has a configuration."""
    if files.find(join(folder, "config.json")) is not None:
        return None
    adapter = files.json(join(folder, "adapter_config.json"))
    path = adapter.get("base_model_name_or_path")
    return Files.open(path, adapter.get("revision")) if isinstance(path, str) else None


def _transformer_settings(files: Files, folder: str) -> Json:
    """Return the settings of the Transformer module. Its file had other names in early sentence-transformers."""
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"):
        if settings := files.json(join(folder, f"sentence_{name}_config.json")):
            return settings
    return {}


def _max_seq_length(transformer: Json, folders: Sequence[tuple[Files, str]]) -> object:
    """Return the longest input in tokens as sentence-transformers finds it; None if no file has one.

    Since version 6 it saves the limit with the tokenizer; earlier ones saved it with the settings of the module, which
    take precedence.

    Args:
        transformer: the settings of the Transformer module.
        folders: where the tokenizer may be: the folder of the module, and of the base of an adapter.
    """
    of_processor = transformer.get("processor_kwargs") or transformer.get("tokenizer_args") or {}
    for limit in (of_processor.get("model_max_length"), transformer.get("max_seq_length")):
        if limit is not None:
            return limit
    for files, folder in folders:
        if tokenizer := files.json(join(folder, "tokenizer_config.json")):
            return tokenizer.get("model_max_length", tokenizer.get("max_len"))
    return None


def _pooling_settings(files: Files, modules: Sequence[Mapping[str, str]]) -> Json:
    """Return the settings of the first pooling; empty without one."""
    for module in modules:
        if module["type"].endswith("Pooling"):
            return files.json(f"{module['path']}/config.json")
    return {}


def base_of_loaded(model: EmbeddingModel, digest: str) -> Base:
    """Describe a loaded model: the user's name for it or `local/NAME`, with its digest as revision."""
    family = family_of(model)
    first = transformer_of(model)
    card = model.model_card_data
    source = str(first.config.name_or_path or "")
    path = source or str(card.base_model or "")
    if not card.model_name and not path:
        raise InputError(
            "the loaded model has no name, so its results could be mistaken for another's: set "
            "model.model_card_data.model_name first."
        )
    second = list(model)[1:2] or [first]
    return Base(
        name=card.model_name or local_name(path),
        files=Files(source),
        config=first.config,
        max_seq_length=model.max_seq_length,
        pooling=pooling_mode(vars(second[0])),
        similarity=model.similarity_fn_name,
        digest=digest,
        family=family,
    )


def _check_embeds(path: str, types: Sequence[str], config: Json) -> None:
    """Raise ModelError for a model that does not embed texts."""
    shown = f" (its modules: {', '.join(types)})" if types else ""
    if not config:
        raise ModelError(
            f"{path} has no config.json{shown}, so it is not a transformers model and cannot be extended."
        )
    if "cross_encoder" in shown:
        raise ModelError(f"{path} must embed each text on its own{shown}: use it with mteb as it is.")
    if types:
        return
    architectures = config.get("architectures")
    for name in architectures if isinstance(architectures, list) else ():
        if str(name).endswith(_CLASSIFIERS):
            raise ModelError(f"{path} is not an embedding model: it has no modules.json and is {name}.")


def _config(raw: Json, files: Files, folder: str, *, runs_code: bool) -> PretrainedConfig:
    """Load transformers' configuration.

    Raises:
        ModelError: if transformers does not know or accept it, or if it needs code that may not run.
    """
    try:
        with contextlib.nullcontext() if files.local else translate_hub_errors():
            return AutoConfig.from_pretrained(
                files.path, trust_remote_code=runs_code, revision=files.commit, subfolder=folder.rstrip("/")
            )
    except LongEmbedError:
        raise
    except Exception as error:  # transformers raises errors of many kinds for configurations
        message = " ".join(str(error).split())[:160]
        why = f"has a config.json that transformers does not accept: {type(error).__name__}: {message}"
        if "auto_map" in raw and not runs_code and isinstance(error, (ValueError, KeyError, ImportError)):
            why = "has its own model code, which runs only on request: pass trust_remote_code=True"
        raise ModelError(f"{files.path} {why}.") from error
