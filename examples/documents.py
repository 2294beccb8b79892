"""Three long documents for the examples: each hides one fact in about 900 words of other text."""

FILLER = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
FACTS = {
    "harbour": "Ada Brandt's pass key is 48213. Remember it. 48213 is the pass key for Ada Brandt. ",
    "library": "Tom Keller's pass key is 90577. Remember it. 90577 is the pass key for Tom Keller. ",
    "station": "Eva Lindholm's pass key is 11846. Remember it. 11846 is the pass key for Eva Lindholm. ",
}
DOCUMENTS = {name: FILLER * 40 + fact + FILLER * 8 for name, fact in FACTS.items()}
YEARS = {"harbour": 1987, "library": 2014, "station": 1996}
QUESTION = "What is the pass key for Tom Keller?"
