"""Models that call tools: one turn (`call`, `stream_call`), and the loop of turns (`run`).

`request` checks the arguments. `turns` and `streaming` run one turn, and `remote_turns` one of a remote
model. `loop` runs turns and tools until the model answers, for the doors in `running`; `results` makes the calls of a
turn, `events` says what happens, and a `conversation` is what was said. How a model writes its calls, and what judges
them meanwhile, is known by `chat`; what a tool takes, by `tools`.
"""

from structgen.calling.conversation import Conversation
from structgen.calling.reply import Reply
from structgen.calling.running import arun, astream_run, run, stream_run
from structgen.calling.streaming import CallEvent, astream_call, stream_call
from structgen.calling.turns import acall, call

__all__ = [
    "CallEvent",
    "Conversation",
    "Reply",
    "acall",
    "arun",
    "astream_call",
    "astream_run",
    "call",
    "run",
    "stream_call",
    "stream_run",
]
