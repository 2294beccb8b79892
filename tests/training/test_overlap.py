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
    # keys and questions are compared too
    for part in ("what is the pass key for", "Remember it."):
        assert any(part in text for text in benchmark["LongEmbedPasskey"])
