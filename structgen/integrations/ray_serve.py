"""The server of OpenAI's interface on Ray Serve: replicas with a model each, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structgen.arguments import is_number, require, require_count
from structgen.errors import OptionError, RunError
from structgen.models.model import Model, load
from structgen.server.settings import Settings


class Replica:
    """What Serve asks of a replica beside its answers.

    Attributes:
        app: the application that answers; Serve's ingress sets it.
    """

    app: Any

    def check_health(self) -> None:
        """Called by Serve every `health_check_period_s`; a replica that fails thrice is replaced by a new one.

        Raises:
            RunError: the thread that runs the model has ended.
        """
        if not self.app.state.service.alive:
            raise RunError("the model's thread has ended")


def serve_on_ray(
    model: str | Callable[[], Model],
    settings: Settings | None = None,
    *,
    replicas: int = 1,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    **options: Any,
) -> Any:
    """An application of Ray Serve that answers as `structgen serve` does.

        ray.serve.run(serve_on_ray("Qwen/Qwen3-0.6B", Settings(name="qwen"), replicas=4, num_gpus=1))

    Each replica loads the model, and batches the requests that Serve sends it. The server keeps nothing between
    requests, so any replica may answer any of them. `/metrics` is that of the replica which answers. A replica whose
    model's thread has ended is replaced.

    Args:
        model: what `load` takes, or a function that loads a model; each replica calls it once.
        settings: the bounds of each replica. Serve sends a replica as many requests as it has rows and places in its
            queue.
        replicas: how many.
        num_cpus, num_gpus: of each replica, as Ray counts them.
        options: further options of `ray.serve.deployment`, as `autoscaling_config=` with `num_replicas=None`.

    Returns:
        What `ray.serve.run` takes, and `serve run module:name` of Ray's command line.

    Raises:
        OptionError: Ray Serve is not installed, or an argument is none of what it may be.
    """
    try:
        from ray import serve
    except ImportError as missing:
        raise OptionError("serve_on_ray needs Ray Serve: install structgen[ray-serve]") from missing
    named = isinstance(model, str) or callable(model)
    require(named, "model", model, "a folder, an id, or a function that loads a model")
    require_count("replicas", replicas, 1)
    for name, share in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
        require(is_number(share, 0), name, share, "a number of at least 0")
    bounds = settings or Settings()

    def build() -> Any:
        from structgen.server.app import create_app

        return create_app(load(model) if isinstance(model, str) else model(), bounds)

    arguments = {
        "num_replicas": replicas,
        "ray_actor_options": {"num_cpus": num_cpus, "num_gpus": num_gpus},
        "max_ongoing_requests": bounds.rows + bounds.queue,
        "graceful_shutdown_timeout_s": bounds.grace_seconds,
    }
    return serve.deployment(**{"name": "structgen", **arguments, **options})(serve.ingress(build)(Replica)).bind()
