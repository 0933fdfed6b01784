"""Models that call tools: one turn (`call`, `stream_call`), and the loop of turns (`run`)."""

from structgen.calling.conversation import Conversation, run
from structgen.calling.streaming import CallEvent, stream_call
from structgen.calling.turns import Reply, call

__all__ = ["CallEvent", "Conversation", "Reply", "call", "run", "stream_call"]
