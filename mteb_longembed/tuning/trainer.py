"""Position tuning: the base is frozen, and only the rows that the extension added are trained."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments as TrainingArguments
from sentence_transformers.base.sampler import BatchSamplers
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.util import pairwise_cos_sim
from torch import Tensor, nn

from mteb_longembed.encoders.building import build
from mteb_longembed.encoders.checkpoints.checkpoint import Checkpoint, open_checkpoint
from mteb_longembed.encoders.checkpoints.identity import Identity, digest
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.modules import LongTransformer
from mteb_longembed.encoders.publishing.card import TRAINED
from mteb_longembed.encoders.sentence_transformers_parts import check_methods
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import DataError, IncompatibleError, InputError
from mteb_longembed.files import read_json, write_file

from .data import open_data, prepare_data
from .positions import AddedRows, MovedDocuments, MovedDocumentsCollator, rows_of_short_inputs
from .settings import TuningSettings

#: The folder of the checkpoints beside the model of a run, and the file of the run's settings in it.
CHECKPOINTS = "checkpoints"
SETTINGS_FILE = "settings.json"


def last_complete(out: Path) -> Path | None:
    """The newest complete checkpoint. The trainer writes its state file last, so a checkpoint with it is complete."""
    checkpoints = {}
    for file in (out / CHECKPOINTS).glob("checkpoint-*/trainer_state.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            checkpoints[int(json.loads(file.read_text(encoding="utf-8"))["global_step"])] = file.parent
    return checkpoints[max(checkpoints)] if checkpoints else None


def claim(out: Path, settings: dict[str, object]) -> Path | None:
    """Prepare `out` for a run with these settings, and return the checkpoint to resume from, if there is one."""
    if (out / "modules.json").exists():
        raise InputError(f"the output folder must not have a model yet, got {out}: give another folder.")
    file = out / CHECKPOINTS / SETTINGS_FILE
    if file.exists():
        try:
            known = read_json(file)
        except DataError as error:
            raise DataError(f"{file} cannot be read, {error} Give another folder.") from None
        differing = sorted(k for k in known.keys() | settings.keys() if known.get(k) != settings.get(k))
        if differing:
            changes = ", ".join(f"{k} {known.get(k)!r} before and {settings.get(k)!r} now" for k in differing)
            raise InputError(
                f"{out} has an unfinished run with other settings ({changes}): give another folder."
            )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, json.dumps(settings, indent=2) + "\n")
    return last_complete(out)


TUNABLE = ("pi", "rp")
#: The file of the trained rows inside a checkpoint.
ROWS_FILE = "new_rows.safetensors"
#: Settings that a resumed run may change: they change the speed, not the result.
_FREE = ("mini_batch_size", "save_steps")


def tune(
    model: str | SentenceTransformer,
    data: str | Path | Dataset,
    out: str | Path,
    *,
    device: str | None = None,
    trust_remote_code: bool = False,
    **settings: float | bool | None,
) -> SentenceTransformer:
    """Train the position rows that `pi` or `rp` added to a model with absolute positions, and nothing else.

    Documents start at a random position, so that short documents train all rows. Queries keep the positions of short
    inputs. The base's rows do not change by a bit, so all embeddings up to the trained length stay the same.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.2 and appendix B.
    Differs: gradients are cached, so that batches of 512 fit into a small machine; the result is the same.

    Args:
        model: a name such as `e5-base+pi@4096`, or a model that `extend` returned (that model is not changed).
        data: a dataset with `anchor` and `positive`. It may have `negative_1`, `negative_2`, ..., and `scores` of a
            re-ranker, one for the positive and each negative, for distillation. Or a local file (JSON lines, CSV,
            Parquet), a folder of such files, or a dataset on the hub.
        out: folder for the tuned model; checkpoints go to its subfolder, and the same call resumes from them.
        device: where to train; default the best device of this machine.
        trust_remote_code: whether to run the base repository's own model code.
        settings: the fields of `TuningSettings`, such as `epochs=3` or `lr=5e-4`.

    Returns:
        The tuned model; it is also saved in `out`, and `mteb_longembed.load(out)` opens it.

    Raises:
        InputError: if a value breaks its rule, the target length is not above the trained length, `out` is in use,
            or the loss becomes infinite or nan (the last checkpoint stays).
        IncompatibleError: if the strategy or the model's positions cannot be tuned.
        DataError, HubError: if the data cannot be used or loaded.
    """
    options = TuningSettings(**cast("dict[str, Any]", settings))
    out = Path(out)
    if isinstance(model, SentenceTransformer):
        first = model[0]
        if not isinstance(first, LongTransformer):
            raise InputError(
                "tuning needs an extended model, such as extend(base, 'pi', 4096) returns, got a model that is not "
                f"extended ({type(first).__name__})."
            )
        _check_tunable(str(model.model_card_data.base_model), first.family.name, first.strategy)
        known = Identity(str(model.model_card_data.model_name), digest(model))
        tuned = copy.deepcopy(model).to(device or model.device).float()
    else:
        spec = ModelSpec.parse(model)
        checkpoint = open_checkpoint(replace(spec, trust_remote_code=True) if trust_remote_code else spec)
        _check_checkpoint(checkpoint)
        known = Identity(checkpoint.name, checkpoint.revision)
        tuned = None
    rows = prepare_data(open_data(data), options.n_negatives, options.seed)
    if tuned is None:
        tuned = cast("SentenceTransformer", build(checkpoint, device=device)).float()
    strategy = cast("LongTransformer", tuned[0]).strategy
    if options.max_len > strategy.trained_len:
        raise InputError(
            f"max_len must be at most the trained length of {strategy.trained_len} tokens, got {options.max_len}."
        )
    # these values must be the same when a run is resumed
    fixed = {
        "model": known.name,
        "revision": known.revision,
        "data": _hash_of(rows) if isinstance(data, Dataset) else str(data),
        "rows": len(rows),
        **{key: value for key, value in asdict(options).items() if key not in _FREE},
    }
    resume_from = claim(out, fixed)
    table = isolate_rows(tuned)
    prompts = _prompts(tuned, rows.column_names)
    collator = MovedDocumentsCollator(
        preprocess_fn=tuned.preprocess,
        prompts=prompts,
        max_length=options.max_len,
        highest_offset=strategy.target_len - strategy.trained_len,
        seed=options.seed,
    )
    on_gpu = torch.cuda.is_available() and tuned.device.type == "cuda"
    arguments = TrainingArguments(
        output_dir=str(out / CHECKPOINTS),
        num_train_epochs=options.epochs,
        max_steps=options.max_steps or -1,
        per_device_train_batch_size=options.batch_size,
        learning_rate=options.lr,
        warmup_steps=options.warmup_steps,
        weight_decay=options.weight_decay,
        prompts=prompts,
        batch_sampler=BatchSamplers.NO_DUPLICATES,
        save_strategy="steps",
        save_steps=options.save_steps,
        save_total_limit=2,
        logging_steps=max(1, options.save_steps // 10),
        seed=options.seed,
        data_seed=options.seed,
        bf16=on_gpu and torch.cuda.is_bf16_supported() if options.bf16 is None else options.bf16,
        use_cpu=tuned.device.type == "cpu",
        report_to="none",
    )
    loss = (
        DistilledRankingLoss if "scores" in rows.column_names else losses.CachedMultipleNegativesRankingLoss
    )
    trainer = RowTrainer(
        model=tuned,
        args=arguments,
        train_dataset=rows,
        loss=loss(tuned, scale=1 / options.temperature, mini_batch_size=options.mini_batch_size),
        data_collator=collator,
        callbacks=[collator],
    )
    trainer.train(resume_from_checkpoint=None if resume_from is None else str(resume_from))
    restore(tuned, table)
    tuned.eval()
    tuned.model_card_data.tags.append(TRAINED)
    tuned.save_pretrained(str(out))
    return tuned


class DistilledRankingLoss(losses.CachedMultipleNegativesRankingLoss):
    """KL divergence from a re-ranker's scores, plus 0.2 times InfoNCE, with gradient caching.

    Source: Wang et al. 2022 (E5), arXiv:2212.03533, section 4.3.
    """

    def __init__(self, model: SentenceTransformer, scale: float, mini_batch_size: int) -> None:
        super().__init__(model, scale=scale, mini_batch_size=mini_batch_size)
        self.distillation = losses.DistillKLDivLoss(
            model, similarity_fct=pairwise_cos_sim, student_temperature=1 / scale, teacher_temperature=1.0
        )

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        contrastive = super().calculate_loss(reps, labels, with_backward=False)
        columns = [torch.cat(column) for column in reps]
        divergence = self.distillation.compute_loss_from_embeddings(columns, cast("Tensor", labels))
        # DistillKLDivLoss multiplies by its temperature squared; E5's recipe does not, so we undo it
        loss = divergence * self.scale**2 + 0.2 * contrastive
        if with_backward:
            loss.backward()
            loss = loss.detach()
        return loss


check_methods(SentenceTransformerTrainer, "_save", "_load_from_checkpoint")


class RowTrainer(SentenceTransformerTrainer):
    """Keeps only the trained rows in its checkpoints, and stops if the loss becomes infinite or nan."""

    def _rows(self) -> AddedRows:
        model: Any = self.accelerator.unwrap_model(self.model)
        return cast("AddedRows", model[0].model.embeddings.position_embeddings)

    def _save(self, output_dir: str | None = None, state_dict: object = None) -> None:
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_file({"rows": self._rows().new.detach().cpu().contiguous()}, folder / ROWS_FILE)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:  # type: ignore[override]
        with torch.no_grad():
            self._rows().new.copy_(load_file(Path(checkpoint_path, ROWS_FILE))["rows"])

    def add_model_card_callback(self, default_args_dict: dict[str, object]) -> None:
        """Add no callback: it would ask the hub about the base, and write rows of the data into a model card."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        result = super().compute_loss(*args, **kwargs)
        loss = result[0] if isinstance(result, tuple) else result
        if not bool(torch.isfinite(loss)):
            raise InputError(
                f"the loss must stay a finite number, got {float(loss.detach())} at step "
                f"{self.state.global_step + 1}: use a lower lr (it is {self.args.learning_rate:g}) or a "
                f"higher temperature; the checkpoints in {self.args.output_dir} are intact."
            )
        return result


