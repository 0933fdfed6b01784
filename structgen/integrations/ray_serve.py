"""The server of OpenAI's interface on Ray Serve: replicas with a model each, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structgen.arguments import require_count
from structgen.errors import RunError, not_installed
from structgen.integrations.ray import loaded, require_share
from structgen.models.model import Model
from structgen.server.settings import Settings


class Replica:
    """The health of a replica, for Serve.

    Attributes:
        app: the application that answers; Serve's ingress sets it.
    """

    app: Any

    def check_health(self) -> None:
        """Is called by Serve every `health_check_period_s`; after three failures the replica is replaced.

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
    """Returns an application of Ray Serve that answers as `structgen serve` does.

        ray.serve.run(serve_on_ray("Qwen/Qwen3-0.6B", Settings(name="qwen"), replicas=4, num_gpus=1))

    Each replica loads the model and batches the requests that Serve sends it. The server keeps nothing between
    requests, so any replica may answer any of them. `/metrics` shows the replica that answers. Serve replaces a replica
    whose model's thread has ended.

    Args:
        model: what `load` takes, or a function that loads a model; each replica calls it once.
        settings: the bounds of each replica. Serve sends it at most as many requests as it has rows and queue.
        replicas: the number of replicas.
        num_cpus, num_gpus: the share of each replica, as Ray counts it.
        options: further options of `ray.serve.deployment`, as `autoscaling_config=` with `num_replicas=None`.

    Returns:
        What `ray.serve.run` takes, and `serve run module:name` of Ray's command line.

    Raises:
        OptionError: Ray Serve is not installed, or an argument cannot work.
    """
    try:
        from ray import serve
    except ImportError as missing:
        raise not_installed("serve_on_ray needs Ray Serve", "ray-serve") from missing
    require_share(model, num_cpus, num_gpus)
    require_count("replicas", replicas, 1)
    bounds = settings or Settings()

    def build() -> Any:
        from structgen.server.app import create_app

        return create_app(loaded(model), bounds)

    arguments = {
        "num_replicas": replicas,
        "ray_actor_options": {"num_cpus": num_cpus, "num_gpus": num_gpus},
        "max_ongoing_requests": bounds.rows + bounds.queue,
        "graceful_shutdown_timeout_s": bounds.grace_seconds,
    }
    return serve.deployment(**{"name": "structgen", **arguments, **options})(serve.ingress(build)(Replica)).bind()
