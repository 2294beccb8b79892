"""Which names are tried for a base, in which passes, and what they are called."""

from dataclasses import replace
from typing import Any

import pytest

from mteb_longembed.comparing.candidates import bm25_candidates, candidates_of, free_candidates, named
from mteb_longembed.comparing.labels import short_names
from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.presets import PRESETS
from tests import tiny
from tests.comparing.frames import fake


def tails(base: str, *given: Any, **options: Any) -> list[str]:
    return [c.name.removeprefix(base) for c in candidates_of(base, *given, **options)[0]]


PRESET_NAMES = ["+windows", "+late", "+hybrid"]


def test_windows_come_from_one_pass_as_long_as_that_of_presets_or_longer(base) -> None:
    names = tails(base, covering=256)
    windows = names[1:15]
    expected = {"+pcw@32768", "+windows:score=softmax", "+pcw@32768:weights=idf,whiten=0.5"}
    assert len(set(windows)) == 14 and expected | {"+hybrid:whiten=0.5"} < set(windows)
    assert windows[:3] == PRESET_NAMES and windows[-1] == "+windows:size=8"
    assert names[0] == "+none@16" and names[15:] == ["+ntk@128"]
    found, notes = candidates_of(base, covering=256)
    assert [c.passes for c in found].count(f"{base}+pcw@32768") == 13 and not notes
    assert [c.name for c in bm25_candidates(600)] == ["bm25:window=200", "bm25@512"]
    # a quick comparison has one pass over windows
    assert tails(base, covering=256, quick=True) == ["+none@16", *PRESET_NAMES]
    assert [c.name for c in bm25_candidates(600, [base], quick=True)] == ["bm25:window=200"]
    # what the user asks for, and what the documents need
    assert tails(base, ["pcw"], 256)[1:4] == [f"{name}@256" for name in PRESET_NAMES]
    assert tails(base, covering=65536, quick=True)[1:] == [f"{name}@65536" for name in PRESET_NAMES]


def test_hybrids_of_other_weights_and_whitened_ones_come_from_the_pass_of_the_hybrid(base) -> None:
    found, _ = candidates_of(base, covering=256, quick=True)
    free = free_candidates(found)
    settings = ["lexical_weight=0.5", "", "lexical_weight=1"]
    settings += ["lexical_weight=0.5,whiten=0.5", "whiten=0.5", "lexical_weight=1,whiten=0.5"]
    expected = [f"{base}+hybrid:{one}".rstrip(":") for one in settings]
    assert [c.name for c in free] == [*expected, f"{base}+lexical"]
    assert {c.passes for c in free[:-1]} == {f"{base}+pcw@32768"}
    # what people name is not varied
    assert not free_candidates([replace(one, is_named=True) for one in found])


def test_one_position_strategy_is_tried_or_all() -> None:
    found, _ = candidates_of("mini-rope", covering=4096)
    positions = [c.name for c in found if c.kind == "strategy" and "pcw" not in str(c.method)]
    assert positions == ["mini-rope+se@4096"]
    everything = [name.partition("@")[0] for name in tails("mini-rope", ["all"], covering=4096)]
    assert {"+ntk", "+se", "+none", "+gp", "+pi", "+rp", "+yarn", "+pcw"} <= set(everything)


def test_where_one_window_holds_the_documents_the_base_itself_is_adapted(base) -> None:
    found = tails(base, covering=16)[:6]
    assert found[:2] == ["+none@16", f"+none@16:{PRESETS['late'].settings}"]
    rest = (PRESETS["hybrid"].settings, "fusion=bm25", "whiten=0.5", "weights=idf,whiten=0.5")
    assert found[2:] == [f"+none@16:{settings}" for settings in rest]


def test_a_base_that_does_not_average_tokens_has_no_weights(tmp_path) -> None:
    model = str(tiny.saved("bert", tmp_path, pooling="cls"))
    names = tails(model, covering=128)
    assert (
        not any("weights=" in name or "query=tokens" in name for name in names)
        and "+pcw@32768:whiten=0.5" in names
    )


def test_only_requested_candidates_are_tried(base) -> None:
    assert tails(base, ["gp", "rp"]) == ["+none@16", "+gp@128", "+rp@128"]
    assert [c.target_len for c in candidates_of(base, ["gp"], 64)[0]] == [16, 64]
    (of_base,), _ = candidates_of(base, ["none"])
    assert of_base.is_base and (of_base.trained_len, of_base.target_len) == (16, 16)
    ((refused),) = candidates_of(base, ["gp", "se"])[1]
    assert refused.startswith(f"se does not fit {base}: ")
    assert "+pcw@64" in tails(base, ["pcw"], 64)


def test_names_with_a_strategy_are_compared_with_their_base_if_it_takes_part(base) -> None:
    found = [
        named(f"{base}+{tail}")
        for tail in ("none", "none:dtype=bf16", "none:vectors=8", "pi@64", "pi:fusion=bm25")
    ]
    assert {candidate.base for candidate in found} == {base}
    assert [c.kind for c in found] == ["base", "strategy", "strategy", "strategy", "fusion"]
    ((alone,), _) = candidates_of(f"{base}+pi@64")
    assert alone.is_named and alone == found[3]


def test_candidates_that_cannot_be_are_told(base) -> None:
    with pytest.raises(UnknownNameError, match="unknown strategy 'gpp': did you mean 'gp'"):
        candidates_of(base, ["gpp"])
    with pytest.raises(InputError, match=r"^se does not fit .*, a model with absolute .*fit: pcw, ntk, none"):
        candidates_of(base, ["se"])
    with pytest.raises(InputError, match="the target length must be at least the trained length of 16"):
        candidates_of(base, None, 8)
    with pytest.raises(InputError, match=r"^none does not fit .*takes at most its 16 trained positions"):
        candidates_of(base, ["none"], 64)


def test_short_names_leave_out_what_all_have_in_common() -> None:
    path = "/models/all-MiniLM-L6-v2"
    one = [
        fake(f"{path}+none@256", "base"),
        fake(f"{path}+gp@1k", "strategy"),
        fake("bm25:window=200", "bm25"),
    ]
    assert list(short_names(one).values()) == ["base", "+gp@1k", "bm25:window=200"]
    near = f"{path}+lexical"
    expanded = fake(near, "bm25")
    assert short_names([*one, expanded])[near] == "+lexical"
    two = short_names([*one, fake("e5-base+gp@1k", "strategy")])
    assert list(two.values())[:2] == ["all-MiniLM-L6-v2", "all-MiniLM-L6-v2+gp@1k"]
    alike = [fake("/a/m+gp@1k", "strategy"), fake("/b/m+gp@1k", "strategy")]
    assert list(short_names(alike).values()) == ["/a/m+gp@1k", "/b/m+gp@1k"]
