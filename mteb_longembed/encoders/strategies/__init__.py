"""The registry of context-extension strategies: each strategy is one file, and one line here."""

import hashlib
import inspect
from types import FunctionType

from .gp import GroupedPositions
from .none import NoExtension
from .ntk import NTKAware
from .pcw import ParallelContextWindows
from .pi import PositionInterpolation
from .rp import RecurrentPositions
from .se import SelfExtend
from .strategy import Strategy as Strategy
from .yarn import YaRN

#: Version of our algorithms. It is part of every revision, so results of old and new algorithms never mix.
ALGORITHM = "le4"

#: Registry key -> strategy, in the order of their evidence on real text: by default `compare` tries windows,
#: and of the others the first one that fits a model.
STRATEGIES: dict[str, type[Strategy]] = {
    "pcw": ParallelContextWindows,
    "se": SelfExtend,
    "ntk": NTKAware,
    "none": NoExtension,
    "gp": GroupedPositions,
    "pi": PositionInterpolation,
    "rp": RecurrentPositions,
    "yarn": YaRN,
}


def algorithm_of(strategy: type[Strategy]) -> str:
    """Return the version of a strategy's algorithm. A custom strategy has a hash of its code after `ALGORITHM`."""
    if strategy.__module__.startswith(__name__):
        return ALGORITHM
    try:
        text = inspect.getsource(strategy)
    except (OSError, TypeError):  # typed in a shell
        codes = [value.__code__ for value in vars(strategy).values() if isinstance(value, FunctionType)]
        text = repr([(code.co_name, code.co_code, code.co_consts) for code in codes])
    return f"{ALGORITHM}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"
