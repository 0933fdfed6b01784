"""What a run gives besides the value, and what happens when the budget is too small."""

import structgen as sg
from structgen.demo import load_demo

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
PROMPT = """Extract the book: title, author, year, pages.
Text: The Silent Harbour by Elena Novak was published in 1987 and has 312 pages.
JSON: """

model, tokenizer = load_demo()
run = sg.generate(model, PROMPT, schema=SCHEMA, tokenizer=tokenizer, details=True)
print(run.value)
print(run.finish, len(run.token_ids) == len(run.logprobs), run.stats.tokens >= len(run.token_ids))

try:
    sg.generate(model, PROMPT, schema=SCHEMA, tokenizer=tokenizer, limits=sg.Limits(max_new_tokens=8))
except sg.BudgetExhausted as error:
    print("cut off after", repr(error.text))

# Output:
# {'title': 'The Silent Harbour', 'author': 'Elena Novak', 'year': 1987, 'pages': 312}
# complete True True
# cut off after '{"title": "The Silent '
