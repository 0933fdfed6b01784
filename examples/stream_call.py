"""A call as it comes: the name of the tool first, then its arguments, then the validated call."""

import structgen as sg
from structgen.testing import scripted_chat  # a model that wants to say this; any other works alike


@sg.tool
def send(to: str, text: str) -> str:
    """Sends a message."""
    return f"sent {len(text)} characters to {to}"


SAYS = 'I will.\n<tool_call>\n{"name": "send", "arguments": {"to": "Ada", "text": "See you at 8."}}\n</tool_call>'

pieces = 0
for event in sg.stream_call(scripted_chat(SAYS), "Tell Ada that we meet at 8.", [send]):
    pieces += bool(event.arguments)
    if event.name:
        print("tool:", event.name)
    if event.call:
        print(f"arguments in {pieces} pieces:", event.call.json)
        print(event.call.invoke())
    if event.reply:
        print("said before:", event.reply.text)

# Output:
# tool: send
# arguments in 38 pieces: {"to": "Ada", "text": "See you at 8."}
# sent 13 characters to Ada
# said before: I will.
