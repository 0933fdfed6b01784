"""An HTTP server of OpenAI's interface, for `structgen-llm[server]`: `structgen serve MODEL`.

`app` has the routes, `gate` what is refused before a request is read, `process` the process that serves. `wire`,
`responses_wire` and `messages_wire` read requests; `answers`, `responses_answers` and `messages_answers` write replies.
`service` takes a request from admission to its answer and knows no HTTP; `asking` makes its turns. `compiling`
compiles schemas on other threads, `engine` is the thread of the model. `problems` are errors as clients read them.
`fields` translates what clients send, `offered_tools` reads their tools, and `notes` says what was not taken as it was
sent; `in_process` answers clients without a port; `client_lines` are for clients' configurations; `tokens` counts the
tokens of prompts; `embeddings` makes vectors of texts; `observing` has metrics and the log.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from structgen.errors import not_installed
from structgen.server.client_lines import CLIENTS, client_lines
from structgen.server.settings import Settings

if TYPE_CHECKING:
    from structgen.server.app import create_app
    from structgen.server.in_process import transport
    from structgen.server.process import require_free, serve

__all__ = ["CLIENTS", "Settings", "client_lines", "create_app", "require_free", "serve", "transport"]

_HOMES = {"create_app": "app", "require_free": "process", "serve": "process", "transport": "in_process"}


def __getattr__(name: str) -> Any:
    """A name whose module needs the extra `server`: imported when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"structgen.server.{_HOMES[name]}"), name)
    except ModuleNotFoundError as missing:
        raise not_installed(f"the server needs {missing.name}", "server") from missing
