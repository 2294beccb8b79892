"""The module that our model classes name as theirs.

BERTopic, KeyBERT and others recognise a SentenceTransformer by "sentence_transformers" in the name of its class, and
otherwise fall back to another model.
"""

from .model import LongMultiVectorEncoder as LongMultiVectorEncoder
from .model import LongSentenceTransformer as LongSentenceTransformer
from .model import LongSparseEncoder as LongSparseEncoder
