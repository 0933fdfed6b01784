"""Models that call tools: one turn (`call`, `stream_call`), and the loop of turns (`run`).

`request` checks the arguments. `turns` and `streaming` run one turn, `conversation` runs turns and tools until the
model answers. `validating` holds a tool's own validators. How a model writes its calls is known by `chat`; what a tool
takes, by `tools`.
"""

from structgen.calling.conversation import Conversation, run
from structgen.calling.streaming import CallEvent, stream_call
from structgen.calling.turns import Reply, call

__all__ = ["CallEvent", "Conversation", "Reply", "call", "run", "stream_call"]
