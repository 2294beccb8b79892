"""The tests of devices find faults: each small change below, one for each thing that was mended, makes one fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HERE = "tests/encoders/devices"
#: What is broken, the file, its text, what stands there instead, and the tests that must notice.
MUTANTS: list[tuple[str, str, str, str, str]] = [
    ("float64 on Apple's devices", "attention/rotation.py",
     'device if device.type == "cuda" else torch.device("cpu")', "device", "Apple and (se or dca or rerope)"),
    ("float64 of the log-n factor", "families/absolute.py",
     "factors = self.strategy.query_scale(documents.n)[:, None]",
     "factors = self.strategy.query_scale(documents.lengths_here())[:, None]", "Apple and (gp or rp or pi or ntk)"),
    ("float64 of T5's distances", "families/relative.py",
     "to_device(low.long(), device)", "to_device(low, device).long()", "Apple and t5"),
    ("every chunk gathers all earlier keys", "attention/plans.py",
     "at_least_before(n, 2 * size) + [tile for c in chunks[2:] for tile in _corner(c, size)]",
     '[Tile(c, slice(0, (m + 1) * size), "full") for m, c in enumerate(chunks[2:])]', "gather_no_key"),
    ("packing is decided where the model is built", "families/interface.py",
     "not getattr(config, \"is_decoder\", False)", "torch.cuda.is_available()", "built_without_a_device"),
    ("num_splits on ROCm", "attention/devices.py",
     "if torch.version.hip:", "if False:", "ROCm or does_not_depend"),
    ("more than one split", "attention/devices.py", '("num_splits", 1)', '("num_splits", 2)', "does_not_depend"),
    ("FlashAttention that torch does not have", "attention/devices.py",
     "and torch.backends.cuda.is_flash_attention_available()", "", "without_flash"),
    ("FlexAttention must compile", "attention/kernels.py",
     "_NOT_COMPILED.append(reason)", "raise", "t5_makes_its_table"),
    ("T5's table in each layer", "families/relative.py",
     "make() if torch.is_grad_enabled() else documents.once((id(self), n), make)", "make()", "t5_makes_its_table"),
    ("a rounded log-n factor", "families/absolute.py",
     "(output * scale).to(output.dtype)", "output * scale.to(output.dtype)", "log_n_factor"),
    ("fp32 matrices on a T4", "attention/kernels.py",
     "has_efficient(q.device, q.dtype)", "q.dtype == torch.float32 and has_efficient(q.device, q.dtype)", "old_device"),
    ("frequencies from pageable memory", "attention/rotation.py",
     "to_device(self.inv_freq, work)", "self.inv_freq.to(work)", "h100 and qwen3 and se"),
    ("lengths are counted on the device", "families/interface.py",
     "if documents is not None and len(documents.lengths) == b", "if documents is None and len([]) == b",
     "fp32 or T4"),
    ("windows are counted on the device", "modules.py",
     'cut["window_counts"] = torch.tensor(counts)', 'cut["window_counts"] = to_device(torch.tensor(counts), device)',
     "h100 and pcw"),
    ("a flag for each document", "engine/running.py",
     "return finite.view(len(sizes), -1).all(1)", "return torch.stack([x.all() for x in finite.split(sizes[0])])",
     "check_for_finite"),
    ("32 documents a batch", "engine/engine.py",
     "batch_size = tokens  #", "batch_size = 32  #", "short_texts_fill"),
    ("tokens are padded in fp32", "modules.py",
     'pooling.pooling_mode in ("mean", "cls", "lasttoken")', "False", "pooled_without_tokens"),
]  # fmt: skip


def run(where: Path, chosen: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", HERE, "-k", chosen]
    environ = {**os.environ, "PYTHONPATH": str(where)}
    done = subprocess.run(command, cwd=where, env=environ, capture_output=True, text=True, check=False)
    return done.returncode


@pytest.mark.long
@pytest.mark.parametrize(("name", "file", "text", "instead", "chosen"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_change_for_the_worse_is_noticed(name, file, text, instead, chosen, tmp_path):
    shutil.copytree(ROOT / "mteb_longembed", tmp_path / "mteb_longembed")
    for linked in ("tests", "pyproject.toml"):
        (tmp_path / linked).symlink_to(ROOT / linked)
    changed = tmp_path / "mteb_longembed" / "encoders" / file
    source = changed.read_text(encoding="utf-8")
    assert text in source, "the line has changed: the mutant must follow it"
    changed.write_text(source.replace(text, instead), encoding="utf-8")
    assert run(tmp_path, chosen) == 1, "no test failed (5: no test was chosen)"


@pytest.mark.parametrize(("name", "file", "text"), [m[:3] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_every_mutant_still_has_its_line(name, file, text):
    assert text in (ROOT / "mteb_longembed" / "encoders" / file).read_text(encoding="utf-8")