def isolate_rows(model: SentenceTransformer) -> AddedRows:
    """Freeze a model except its added position rows, and let documents start anywhere; changes it in place."""
    first: Any = model[0]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    embeddings = first.model.embeddings
    table: nn.Embedding = embeddings.position_embeddings
    added = AddedRows(table, rows_of_short_inputs(first.family, table.num_embeddings))
    embeddings.position_embeddings = added
    first.family = MovedDocuments(first.family)
    return added


def restore(model: SentenceTransformer, table: AddedRows) -> None:
    """Undo `isolate_rows`, but keep the trained rows; changes the model in place."""
    first: Any = model[0]
    first.model.embeddings.position_embeddings = table.to_embedding()
    first.family = first.family.family


def _hash_of(rows: Dataset) -> str:
    """A hash of all rows."""
    digest = hashlib.sha256()
    for batch in rows.iter(batch_size=1000):
        digest.update(json.dumps(batch).encode())
    return digest.hexdigest()


def _check_checkpoint(checkpoint: Checkpoint) -> None:
    """Raise an error for a model that cannot be tuned, before its weights load."""
    spec = checkpoint.spec
    if spec.dtype is not None:
        raise InputError(f"tuning chooses its own number types: leave out dtype, got {spec.dtype}.")
    for key in [*(["vectors"] if checkpoint.vectors else []), *spec.search]:
        raise InputError(f"tuning trains models with one vector for each document: leave out {key}.")
    _check_tunable(checkpoint.name, checkpoint.base.family.name, checkpoint.strategy)


def _check_tunable(base: str, family: str, strategy: Strategy) -> None:
    if family != "absolute":
        raise IncompatibleError(
            f"only models with absolute positions can be tuned, got {base} with {family} positions: it has no table "
            "of position rows to train, and to train other weights would change short inputs; ntk or se extend "
            "rotary models without training."
        )
    if strategy.KEY not in TUNABLE:
        raise IncompatibleError(
            f"tuning trains only rows that {' or '.join(TUNABLE)} has added, got {strategy.KEY}: use {base}+pi."
        )
    if strategy.target_len <= strategy.trained_len:
        raise InputError(
            f"the target length must be above the trained length of {strategy.trained_len} tokens, otherwise there "
            f"are no new rows to train, got {strategy.target_len}."
        )
    if strategy.scales_short:
        raise InputError("tuning does not change short inputs, so short must be keep, got scale.")


def _prompts(model: SentenceTransformer, columns: list[str]) -> dict[str, str] | None:
    """The model's own query and document prompts, by column of the data."""
    query = model.prompts.get("query") or ""
    document = model.prompts.get("document") or ""
    prompts = {c: query if c == "anchor" else document for c in columns if c != "scores"}
    return prompts if any(prompts.values()) else None
