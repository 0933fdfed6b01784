"""Tickets are classified; those of which the model is not sure go to a person."""

import structgen as sg
from structgen.demo.tasks import TASKS, Ticket  # customer, category and priority by `Literal`

TEXTS = [
    "Mara Lindt writes: the app crashes when I open it. Please fix this soon, it is urgent.",
    "Tom Berg writes: I was charged twice. No hurry.",
    "Nadia Petrova writes: something is odd with my order and my account.",
]
prompts = [TASKS["ticket"].prompt(text) for text in TEXTS]
for run in sg.generate(sg.load("demo"), prompts, Ticket, details=True):
    sure = run.fields["/category"].probability
    to = "a person" if sure < 0.9 else run.value.category
    print(f"{run.value.customer}: {run.value.category}, {run.value.priority} ({sure:.2f}) -> {to}")

# Output:
# Mara Lindt: bug, high (0.91) -> bug
# Tom Berg: billing, low (1.00) -> billing
# Nadia Petrova: account, high (0.52) -> a person
