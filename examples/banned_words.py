"""Banned words, in any tokenisation: the decoder rolls back, and the model writes something else."""

import structgen as sg
from structgen.demo.tasks import Person  # name: str, age: int, city: str
from structgen.testing import scripted  # a model that wants to say this; any other works alike

# We want the customer, but the model picks our own agent. So the agent's name is banned.
ask = """Extract the person: name, age, city.
Text: Tom Berg spoke with Amara Castillo, 64, from Norwich."""
messages = [{"role": "user", "content": ask}]

# In JSON a ban applies to what string values spell. It does not apply to names of members.
model = sg.load("demo")
print(repr(sg.generate(model, messages, Person)))
run = sg.generate(model, messages, Person, banned=["Tom Berg"], details=True)
print(repr(run.value))
for step in run.trace:
    print(f"    after {step.tokens} tokens, {step.text!r} was rolled back: {step.reason}")

# More options than banned=: case, accents, any white space, whole words, one field only.
guard = sg.BannedWords(["tom berg"], ignore_case=True, whole_word=True, scope="/name")
print(repr(sg.generate(model, messages, Person, guards=[guard])))

# Your own rule: a guard reads bytes. Its veto gives the position of the byte where the violation began.


class NoEcho(sg.guards.Guard[bytes]):
    """The text must not say the same word twice in a row."""

    def start(self):
        return b""

    def feed(self, state, text):
        said = state + text
        words = said.split(b" ")
        if len(words) > 2 and words[-2] == words[-3]:
            return sg.guards.Veto(said.rindex(words[-2]), f"{words[-2].decode()!r} twice")
        return said


run = sg.generate(scripted("go go on"), "x", sg.Regex("go [a-z]{2} on"), guards=[NoEcho()], details=True)
print(run.text, [(step.text, step.reason) for step in run.trace])

# Output:
# Person(name='Tom Berg', age=64, city='Norwich')
# Person(name='Amara Castillo', age=64, city='Norwich')
#     after 3 tokens, 'Tom Berg' was rolled back: banned word 'Tom Berg'
# Person(name='Amara Castillo', age=64, city='Norwich')
# go ag on [('go on', "'go' twice")]
