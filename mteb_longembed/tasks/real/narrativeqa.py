"""NarrativeQA: questions about a whole book or film script."""

from __future__ import annotations

from mteb_longembed.tasks.metadata import CITATION, LongEmbedMetadata
from mteb_longembed.tasks.real.hub import REPOSITORY, REVISION, HubRetrieval, Size


class LongEmbedNarrativeQA(HubRetrieval):
    """NarrativeQA: questions about a whole book or film script, with the documents of `dwzhu/LongEmbed`.

    Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); https://arxiv.org/abs/1712.07040.
    """

    metadata = LongEmbedMetadata(
        name="LongEmbedNarrativeQA",
        description=(
            "Find the book or film script that a question is about: 355 documents of 50,000 words "
            "on average, 10,449 questions."
        ),
        dataset={"path": REPOSITORY, "revision": REVISION, "name": "narrativeqa"},
        reference="https://arxiv.org/abs/1712.07040",
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        date=("1000-01-01", "2017-12-31"),
        domains=["Fiction", "Non-fiction", "Written"],
        task_subtypes=["Article retrieval", "Question answering"],
        license="not specified",
        annotations_creators="human-annotated",
        dialect=[],
        sample_creation="found",
        adapted_from=["LEMBNarrativeQARetrieval"],
        bibtex_citation=r"""
@article{kocisky-etal-2018-narrativeqa,
  author = {Ko{\v{c}}isk{\'y}, Tom{\'a}{\v{s}} and Schwarz, Jonathan and Blunsom, Phil and Dyer, Chris and
            Hermann, Karl Moritz and Melis, G{\'a}bor and Grefenstette, Edward},
  doi = {10.1162/tacl_a_00023},
  journal = {Transactions of the Association for Computational Linguistics},
  pages = {317--328},
  title = {The {N}arrative{QA} Reading Comprehension Challenge},
  url = {https://aclanthology.org/Q18-1023},
  volume = {6},
  year = {2018},
}
"""
        + CITATION,
    )
    size = Size(355, 326752.9972, 10449, 47.8945)
