"""Single queries and places of answers, compared with the rankings on the disk."""

import json

import mteb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.comparing import page as pages
from mteb_longembed.comparing.by_query import _shortened, differences
from mteb_longembed.comparing.candidates import BM25, Candidate, candidates_of
from mteb_longembed.comparing.evaluations import Evaluations
from mteb_longembed.files import slug
from tests.comparing.conftest import compare


def test_query_by_query_shows_the_largest_differences_as_the_rankings_say(base, task, tmp_path) -> None:
    candidates = [*candidates_of(base, ["gp"]), Candidate(BM25, "")]
    result = compare(candidates, task, tmp_path)
    names = [row.name for row in result.rows]
    (extended,) = (name for name in names if "+gp" in name)
    assert result.recommendation.best == BM25 and list(result.queries) == [names[1]]
    evaluations = Evaluations(tmp_path)

    def ranking(name: str, query: str) -> list[str]:
        saved = evaluations.rankings(mteb.get_model_meta(name), task, "test")["default"][query]
        return [name for _, name in sorted(((score, name) for name, score in saved.items()), reverse=True)]

    def scores(name: str) -> dict[str, float]:
        table = evaluations.find(mteb.get_model_meta(name), task, "test")
        return dict(zip(table["query"], table["score"], strict=True))

    made = differences(evaluations, [task], result.rows, result.scores, extended, {})
    assert set(made) == set(names) - {extended}
    cases = [(extended, *item) for item in made.items()]
    for best, other, queries in [*cases, (BM25, names[1], result.queries[names[1]])]:
        points = {query: 100 * (score - scores(other)[query]) for query, score in scores(best).items()}
        sizes = sorted((abs(value) for value in points.values() if value), reverse=True)[:10]
        assert queries and [abs(difference.points) for difference in queries] == pytest.approx(sizes)
        for difference in queries:
            assert difference.points == pytest.approx(points[difference.query])
            for name, side in ((best, difference.best), (other, difference.other)):
                order, answer = ranking(name, difference.query), difference.query.replace("q", "d")
                assert (side.relevant, side.first) == (answer, order[0])
                assert side.rank == (order.index(answer) + 1 if answer in order else None)
    plain = json.loads(pages.as_json(result))["by_query"]
    first = result.queries[names[1]][0]
    assert plain[names[1]][0]["best"]["rank"] == first.best.rank
    page = pages.page(result, []).replace("<wbr>", "")
    section = page.partition(f'<section id="{slug(f"queries-{result.rows[1].label}")}">')[2].partition(
        "</section>"
    )[0]
    assert "<details><summary>" in section and first.text in section


spans = st.tuples(st.integers(0, 900), st.integers(1, 400)).map(lambda pair: (pair[0], sum(pair)))


@given(spans, st.lists(spans, max_size=3))
def test_a_passage_is_shortened_around_the_answer_that_it_covers_most(passage, answers) -> None:
    text = "".join(chr(0x4E00 + i) for i in range(1400))  # each character once
    shown, place = _shortened(text, *passage, answers)
    plain = shown.strip("…")
    at = text.index(plain)
    assert len(plain) == min(240, passage[1] - passage[0])
    assert passage[0] <= at <= at + len(plain) <= passage[1]
    assert (shown[0] == "…", shown[-1] == "…") == (at > passage[0], at + len(plain) < passage[1])
    covered = [set(text[max(passage[0], a) : min(passage[1], b)]) for a, b in answers]
    most = max(map(len, covered), default=0)
    assert (place is None) == (most == 0)
    if place is not None:
        marked = set(shown[slice(*place)])
        assert len(marked) == min(most, 240) and any(marked <= each for each in covered if len(each) == most)
