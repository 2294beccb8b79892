import pandas as pd
import pytest

from mteb_longembed.reports.results import COLUMNS, split_length
from mteb_longembed.reports.strategies import by_strategy
from tests.reports.made import BASE


def frame(*rows):
    """Rows of strategy, target, task, split, score and revision."""
    made = []
    for strategy, target, task, split, score, revision in rows:
        model = f"{BASE}+{strategy}@{target}"
        if target is None:
            model = BASE
        length = split_length(split)
        made.append((model, revision, BASE, strategy, target, task, split, length, "g1", score))
    return pd.DataFrame(made, columns=COLUMNS)


def table(*rows):
    return by_strategy(frame(*rows)).set_index("model")


def test_the_gain_is_the_mean_over_tasks_that_both_have():
    found = table(
        ("none", 512, "Needle", "test_256", 20.0, "r"),
        ("none", 512, "Needle", "test_512", 40.0, "r"),
        ("none", 512, "QMSum", "test", 10.0, "r"),
        ("pi", 4096, "Needle", "test_256", 50.0, "r"),
        ("pi", 4096, "Needle", "test_512", 60.0, "r"),
        ("pi", 4096, "QMSum", "test", 14.0, "r"),
        ("gp", 4096, "QMSum", "test", 12.0, "r"),
    )
    pi, gp, none = (found.loc[f"{BASE}+{name}"] for name in ("pi@4096", "gp@4096", "none@512"))
    assert (pi["Needle"], pi["average"]) == (55.0, 34.5)
    assert (pi["gain"], pi["shared"]) == (pytest.approx((25 + 4) / 2), 2)
    assert (gp["gain"], gp["shared"]) == (pytest.approx(2), 1)
    assert pd.isna(gp["average"]) and pd.isna(none["gain"])
    assert list(found.index) == [f"{BASE}+pi@4096", f"{BASE}+gp@4096", f"{BASE}+none@512"]


def test_a_mean_is_missing_if_the_model_lacks_a_split_that_another_has():
    found = table(
        ("none", 512, "Needle", "test_256", 20.0, "r"),
        ("none", 512, "Needle", "test_512", 40.0, "r"),
        ("pi", 4096, "Needle", "test_256", 50.0, "r"),
    )
    assert pd.isna(found.loc[f"{BASE}+pi@4096", "Needle"]) and pd.isna(found.loc[f"{BASE}+pi@4096", "gain"])


def test_nanolongembed_has_an_average_of_its_own():
    found = table(
        ("none", 512, "QMSum", "test", 20.0, "r"),
        ("none", 512, "NanoLongEmbedQMSum", "NanoQMSum", 40.0, "r"),
        ("none", 512, "NanoLongEmbedNeedle", "NanoNeedle", 50.0, "r"),
    )
    assert (found.loc[f"{BASE}+none@512", "average"], found.loc[f"{BASE}+none@512", "average Nano"]) == (
        20,
        45,
    )
    alone = table(("none", 512, "NanoLongEmbedQMSum", "NanoQMSum", 40.0, "r"))
    assert alone.loc[f"{BASE}+none@512", "average"] == 40


def test_longer_splits_than_the_papers_are_not_averaged():
    rows = [("none", 512, "Needle", "test_256", 20.0, "r"), ("none", 512, "Needle", "test_65536", 0.0, "r")]
    assert list(by_strategy(frame(*rows))["Needle"]) == [20.0]


def test_the_base_is_of_the_same_commit_and_the_shortest():
    found = table(
        ("none", 4096, "QMSum", "test", 30.0, "c1-le2"),  # plain extrapolation is no base
        ("none", 512, "QMSum", "test", 10.0, "c1-le2"),
        ("none", None, "QMSum", "test", 11.0, "c1"),
        ("pi", 4096, "QMSum", "test", 14.0, "c1-le2"),
        ("rp", 4096, "QMSum", "test", 15.0, "c1-le2-se3-bm25_0_3_0p1"),  # with search parameters
        ("gp", 4096, "QMSum", "test", 14.0, "c2-le2"),
    )
    assert found.loc[f"{BASE}+pi@4096", "gain"] == pytest.approx(4)
    assert found.loc[f"{BASE}+rp@4096", "gain"] == pytest.approx(5)
    assert pd.isna(found.loc[f"{BASE}+gp@4096", "gain"])


def test_two_revisions_of_one_name_are_told_apart():
    rows = [("none", 512, "QMSum", "test", 10.0, f"{digit * 40}-le2") for digit in "ab"]
    assert list(by_strategy(frame(*rows))["model"]) == [
        f"{BASE}+none@512 (aaaaaaaa-le2)",
        f"{BASE}+none@512 (bbbbbbbb-le2)",
    ]


def test_a_variant_and_the_published_twins_do_not_empty_the_average():
    rows = [
        ("none", 512, "LongEmbedQMSum", "test", 10.0, "r"),
        ("none", 512, "LongEmbedPasskey", "test_256", 20.0, "r"),
        ("none", 512, "LEMBPasskeyRetrieval", "test_256", 40.0, "r"),
        ("pi", 4096, "LongEmbedQMSum", "test", 30.0, "r"),
        ("pi", 4096, "LongEmbedPasskey", "test_256", 40.0, "r"),
        ("pi", 4096, "LongEmbedPasskey-seed7", "test_256", 99.0, "r"),
    ]
    found = table(*rows)
    assert found["average"].to_dict() == {f"{BASE}+pi@4096": 35.0, f"{BASE}+none@512": 15.0}
    assert found.loc[f"{BASE}+none@512", "average LEMB"] == 25.0
    assert pd.isna(found.loc[f"{BASE}+pi@4096", "average LEMB"])
    assert list(by_strategy(frame(rows[-1]))["average"]) == [99.0]
