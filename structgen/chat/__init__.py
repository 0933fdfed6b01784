"""How models write their turns in a conversation: thinking, text, and calls of tools.

One description, `CallFormat`, is read off a chat template. From it come the mask of a turn (`calls_constraint.turn`),
the parser of what comes (`parser.TurnReader`), and the text of calls (`CallFormat.render`).
"""

from structgen.chat.call_format import CallFormat, Tags
from structgen.chat.known import call_format
from structgen.chat.structural import StructuralTag

__all__ = ["CallFormat", "StructuralTag", "Tags", "call_format"]
