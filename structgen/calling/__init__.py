"""Models that call tools: one turn (`call`, `stream_call`), and the loop of turns (`run`).

`request` checks the arguments. `turns` and `streaming` run one turn, `conversation` runs turns and tools until the
model answers, and `asynchronous` does both without blocking an event loop. `results` makes the calls of a turn.
`validating` holds a tool's own validators. How a model writes its calls is known by `chat`; what a tool takes, by
`tools`.
"""

from structgen.calling.asynchronous import acall, arun
from structgen.calling.conversation import Conversation, run
from structgen.calling.streaming import CallEvent, astream_call, stream_call
from structgen.calling.turns import Reply, call

__all__ = ["CallEvent", "Conversation", "Reply", "acall", "arun", "astream_call", "call", "run", "stream_call"]
