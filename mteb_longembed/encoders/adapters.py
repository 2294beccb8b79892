"""Adapters of PEFT, such as LoRA, on a transformers model: they are saved beside its whole weights, and read again.

transformers saves an adapter alone and reads the base by its name. The base of ours has changed position tables, and
may be a folder that nobody else has, so we keep both.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn
from transformers import PreTrainedModel

from mteb_longembed.encoders.transformers_parts import mark_adapters, without_adapters
from mteb_longembed.errors import ModelError

#: The folder of adapters beside the weights. Each one is in a folder with its number.
ADAPTERS = "adapters"
#: What PEFT puts before the names of weights in its files.
_PREFIX = "base_model.model."
#: Where a module with an adapter around it keeps the module that it had before.
_INNER = ("base_layer", "original_module")


def adapters_on(model: nn.Module) -> list[str]:
    """The names of the adapters that act on a model. Those whose weights were merged are part of the model."""
    merged = {name for module in model.modules() for name in getattr(module, "merged_adapters", ())}
    configs = getattr(model, "peft_config", None)
    if not configs or merged >= set(configs):
        return []
    from peft.tuners.tuners_utils import BaseTunerLayer

    layer = next(module for module in model.modules() if isinstance(module, BaseTunerLayer))
    if layer.disable_adapters:
        return []
    return [name for name in layer.active_adapters if name not in merged]


def save_with_adapters(model: nn.Module, folder: str, *, safe_serialization: bool) -> list[str]:
    """Save a model (or PEFT's around one) as if it had no adapters, and each adapter beside it. Returns their names.

    Args:
        model: of transformers, or PEFT's around one.
        folder: the adapters go to its subfolder.
        safe_serialization: whether weights are written as safetensors.
    """
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    names = adapters_on(model)
    for number, name in enumerate(names):
        adapter_folder = Path(folder, ADAPTERS, str(number))
        config = copy.copy(vars(model)["peft_config"][name])
        config.base_model_name_or_path = None  # a path of this machine; its base is beside it
        config.save_pretrained(str(adapter_folder))
        state = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
        state = {_PREFIX + key.removeprefix(_PREFIX): value.contiguous() for key, value in state.items()}
        save_file(state, adapter_folder / "adapter_model.safetensors", metadata={"format": "pt"})
    inner: Any
    if isinstance(model, PreTrainedModel):
        inner = model
    else:
        inner = cast("Any", model).get_base_model()
    with without_adapters(inner):
        weights = _weights_without_adapters(inner)
        inner.save_pretrained(folder, state_dict=weights, safe_serialization=safe_serialization)
    return names


def load_adapters(model: PreTrainedModel, folder: str | None, names: list[str]) -> None:
    """Put the adapters that `save_with_adapters` saved on a model of transformers.

    Args:
        model: gets the adapters, in place.
        folder: the folder of the adapters.
        names: their names, in the order of their numbers.
    """
    for number, name in enumerate(names):
        adapter_folder = Path(str(folder), str(number))
        # its training can go on
        loaded = model.load_adapter(str(adapter_folder), adapter_name=name, is_trainable=True)
        if lost := [key for key in loaded.missing_keys if name in key.split(".")]:
            raise ModelError(
                f"the adapter in {adapter_folder} lacks weights that it needs: {', '.join(lost[:3])}."
            )
    model.set_adapter(names)
    model.eval()


def copy_adapters(source: PreTrainedModel, target: PreTrainedModel) -> None:
    """Put adapters of the same form on another model of the same class. Their weights are not copied.

    Args:
        source: has the adapters.
        target: of the same class. It is changed in place.
    """
    for name, config in vars(source)["peft_config"].items():
        if name not in vars(target).get("peft_config", {}):
            target.add_adapter(copy.copy(config), name)
    target.set_adapter(adapters_on(source))


def merge_adapters(model: PreTrainedModel) -> None:
    """Add the adapters that act on a model to its weights, in place, and take them off."""
    wrapped = [name for name, module in model.named_modules() if any(hasattr(module, key) for key in _INNER)]
    for name in reversed(wrapped):  # inner ones first
        layer: Any = model.get_submodule(name)
        if hasattr(layer, "unload_and_optionally_merge_module"):
            plain = layer.unload_and_optionally_merge_module(merge=True, safe_merge=False, adapter_names=None)
        else:
            if not layer.disable_adapters:
                layer.merge()
            plain = layer.get_base_layer()
        model.set_submodule(name, plain)
    if wrapped:
        del model.peft_config
        mark_adapters(model, has_adapters=False)


def _weights_without_adapters(model: nn.Module) -> dict[str, Tensor]:
    """The weights of a model by the names that they have without adapters."""
    state = model.state_dict()
    for name, module in model.named_modules():
        inner = next((key for key in _INNER if hasattr(module, key)), None)
        if inner is None:
            continue
        kept = f"{name}.{inner}."
        for key in [key for key in state if key.startswith(f"{name}.")]:
            weight = state.pop(key)
            if key.startswith(kept):
                state[f"{name}.{key.removeprefix(kept)}"] = weight
    return state
