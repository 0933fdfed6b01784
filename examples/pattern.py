"""Text in a given form: a date, with a regular expression."""

import structgen as sg

PROMPT = """Extract the flight: passenger, origin, destination, date, seat.
Text: Nora Lind flies from Oslo to Rome on 3 May 2024, seat 14C.
JSON: {"passenger": "Nora Lind", "origin": "Oslo", "destination": "Rome", "date": \""""

model = sg.load("demo")
date = sg.Regex(r"20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]")
print(sg.generate(model, PROMPT, date))

# Output:
# 2024-05-03
