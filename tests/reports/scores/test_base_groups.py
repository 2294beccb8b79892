import pytest

from mteb_longembed.reports.figures.strategies import draw, improvement
from mteb_longembed.reports.scores.base_groups import group_by_base
from mteb_longembed.reports.scores.scoreboard import score_lines
from mteb_longembed.reports.tables.paper_tables import strategy_tables
from tests.reports.made import BASE, ROTARY, lines, rows


@pytest.mark.parametrize(
    ("base", "variants"),
    [
        pytest.param(f"{BASE}+none@512", [BASE, f"{BASE}+pi@4096"], id="our run at the trained length"),
        pytest.param(BASE, [f"{BASE}+pi@4096"], id="mteb's own entry where there is no run of ours"),
        pytest.param(None, [f"{ROTARY}+none@4096", f"{ROTARY}+se@4096"], id="extrapolation is a variant"),
    ],
)
def test_the_base_is_a_run_of_its_trained_length_alone(base, variants):
    (group,) = group_by_base(lines(dict.fromkeys(filter(None, [base, *variants]), 0.5)))
    assert (group.line and group.line.model.name.full) == base
    assert [line.model.name.full for line in group.variants] == variants


def test_variants_stand_by_target_length_and_then_in_the_papers_order():
    names = ["ntk@2048", "pcw@4096", "gp@4096", "se@4096", "mine@4096"]
    (group,) = group_by_base(lines({f"{ROTARY}+{name}": 0.5 for name in sorted(names)}))
    assert [line.model.name.full.partition("+")[2] for line in group.variants] == names


def test_a_base_alone_is_no_group():
    assert group_by_base(lines({BASE: 0.3})) == []


def _of_commits(*named):
    return score_lines([row for name, value, commit in named for row in rows(name, value, revision=commit)])


def test_the_base_of_an_extended_model_is_that_of_its_own_commit():
    made = _of_commits(
        (f"{BASE}+none@512", 0.3, "commit-1-le2"),
        (f"{BASE}+none@512", 0.4, "commit-2-le2"),
        (f"{BASE}+ntk@4096", 0.5, "commit-2-le2"),
        (f"{BASE}+pi@4096", 0.5, "commit-1-le1"),
    )
    groups = {group.variants[0].model.name.strategy: group for group in group_by_base(made)}
    revisions = {key: group.line.model.revision for key, group in groups.items()}
    assert revisions == {"ntk": "commit-2-le2", "pi": "commit-1-le2"}
    tables = strategy_tables(made)
    gains = {row[0].text: row[2].text for table in tables for row in table.rows}
    assert (gains["+ntk"], gains["+pi"]) == ("50.0 (+10.0)*", "50.0 (+20.0)*")
    assert len({table.key for table in tables}) == len({table.caption for table in tables}) == 2
    assert len({draw(group)[0].key for group in groups.values()}) == 2


def test_the_base_of_another_commit_is_no_base():
    made = _of_commits((f"{BASE}+none@512", 0.3, "one-le2"), (f"{BASE}+ntk@4096", 0.5, "two-le2"))
    (group,) = [group for group in group_by_base(made) if group.variants]
    assert group.line is None and improvement(group) == {}


def test_two_revisions_of_one_variant_never_share_a_label():
    variants = ((f"{BASE}+pi@4096", 0.4, f"c-le{i}") for i in (1, 2))
    both = _of_commits((f"{BASE}+none@512", 0.3, "c-le2"), *variants)
    (table,) = strategy_tables(both)
    assert len({row[0].text for row in table.rows}) == 3
    (group,) = group_by_base(both)
    assert len(improvement(group)) == 2
