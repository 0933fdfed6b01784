"""An HTTP server of OpenAI's interface, for `structgen[server]`: `structgen serve MODEL`."""

from structgen.server.app import create_app, serve
from structgen.server.settings import Settings

__all__ = ["Settings", "create_app", "serve"]
