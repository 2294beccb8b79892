"""Values of names and settings: parse them by annotated types, and format them. No torch, no mteb."""

import functools
import inspect
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from inspect import Parameter
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from mteb_longembed.errors import InputError

#: The default language, as in mteb.
ENGLISH = "eng-Latn"
#: The power of a whitening.
Power = Annotated[float, Field(gt=0, le=1), "(such as 0.5)"]
#: The vectors of a document: one per this many content tokens, or `window`: one per window of a strategy. None: a
#: single vector.
Vectors = Annotated[int, Field(ge=1), "content token for each vector"] | Literal["window"]
#: How an index stores vectors.
Precision = Literal["fp32", "int8", "4bit"]
_THOUSANDS = re.compile(r"([0-9]{1,12})[kK]")
_IN_WORDS: dict[object, str] = {int: "a whole number", float: "a number", bool: "on or off", str: "a text"}
#: The adapter of a dataclass, which has its own configuration.
_DATACLASS = functools.cache(TypeAdapter)
_BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}


def read(name: str, annotation: object, value: object) -> Any:
    """Parse a text from a name, or a value from Python, into a typed value.

    Args:
        name: the name in messages, with its owner: `se's g`.
        annotation: the type of a field: numbers, bool, Literal, None, and unions of them. A text in `Annotated` is the
            unit of a number.
        value: the value.

    Raises:
        InputError: if the value does not fit.

    >>> read("ntk's sigma", float, "1e1"), read("se's g", int | Literal["document"] | None, "9")
    (10.0, 9)
    """
    parsed = value
    if isinstance(value, bool):  # which is a number to Python
        parsed = "on" if value else "off"
    try:
        return _adapter(annotation).validate_python(parsed)
    except ValidationError:
        raise InputError(f"{name} must be {_rule(annotation)}, got {value!r}.") from None


class _Signature:
    """The signature of a class, by the fields of the dataclass that it becomes."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        return _signature(owner)


@functools.cache
def _signature(owner: Any) -> inspect.Signature:
    parameters = []
    for field in fields(owner):
        default = field.default
        if default is MISSING:
            default = Parameter.empty if field.default_factory is MISSING else field.default_factory
        how = Parameter.KEYWORD_ONLY if field.kw_only else Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(Parameter(field.name, how, default=default, annotation=field.type))
    return inspect.Signature(parameters)


class Validated:
    """Base of frozen dataclasses whose values pydantic reads by the annotations of their fields.

    Values may be texts or Python types, and are stored typed, which `__post_init__` can rely on. Defaults must be typed
    already.

    Raises:
        InputError: if a value breaks its rule.
        TypeError: if a field has no value, or a value no field.
    """

    __signature__ = _Signature()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    def __init_subclass__(cls) -> None:
        cls.__init__ = _read_fields  # type: ignore[assignment]  # `dataclass` keeps an __init__ of the class itself

    @classmethod
    def _must_be(cls, name: str, rule: str, given: Mapping[str, object]) -> str:
        """Return the beginning of a message about a field and its rule; `given` are all values by field."""
        return f"{name} must be {rule}"


def _read_fields(settings: Validated, *args: object, **values: object) -> None:
    owner: Any = type(settings)  # else mypy confuses the hash of an instance with the hash of its class
    given = owner.__signature__.bind(*args, **values).arguments
    # a switch is a number to Python
    switches = {name: "on" if value else "off" for name, value in given.items() if isinstance(value, bool)}
    try:
        _DATACLASS(owner).validator.validate_python(given | switches, self_instance=settings)
    except ValidationError as error:
        broken = error.errors()[0]
        if broken["type"] == "value_error":  # of `__post_init__`
            raise broken["ctx"]["error"] from None
        name = str(broken["loc"][0])
        rule = owner._must_be(name, _rule(hints(owner)[name]), given)
        raise InputError(f"{rule}, got {given[name]!r}.") from None


@functools.cache
def _adapter(annotation: Any) -> TypeAdapter[object]:
    return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))


@functools.cache
def hints(owner: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields, with bounds and units."""
    types_of = typing.get_type_hints(owner, include_extras=True)
    return {field.name: types_of[field.name] for field in fields(owner)}


def _rule(annotation: object) -> str:
    """Describe the values of an annotation in words.

    >>> _rule(Annotated[int, Field(ge=1), "tokens"] | Literal["document"] | None)
    'a whole number of at least 1 tokens or document'
    """
    origin = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        members = [member for member in typing.get_args(annotation) if member is not type(None)]
        return " or ".join(map(_rule, members))
    if origin is Literal:
        choices = typing.get_args(annotation)
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    if origin is not Annotated:
        return _IN_WORDS[annotation]
    inner, *notes = typing.get_args(annotation)
    bounds = []
    for note in notes:
        if isinstance(note, FieldInfo):
            for limit in note.metadata:
                bounds += [f"{_BOUNDS[key]} {value}" for key, value in asdict(limit).items()]
    units = [note for note in notes if isinstance(note, str)]
    return " ".join(filter(None, [_rule(inner), " and ".join(bounds), *units]))


def _tokens(value: object) -> object:
    """Parse `4k` as 4096, and return all other values unchanged."""
    match = _THOUSANDS.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else 1024 * int(match[1])


#: A number of tokens: a whole number, or text such as `4096` or `4k`.
Tokens = Annotated[int, Field(ge=1), "token, such as 4096 or 4k", BeforeValidator(_tokens)]


def check_language_form(language: str) -> None:
    """Raise InputError for a text that has not the form of a language code. mteb knows which codes there are."""
    if not re.fullmatch(r"[a-z]{3}(-[A-Z][a-z]{3})?|[a-z]+-Code|[A-Z][a-z]{3}", language):
        raise InputError(f"a language must be an ISO 639-3 code, such as deu or deu-Latn, got {language!r}.")


def read_tokens(what: str, value: object) -> int:
    """Parse a number of tokens.

    Raises:
        InputError: if it is not a whole number, or below 1 token.

    >>> read_tokens("the target", "4k")
    4096
    """
    return int(read(what, Tokens, value))


def spell(value: object) -> str:
    """Format a parameter's value as in a name.

    >>> spell(False), spell(8.0), spell(0.5), spell("keep")
    ('off', '8', '0.5', 'keep')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return str(value).removesuffix(".0").replace("e+", "e")
    return str(value)


def split_settings(text: str, settings: str) -> dict[str, str]:
    """Split the parameters of a name, `text`, by key. Values stay text.

    Raises:
        InputError: if a part is not `key=value`, or a key is given twice.

    >>> split_settings("e5-base+pi@4k:logn=off,short=scale", "logn=off,short=scale")
    {'logn': 'off', 'short': 'scale'}
    """
    values: dict[str, str] = {}
    if not settings:
        return values
    for part in settings.split(","):
        key, equals, value = part.strip().partition("=")
        if not (key and equals and value):
            raise InputError(
                f"parameters must be written as key=value with commas between them, got {part!r} in {text!r}."
            )
        if key in values:
            raise InputError(f"a parameter may be given only once, got {key} twice in {text!r}.")
        values[key] = value
    return values
