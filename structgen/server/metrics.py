"""What Prometheus reads of a server."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from structgen.decoding.generation import Generation

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class Metrics:
    """The numbers of one server.

    Args:
        running, waiting: texts that are decoded now, and that wait for a row.
    """

    def __init__(self, running: Callable[[], float], waiting: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self.requests = Counter(
            "structgen_requests", "Requests that are over, by what became of them.", ["path", "status"],
            registry=registry,
        )  # fmt: skip
        self.tokens = Counter(
            "structgen_tokens", "Tokens: read as prompts, generated, of these forced and drafted.", ["kind"],
            registry=registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "structgen_request_seconds", "From the request to the end of its answer.", buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.first_token = Histogram(
            "structgen_first_token_seconds", "From a text's place in the queue to its first token.", buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.schemas = Histogram(
            "structgen_schema_seconds", "For the schemas of a request to be read and compiled.", buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        for name, told, value in (("running", "decoded now", running), ("waiting", "that wait for a row", waiting)):
            Gauge(f"structgen_{name}", f"Texts {told}.", registry=registry).set_function(value)

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
        """All of it in Prometheus' format."""
        return generate_latest(self._registry)
