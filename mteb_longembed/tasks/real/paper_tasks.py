"""The four tasks with real documents, from `dwzhu/LongEmbed`.

Source: LongEmbed, section 3.2 (https://arxiv.org/abs/2404.12096); each data set's own paper is its `reference`.
"""

from mteb.tasks.retrieval import eng

from mteb_longembed.tasks.real.hub_retrieval import DATASET, HubRetrieval, Size, metadata_of


class LongEmbedNarrativeQA(HubRetrieval):
    """NarrativeQA: questions about a whole book or film script."""

    metadata = metadata_of(
        eng.LEMBNarrativeQARetrieval,
        name="LongEmbedNarrativeQA",
        dataset={**DATASET, "name": "narrativeqa"},
        reference="https://arxiv.org/abs/1712.07040",
        description="Find the book or film script that a question is about: "
        "355 documents of 50,000 words on average, 10,449 questions.",
    )
    size = Size(355, 326752.9972, 10449, 47.8945)


class LongEmbedQMSum(HubRetrieval):
    """QMSum: summaries of what was said in a meeting."""

    metadata = metadata_of(
        eng.LEMBQMSumRetrieval,
        name="LongEmbedQMSum",
        dataset={**DATASET, "name": "qmsum"},
        reference="https://arxiv.org/abs/2104.05938",
        description="Find the meeting transcript that a summary belongs to: "
        "197 documents of 10,000 words on average, 1,527 summaries.",
        license="mit",
    )
    size = Size(197, 53335.8173, 1527, 433.5029)


class LongEmbedSummScreenFD(HubRetrieval):
    """SummScreenFD: summaries of television episodes."""

    metadata = metadata_of(
        eng.LEMBSummScreenFDRetrieval,
        name="LongEmbedSummScreenFD",
        dataset={**DATASET, "name": "summ_screen_fd"},
        reference="https://arxiv.org/abs/2104.07091",
        description="Find the episode transcript that a summary belongs to: "
        "336 documents of 5,600 words on average, 336 summaries.",
        eval_splits=["validation"],
    )
    size = Size(336, 30854.3274, 336, 591.4911)


class LongEmbed2WikiMultihopQA(HubRetrieval):
    """2WikiMultihopQA: questions that need two articles."""

    metadata = metadata_of(
        eng.LEMBWikimQARetrieval,
        name="LongEmbed2WikiMultihopQA",
        dataset={**DATASET, "name": "2wikimqa"},
        reference="https://arxiv.org/abs/2011.01060",
        description="Find the collection of encyclopedia articles that answers a two-step question: "
        "300 documents, 300 questions.",
    )
    size = Size(300, 37445.6033, 300, 67.57)


#: In the order of the paper's tables.
REAL_TASKS = (LongEmbedNarrativeQA, LongEmbedQMSum, LongEmbedSummScreenFD, LongEmbed2WikiMultihopQA)
