"""A model that thinks before it answers, and a grammar for its answer."""

from pydantic import BaseModel

import structgen as sg
from structgen.testing import scripted  # a model that wants to say this; any other works alike


class Triangle(BaseModel):
    sides: list[int]
    right_angled: bool


SAYS = """9 + 16 = 25, so the angle between the short sides is a right one.</think>

{"sides": [3, 4, 5], "right_angled": true}"""

run = sg.generate(scripted(SAYS), "Is 3, 4, 5 right-angled?", schema=Triangle, thinking=True, details=True)
print(run.thinking)
print(repr(run.value))

# Too much thinking is closed, and the result says so.
short = sg.Thinking(max_tokens=6)
run = sg.generate(scripted(SAYS), "Is 3, 4, 5 right-angled?", schema=Triangle, thinking=short, details=True)
print(repr(run.thinking), run.caps[0].name)

# A part of an answer may be in a language of its own.
FORMULA = """
    start: sum "=" INT
    sum: [sum "+"] INT ["^" INT]
    %import common.INT
    %ignore " "
"""
answer = sg.Sequence("Proof: ", sg.Lark(FORMULA), sg.Text(before="Proof", max_chars=20))
print(sg.generate(scripted("Proof: 3^2 + 4^2 = 25, q.e.d."), "Why?", schema=answer))

# Output:
# 9 + 16 = 25, so the angle between the short sides is a right one.
# Triangle(sides=[3, 4, 5], right_angled=True)
# '9 + 16' thinking.max_tokens
# Proof: 3^2 + 4^2 = 25, q.e.d.
