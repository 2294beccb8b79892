"""Checkpoints that we read as another class of transformers than the one that their files name.

E5-RoPE would run its authors' code (`e5rope.py`). EmbeddingGemma 2 also reads pictures and sound: its language model is
a model of its own, and needs no library for the rest.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoModel, PretrainedConfig

from mteb_longembed.hub import hub_answers

from . import e5rope
from .model_files import Files, Json

#: What is fetched but for the weights, and what is not copied from it. Code never is.
_SMALL = ["*.json", "*.txt", "*.model", "*.jinja"]
_LEFT_OUT = ("*.py", "*index*", ".*", "*processor*", "sentence_bert_config.json")


def text_config(config: Json) -> PretrainedConfig:
    """The configuration of the language model inside a model that also reads pictures or sound."""
    inner = dict(config["text_config"])
    return AutoConfig.for_model(inner.pop("model_type"), **inner)


def save_text_model(source: Path, target: Path) -> None:
    """Save the language model of a folder alone."""
    model = AutoModel.from_pretrained(source, vision_config=None, audio_config=None, dtype="auto")
    model.language_model.save_pretrained(target)


#: Model type -> the configuration for its `config.json`, and what writes the model from one folder to another.
NATIVE: dict[str, tuple[Callable[[Json], PretrainedConfig], Callable[[Path, Path], None]]] = {
    "e5rope": (e5rope.native_config, e5rope.save_native),
    "embedding_gemma2": (text_config, save_text_model),
}


@contextmanager
def native_folder(files: Files, model_type: str) -> Iterator[str]:
    """The path of a converted copy of a checkpoint. It exists as long as the context."""
    folder = Path(files.path)
    if not files.local:
        for weights in ("*.safetensors", "*pytorch_model.bin"):
            offline = not hub_answers()
            snapshot = snapshot_download(
                files.path, revision=files.commit, allow_patterns=[*_SMALL, weights], local_files_only=offline
            )
            folder = Path(snapshot)
            if list(folder.glob(weights)):
                break
    with tempfile.TemporaryDirectory() as target:

        def left_out(inside: str, names: list[str]) -> set[str]:
            # only the model's own weights are written anew: later modules keep theirs
            weights_of_model = ["*.safetensors", "*.bin"] if Path(inside) == folder else []
            return shutil.ignore_patterns(*_LEFT_OUT, *weights_of_model)(inside, names)

        shutil.copytree(folder, target, ignore=left_out, dirs_exist_ok=True)
        NATIVE[model_type][1](folder, Path(target))
        yield target
