"""How models write their turns in a conversation: thinking, text, and calls of tools.

One description, `CallFormat`, is read off a chat template. From it come the mask of a turn (`calls_constraint.turn`),
the parser of what comes (`parser.TurnParser`), and the text of calls (`CallFormat.render`).
"""

from structgen.chat.call_format import CallFormat, Tags
from structgen.chat.known import call_format

__all__ = ["CallFormat", "Tags", "call_format"]
