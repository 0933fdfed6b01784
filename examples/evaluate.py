"""How often a model is right, field by field, on rows whose values are known."""

import structgen as sg
from structgen.demo.tasks import Person  # name: str, age: int, city: str

ROWS = [
    ("Ada Moreau, 36, lives in Lyon.", Person(name="Ada Moreau", age=36, city="Lyon")),
    ("Tom Berg is 51 years old and lives in Oslo.", Person(name="Tom Berg", age=51, city="Oslo")),
    ("Born 28 years ago, Nadia Petrova now calls Rome her home.", Person(name="Nadia Petrova", age=28, city="Rome")),
    ("My friend Ben, who is 44, moved from Paris to Bergen.", Person(name="Ben", age=44, city="Bergen")),
]
rows = [{"text": text, "expected": person} for text, person in ROWS]

prompt = "Extract the person: name, age, city.\nText: {text}\nJSON: "
result = sg.evaluate(sg.load("demo"), rows, Person, prompt=prompt)
print(result)
for mistake in result.mistakes:
    print(mistake.id, mistake.field, mistake.expected, "!=", mistake.given)

# Output:
# field      right     of  accuracy  95% interval  precision  recall
# /name          4      4      100%  51% to 100%        100%    100%
# /age           4      4      100%  51% to 100%        100%    100%
# /city          3      4       75%  30% to 95%          75%     75%
# whole row      3      4       75%  30% to 95%
# 3 /city Rome != Nome
