"""The metrics of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from structgen.decoding.generation import Generation

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class Metrics:
    """The numbers of one server.

    Args:
        running, waiting: return how many texts are decoded now, and how many wait for a row.
    """

    def __init__(self, running: Callable[[], float], waiting: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        count = partial(Counter, registry=self._registry)
        seconds = partial(Histogram, buckets=SECONDS, registry=self._registry)
        told = "Requests that are over, by what became of them."
        self.requests = count("structgen_requests", told, ["path", "status"])
        told = "Tokens: read as prompts, generated, of these forced and drafted."
        self.tokens = count("structgen_tokens", told, ["kind"])
        self.seconds = seconds("structgen_request_seconds", "From the request to the end of its answer.")
        told = "From a text's place in the queue to its first token."
        self.first_token = seconds("structgen_first_token_seconds", told)
        self.schemas = seconds("structgen_schema_seconds", "For the schemas of a request to be read and compiled.")
        for name, told, value in (("running", "decoded now", running), ("waiting", "that wait for a row", waiting)):
            Gauge(f"structgen_{name}", f"Texts {told}.", registry=self._registry).set_function(value)

    def count(self, generation: Generation[str]) -> None:
        """Counts the tokens of a text."""
        stats = generation.stats
        for kind, tokens in (
            ("prompt", generation.prompt_tokens),
            ("generated", stats.tokens),
            ("forced", stats.fast_forwarded),
            ("drafted", stats.drafted),
        ):
            self.tokens.labels(kind).inc(tokens)
        self.first_token.observe(stats.prefill_seconds)

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' format."""
        return generate_latest(self._registry)
