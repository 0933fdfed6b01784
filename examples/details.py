"""The details of a run as well as the value, and the effect of a small budget."""

import structgen as sg

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "author": {"type": "string", "minLength": 1},
        "year": {"type": "integer", "minimum": 1450, "maximum": 2100},
        "pages": {"type": "integer", "minimum": 1},
    },
    "required": ["title", "author", "year", "pages"],
    "additionalProperties": False,
}
ask = """Extract the book: title, author, year, pages.
Text: The Silent Harbour by Elena Novak was published in 1987 and has 312 pages."""

model = sg.load("demo")
messages = [{"role": "user", "content": ask}]
run = sg.generate(model, messages, SCHEMA, details=True)
print(run.value)
print(run.finish, len(run.token_ids) == len(run.logprobs), run.stats.tokens >= len(run.token_ids))

short = sg.Limits(max_new_tokens=24)
run = sg.generate(model, messages, SCHEMA, limits=short, details=True)
print(run.value)  # closed in time, the cheapest way
print(run.finish, [cap.pointer for cap in run.caps])

# Output:
# {'title': 'The Silent Harbour', 'author': 'Elena Novak', 'year': 1987, 'pages': 312}
# complete True True
# {'title': 'The Silent Harbour', 'author': 'El', 'year': 1987, 'pages': 31}
# closed_by_budget ['/author', '/pages']
