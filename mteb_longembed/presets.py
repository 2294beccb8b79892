"""Presets: recommended searches with short names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A recommended search with a short name: `MODEL+hybrid` means `MODEL+pcw@32k:...`."""

    settings: str  #: the settings after the colon of the full name
    meaning: str  #: a description in half a line

    def followed_by(self, settings: str) -> str:
        """Return its settings combined with a user's settings, which override them."""
        overridden = {part.partition("=")[0].strip() for part in settings.split(",")}
        own = [part for part in self.settings.split(",") if part.partition("=")[0] not in overridden]
        return ",".join([*own, *filter(None, [settings])])


#: The strategy and target of all presets.
PRESET_STRATEGY = "pcw"
PRESET_TARGET = "32k"
PRESETS = {
    "windows": Preset("vectors=window", "a vector for each window, of which the best one counts"),
    "late": Preset("query=tokens,vectors=16", "each token of the query finds its best chunk of 16 tokens"),
    "hybrid": Preset("fusion=bm25,query=tokens,vectors=16", "late, and BM25 by passage with query expansion"),
}
#: The preset that searches by BM25, and not by vectors: `MODEL+lexical`. Settings of BM25 may follow.
LEXICAL = "lexical"
LEXICAL_SETTINGS = "window=200"
LEXICAL_MEANING = "BM25 by passage with query expansion by MODEL, which encodes terms and no documents"
