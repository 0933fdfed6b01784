"""The settings of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.arguments import (
    allowing,
    check_options,
    count_from,
    is_listed,
    is_number,
    option,
    optional,
    require,
    require_one_of,
)

_LINE = {"line": True}
_COUNT = _LINE | option(count_from(1))
_POSITIVE = _LINE | option(allowing(lambda value: is_number(value, 0), "a finite number of at least 0"))
_NAMES = _LINE | option(allowing(lambda value: is_listed(value, str), "a list of names"))
_NAME = allowing(lambda value: isinstance(value, str) and bool(value), "a name for the model")


def _check_key(name: str, value: Any) -> None:
    """The key is not shown."""
    several = name == "api_key" and value is not None and not isinstance(value, str)
    keys = [*value] if several else [value] if value is not None else []
    keyed = all(isinstance(key, str) and key.strip() == key != "" for key in keys)
    allowed = "a key, several keys, or None" if name == "api_key" else "a key, or None"
    require(keyed and (bool(keys) or value is None), name, "...", allowed)


def _check_format(name: str, value: Any) -> None:
    if value is not None:
        from structgen.chat.formats import NATIVE

        require_one_of(name, value, *(each.name for each in NATIVE))


@dataclass(frozen=True, slots=True)
class Settings:
    """The bounds of a server. A request beyond one of them is refused with the bound's name.

    The command line has a flag for each, named in the metadata where it is not the field's name.

    Attributes:
        name: the name of the model for clients. Several models have names of their own, see `create_app`.
        aliases: further names of the first model, as those that clients ask for by themselves; "*" is any name.
        api_key: the key that requests must send as `Authorization: Bearer ...`, or several, of which any one is right;
            None lets everyone in.
        metrics_key: the only key that `/metrics` takes; None for the keys of requests.
        metrics_port: a port of this machine that has the metrics alone, without a key; None for no such port.
        hosts: further names by which a server without a key may be called on this machine, as that of a proxy; or
            `("*",)`. See `Gate`.
        cors_origins: the origins of web pages that may send requests, or `("*",)`.
        rows: the number of texts that are decoded at once, by each model.
        queue: the number of further texts that may wait for a model; a request beyond it is refused with status 429.
        max_tokens: the largest number of tokens of one text, and the default of requests; None: what is left of the
            model's context. A request for more gets this many, and the answer says so.
        max_choices: the largest number of texts of one request, `n` times its prompts. A larger `n` is lowered, and the
            answer says so.
        temperature: the default of requests; OpenAI's is 1.
        call_format: the name of the model's call format; None: as its chat template says.
        max_body_bytes: the largest size of a request.
        body_seconds: time for the body of a request to come.
        max_schema_bytes: the largest size of all schemas and constraints of a request together, as JSON; each tool adds
            2 KB.
        schema_seconds: CPU time to read and compile the schemas of a request. The slowest of 2,837 real schemas takes
            0.15 s.
        row_seconds: CPU time of a text's constraint on the model's thread, where all other rows wait for it; each step
            adds a millisecond, and each tool a quarter. A text that needs more fails.
        compilers: the number of threads that read and compile schemas.
        request_seconds: time from a request to the end of its answer.
        drain_seconds: time from SIGTERM in which `/ready` says no while requests are still taken, so that a balancer
            turns to other servers. Ctrl-C, or a second signal, ends it at once.
        grace_seconds: time after that in which running requests may end.
    """

    name: str = field(default="model", metadata=option(_NAME))
    aliases: Sequence[str] = field(default=(), metadata=_NAMES | {"flag": "--alias"})
    api_key: str | Sequence[str] | None = field(default=None, metadata=option(_check_key))
    metrics_key: str | None = field(default=None, metadata=_LINE | option(_check_key, env="STRUCTGEN_METRICS_KEY"))
    metrics_port: int | None = field(default=None, metadata=_LINE | option(optional(count_from(1))))
    hosts: Sequence[str] = field(default=(), metadata=_NAMES | {"flag": "--allow-host"})
    cors_origins: Sequence[str] = field(default=(), metadata=_NAMES | {"flag": "--cors-origin"})
    rows: int = field(default=64, metadata=_COUNT)
    queue: int = field(default=256, metadata=_LINE | option(count_from(0)))
    max_tokens: int | None = field(default=None, metadata=_LINE | option(optional(count_from(1))))
    max_choices: int = field(default=16, metadata=_COUNT)
    temperature: float = field(default=1.0, metadata=_POSITIVE)
    call_format: str | None = field(default=None, metadata=_LINE | option(_check_format))
    max_body_bytes: int = field(default=4 << 20, metadata=_COUNT)
    body_seconds: float = field(default=60.0, metadata=_POSITIVE)
    max_schema_bytes: int = field(default=256 << 10, metadata=_COUNT)
    schema_seconds: float = field(default=0.2, metadata=_POSITIVE)
    row_seconds: float = field(default=0.25, metadata=_POSITIVE)
    compilers: int = field(default=2, metadata=_COUNT)
    request_seconds: float = field(default=600.0, metadata=_POSITIVE)
    drain_seconds: float = field(default=5.0, metadata=_POSITIVE)
    grace_seconds: float = field(default=30.0, metadata=_POSITIVE)

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("aliases", "hosts", "cors_origins"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.api_key is not None:
            keys = (self.api_key,) if isinstance(self.api_key, str) else tuple(self.api_key)
            object.__setattr__(self, "api_key", keys)
