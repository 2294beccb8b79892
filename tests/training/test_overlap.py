"""The training text must not hold the benchmark's sentences; `training.overlap` counts them."""

from __future__ import annotations

from training.overlap import benchmark_texts, count_shared


def test_a_sentence_of_each_task_is_found_and_other_text_is_not():
    benchmark = benchmark_texts()
    filler, question = "We walked on. The grass is green. The sky is blue.", benchmark["LongEmbedNeedle"][0]
    found = count_shared([filler, f"He asked: {question}"], benchmark)
    assert found["LongEmbedPasskey"]["the", "grass", "is", "green", "the"] == 1
    assert found["LongEmbedNeedle"]
    other = count_shared(
        ["There was no possibility of taking a walk that day, for the wind was cold."], benchmark
    )
    assert not other["LongEmbedPasskey"] and not other["LongEmbedNeedle"]


def test_keys_and_questions_are_compared_too():
    benchmark = benchmark_texts()["LongEmbedPasskey"]
    assert any("what is the pass key for" in text for text in benchmark)
    assert any("Remember it." in text for text in benchmark)
