from __future__ import annotations

from mteb_longembed.reports.scores.bases import group_by_base, labels
from tests.reports.made import BASE, ROTARY, lines, rows


def test_our_run_at_the_trained_length_is_the_base():
    (group,) = group_by_base(lines({BASE: 0.3, f"{BASE}+none@512": 0.31, f"{BASE}+pi@4096": 0.5}))
    assert group.line is not None
    assert group.line.model.name.full == f"{BASE}+none@512"
    assert [line.model.name.full for line in group.variants] == [BASE, f"{BASE}+pi@4096"]


def test_mtebs_own_entry_is_the_base_where_there_is_no_run_of_ours():
    (group,) = group_by_base(lines({BASE: 0.3, f"{BASE}+pi@4096": 0.5}))
    assert group.line is not None
    assert group.line.model.name.full == BASE


def test_extrapolation_is_a_variant_and_no_base():
    (group,) = group_by_base(lines({f"{ROTARY}+none@4096": 0.3, f"{ROTARY}+se@4096": 0.5}))
    assert group.line is None
    assert [line.model.name.strategy for line in group.variants] == ["none", "se"]


def test_variants_stand_by_target_length_and_then_in_the_papers_order():
    names = ["se@4096", "ntk@2048", "gp@4096", "pcw@4096", "mine@4096"]
    (group,) = group_by_base(lines({f"{ROTARY}+{name}": 0.5 for name in names}))
    assert [line.model.name.full.partition("+")[2] for line in group.variants] == [
        "ntk@2048",
        "pcw@4096",
        "gp@4096",
        "se@4096",
        "mine@4096",
    ]


def test_a_base_alone_is_no_group():
    assert group_by_base(lines({BASE: 0.3})) == []


def test_labels_carry_a_revision_only_where_a_name_has_two():
    one, two, other = (rows(name, 0.5, revision=rev)[0].model for name, rev in
                       (("a/b", "11111111ff"), ("a/b", "22222222"), ("a/c", "r")))  # fmt: skip
    assert list(labels([one, two, other]).values()) == ["a/b (11111111)", "a/b (22222222)", "a/c"]
