"""E5-RoPE (Zhu et al. 2024, arXiv:2404.12096, section 3.3), whose files would run its authors' code.

It is BERT with rotary positions, which transformers has as `JinaEmbeddingsV3Model`, with other weight names.
"""

from transformers import AutoConfig, JinaEmbeddingsV3Config, PretrainedConfig

from mteb_longembed.errors import ModelError
from mteb_longembed.files import Json

#: Its model type.
E5_ROPE = "e5rope"
#: Settings with the same name and meaning in the authors' configuration and in ours, and the authors' defaults.
_SETTINGS: Json = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "max_position_embeddings": 1536, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    "vocab_size": 50000, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}  # fmt: skip
#: The authors' weight names -> transformers' names, as `from_pretrained` takes them.
KEY_MAPPING = {
    r"^e5rope\.": "",
    r"^encoder\.layer\.": "layers.",
    r"attention\.self\.query": "self_attn.q_proj",
    r"attention\.self\.key": "self_attn.k_proj",
    r"attention\.self\.value": "self_attn.v_proj",
    r"attention\.output\.dense": "self_attn.o_proj",
    r"attention\.output\.LayerNorm": "post_attention_layernorm",
    r"intermediate\.dense": "mlp.fc1",
    r"output\.dense": "mlp.fc2",
    r"output\.LayerNorm": "post_mlp_layernorm",
}


class E5RopeConfig(JinaEmbeddingsV3Config):
    """The authors' `config.json`, read as transformers' configuration."""

    model_type = E5_ROPE

    @classmethod
    def from_dict(cls, config_dict: Json, **kwargs: object) -> PretrainedConfig:  # type: ignore[override]
        if config_dict.get("rotary_value"):
            raise ModelError(
                "this E5-RoPE checkpoint also rotates values (rotary_value), and no class of transformers does that."
            )
        values = {key: config_dict.get(key, default) for key, default in _SETTINGS.items()}
        theta = float(config_dict.get("rope_theta", 10_000.0))
        values["rope_parameters"] = {"rope_theta": theta, "rope_type": "default"}
        values["architectures"] = [E5_ROPE]
        return JinaEmbeddingsV3Config.from_dict(values, **kwargs)


AutoConfig.register(E5_ROPE, E5RopeConfig)
