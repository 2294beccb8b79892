"""A base model before any weights load: what its small files say, read once, wherever the model comes from."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import parse_local_safetensors_file_metadata
from huggingface_hub.errors import SafetensorsParsingError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto import CONFIG_MAPPING

from mteb_longembed.encoders.families import Family, family_of
from mteb_longembed.encoders.strategies import get_strategy
from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.names.grammar import is_folder
from mteb_longembed.names.zoo import ZooEntry, entry_of

from .identity import digest
from .model_files import Files, Json, ModuleEntry, local_name
from .native import NATIVE
from .saved import STRATEGY_FILE, Carried, Origin, carried_in, check_modules, is_ours

#: Heads of models that classify and do not embed.
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")
#: Floating-point types by their names in safetensors files -> torch's names.
_SAFETENSORS_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
#: The types and similarities of models with a vector for every token, by sentence-transformers and PyLate.
_LATE_INTERACTION = {"MultiVectorEncoder", "ColBERT", "MaxSim", "maxsim", "meanmaxsim"}
_POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class Base:
    """What is known about a base model. A saved extended model is a base that carries its strategy already.

    Its name is a hub id or `local/NAME`, its revision the hub's commit or a hash of the local files. `trained_len` is
    in tokens. What its files do not say is None. `entry` is that of the zoo, `modules` are the entries of modules.json,
    and `carried` is the extension that is in its files already. `dtype` and `similarity` are the names of torch and of
    sentence-transformers.
    """

    name: str
    files: Files
    revision: str | None
    trained_len: int | None
    family: type[Family]
    config: PretrainedConfig
    entry: ZooEntry | None = None
    modules: tuple[ModuleEntry, ...] = ()
    pooling: str | tuple[str, ...] | None = None
    similarity: str | None = None
    dtype: str | None = None
    has_code: bool = False
    runs_code: bool = False
    carried: Carried | None = None
    #: Whether every token of a text has a vector (ColBERT).
    late_interaction: bool = False

    @property
    def path(self) -> str:
        """What to load: a folder or a hub id."""
        return self.files.path

    @property
    def saved(self) -> bool:
        """Whether we saved it: its modules are ours, and its name is that of an extended model."""
        return self.carried is not None and self.entry is None

    @property
    def origin(self) -> Origin | None:
        """The base of a model made from this. None for a saved model whose files do not say."""
        return self.carried.origin if self.saved and self.carried else Origin(self.name, self.revision)

    def check_unchanged(self) -> None:
        """Raise InputError if the files of a local base have changed since they were read."""
        now = self.revision if self.files.are_unchanged() else self.files.revision(code=self.runs_code)
        if now != self.revision:
            raise InputError(
                f"{self.name} must still be at revision {self.revision}, got {now}: its files have changed "
                "during the run, so start again."
            )


def open_base(base: str, revision: str | None = None, trust_remote_code: bool = False) -> Base:
    """Read the small files of a base. Each state of a base is read once in a process."""
    entry = entry_of(base)
    if entry is not None and entry.kind != "hub":
        raise ModelError(
            f"{base} runs behind mteb's own interface and has no weights to extend; use mteb.get_model or "
            f"mteb run -m {base}."
        )
    files = Files.open(entry.path, revision or entry.revision) if entry else Files.open(base, revision)
    return _read(files.with_adapter_base(_inside(_modules(files))), entry, trust_remote_code)


def _modules(files: Files) -> list[ModuleEntry] | None:
    modules = files.modules()
    check_modules(files.path, modules or [])
    return modules


def _inside(modules: list[ModuleEntry] | None) -> str:
    """The folder of the transformer, with a slash. Empty if it is in the folder of the whole model."""
    return f"{modules[0]['path']}/" if modules and modules[0]["path"] else ""


@functools.lru_cache(maxsize=128)
def _read(files: Files, entry: ZooEntry | None, trust_remote_code: bool) -> Base:
    path = files.path
    # first all files, then all decisions
    modules = _modules(files)
    inside = _inside(modules)
    base_files, folder = (files, inside) if files.adapter_base is None else (files.adapter_base, "")
    raw = base_files.json(f"{folder}config.json", optional=False)
    options = files.json(f"{inside}sentence_bert_config.json") or {}
    tokenizer = files.json(f"{inside}tokenizer_config.json") or {}
    settings = files.json("config_sentence_transformers.json") or {}
    pooled = next((m["path"] for m in modules or () if m["type"].endswith("Pooling")), None)
    pooling = (files.json(f"{pooled}/config.json") or {}) if pooled else {}
    ours = entry is None and is_ours(modules)
    extension = files.json(f"{inside}{STRATEGY_FILE}") if ours else None

    if raw is None:
        inner = [module["path"] for module in modules or ()]
        raise ModelError(
            f"{path} has no config.json{f' (its modules: {inner})' if inner else ''}, so it is not a "
            "transformers model and cannot be extended."
        )
    _check_embedding_model(path, raw, modules)
    kinds = {str(settings.get(key)) for key in ("model_type", "similarity_fn_name")}
    late = "vectors" not in pooling and bool(kinds & _LATE_INTERACTION)
    limits = [options.get("max_seq_length")]
    if late:
        limits += [options.get("document_length"), settings.get("document_length")]
    config = _config(base_files, folder, raw, trust_remote_code)
    family = family_of(config)
    # sentence-transformers reads PyLate's modules as its own
    stock = ("sentence_transformers.", "pylate.")
    foreign = any(not module["type"].startswith(stock) for module in modules or ())
    # what trust_remote_code=True makes run
    has_code = not ours and (foreign or "auto_map" in raw or "auto_map" in tokenizer)
    runs_code = has_code and trust_remote_code
    dtype, similarity = raw.get("dtype") or raw.get("torch_dtype"), settings.get("similarity_fn_name")
    carried = None
    if ours:
        carried = carried_in(extension, pooling, path)
    elif entry is not None and entry.interpolation and entry.trained_len:
        # its table is interpolated already, by the rule of `pi`
        grown = entry.interpolation * entry.trained_len
        carried = Carried(get_strategy("pi")(trained_len=entry.trained_len, target_len=grown))
    trained_len = carried.strategy.trained_len if carried else entry and entry.trained_len
    return Base(
        name=entry.hub_id if entry else local_name(path) if files.local else path,
        files=files,
        revision=files.revision(code=runs_code),
        trained_len=trained_len or shortest(family.trained_len(config), *limits),
        family=family,
        config=config,
        entry=entry,
        modules=tuple(modules or ()),
        pooling=_pooling_mode(pooling) or (entry.pooling if entry else None),
        similarity=similarity if isinstance(similarity, str) else None,
        dtype=dtype
        if isinstance(dtype, str)
        else _weights_dtype(Path(base_files.path, folder), base_files.local),
        has_code=has_code,
        runs_code=runs_code,
        carried=carried,
        late_interaction=late,
    )


def loaded_base(model: SentenceTransformer) -> Base:
    """What a loaded model says about itself: its user's name for it or `local/NAME`, with its digest as revision."""
    first = model[0]
    if not isinstance(first, Transformer):
        raise ModelError(
            f"the model starts with a {type(first).__name__}, but only a Transformer can be extended."
        )
    family = family_of(first.config)
    card = model.model_card_data
    source = getattr(first.config, "_name_or_path", "") or ""
    path = str(source or card.base_model or "")
    if not card.model_name and not path:
        raise InputError(
            "the loaded model has no name, so its results could be mistaken for another's: set "
            "model.model_card_data.model_name first."
        )
    return Base(
        name=card.model_name or local_name(path),
        files=Files.open(source)
        if is_folder(source)
        else Files(source, card.base_model_revision, stamp=None if source else ()),
        revision=digest(model),
        trained_len=shortest(family.trained_len(first.config), model.max_seq_length),
        family=family,
        config=first.config,
        pooling=getattr(model[1], "pooling_mode", None) if len(model) > 1 else None,
        similarity=model.similarity_fn_name,
        dtype=str(model.dtype).removeprefix("torch."),
    )


