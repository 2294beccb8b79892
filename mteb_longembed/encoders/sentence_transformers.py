"""Where our models say that they come from.

BERTopic, KeyBERT and others know a SentenceTransformer by "sentence_transformers" in the name of its class, and take
another model where it is not there.
"""

from .model import LongMultiVectorEncoder as LongMultiVectorEncoder
from .model import LongSentenceTransformer as LongSentenceTransformer
from .model import LongSparseEncoder as LongSparseEncoder
