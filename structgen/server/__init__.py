"""An HTTP server of OpenAI's interface, for `structgen-llm[server]`: `structgen serve MODEL`.

`app` has the routes, `gate` what is refused before a request is read, `process` the process that serves. `wire`,
`responses_wire` and `messages_wire` read requests; `answers`, `responses_answers` and `messages_answers` write replies.
`service` takes a request from admission to its answer and knows no HTTP; `asking` makes its turns. `compiling`
compiles schemas on other threads, `engine` is the thread of the model. `problems` are errors as clients read them.
`fields` translates what clients send, `offered_tools` reads their tools, and `notes` says what was not taken as it was
sent; `in_process` answers clients without a port;
`client_lines` are for clients' configurations; `tokens` counts the tokens of prompts; `observing` has metrics and
the log.
"""

from structgen.errors import not_installed

try:
    from structgen.server.app import create_app
except ModuleNotFoundError as missing:
    raise not_installed(f"the server needs {missing.name}", "server") from missing
from structgen.server.client_lines import CLIENTS, client_lines
from structgen.server.in_process import transport
from structgen.server.process import require_free, serve
from structgen.server.settings import Settings

__all__ = ["CLIENTS", "Settings", "client_lines", "create_app", "require_free", "serve", "transport"]
