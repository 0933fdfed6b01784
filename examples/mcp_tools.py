"""Tools from a list, as MCP servers send it: the schema comes with the list, and you provide the function."""

import structgen as sg
from structgen.testing import scripted_chat  # a model that wants to say this; any other works alike

LISTED = [
    {
        "name": "read_file",
        "description": "Reads a file.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "head": {"type": "integer", "minimum": 1}},
            "required": ["path"],
        },
    },
    {"name": "list_folders", "description": "Lists the folders.", "inputSchema": {"type": "object"}},
]


def send_to_server(name: str, **arguments: object) -> str:
    return f"the server's answer to {name} {arguments}"


tools = [
    sg.Tool.of(entry, lambda name=entry["name"], **arguments: send_to_server(name, **arguments)) for entry in LISTED
]

SAYS = '<tool_call>\n{"name": "read_file", "arguments": {"path": "notes.txt", "head": 5}}\n</tool_call>'
(call,) = sg.call(scripted_chat(SAYS), "What are the first lines of my notes?", tools, choice="required")
print(call.name, call.arguments)
print(call.invoke())

# Without a function, you only get the call.
(call,) = sg.call(scripted_chat(SAYS), "What are the first lines of my notes?", LISTED, choice="read_file")
print(call.json)

# Output:
# read_file {'path': 'notes.txt', 'head': 5}
# the server's answer to read_file {'path': 'notes.txt', 'head': 5}
# {"path": "notes.txt", "head": 5}