def _pooling_mode(config: Json) -> str | tuple[str, ...] | None:
    mode = config.get("pooling_mode")
    named = [mode] if isinstance(mode, str) else mode if isinstance(mode, list) else []
    # older folders have one switch for each mode
    switched = [mode for key, mode in _POOLING_SWITCHES.items() if config.get(key)]
    modes = tuple(mode for mode in named or switched if isinstance(mode, str))
    return modes[0] if len(modes) == 1 else modes or None


def shortest(*lengths: object) -> int | None:
    """The smallest number of tokens that a base gives. None if it gives none, or a placeholder for "no limit"."""
    return min((n for n in lengths if isinstance(n, int) and 0 < n < 10**9), default=None)


def parameters_by_type(file: Path) -> Counter[str]:
    """How many parameters of each type a safetensors file has, by the types' names in such files."""
    try:
        return Counter(parse_local_safetensors_file_metadata(file).parameter_count)
    except (SafetensorsParsingError, OSError) as error:
        raise ModelError(f"{file} cannot be read as safetensors: {str(error)[:80]}.") from error


def _weights_dtype(folder: Path, local: bool) -> str | None:
    """The type of a local folder's weights by torch's name, if all floating-point weights have the same type."""
    files = folder.glob("*.safetensors") if local else ()
    kinds = {kind for file in files for kind in parameters_by_type(file)}
    names = {_SAFETENSORS_DTYPES[kind] for kind in kinds if kind in _SAFETENSORS_DTYPES}
    return names.pop() if len(names) == 1 else None


def _check_embedding_model(path: str, raw: Json, modules: list[ModuleEntry] | None) -> None:
    if modules is not None:
        types = [module["type"] for module in modules]
        if any("cross_encoder" in t or "SparseEncoder" in t or "Splade" in t for t in types):
            raise ModelError(f"{path} is not a dense embedding model: its modules are {', '.join(types)}.")
        return
    architectures = raw.get("architectures")
    known = architectures if isinstance(architectures, list) else []
    heads = [name for name in known if str(name).endswith(_CLASSIFIERS)]
    if heads or not {"model_type", "auto_map"} & set(raw):
        what = heads[0] if heads else "a configuration without model_type"
        raise ModelError(f"{path} is not an embedding model: it has no modules.json and is {what}.")


def _config(files: Files, inside: str, raw: Json, trust_remote_code: bool) -> PretrainedConfig:
    path = files.path
    try:
        if (kind := raw.get("model_type")) in NATIVE:
            return NATIVE[kind][0](raw)
        with translate_hub_errors():
            options = {"revision": files.commit, "subfolder": inside.rstrip("/")}
            return AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code, **options)
    except LongEmbedError:
        raise
    except Exception as error:  # transformers raises errors of many kinds for configurations
        of_kind = isinstance(error, (ValueError, KeyError, ImportError))
        if of_kind and "auto_map" in raw and not trust_remote_code:
            why = "brings its own model code, which runs only if you ask for it: pass trust_remote_code=True"
        elif of_kind and str(raw.get("model_type")) not in CONFIG_MAPPING:
            why = f"has the model type {str(raw.get('model_type'))[:80]!r}, which transformers does not know"
        else:
            message = " ".join(str(error).split())[:160]
            why = f"has a config.json that transformers does not accept: {type(error).__name__}: {message}"
        raise ModelError(f"{path} {why}.") from error
