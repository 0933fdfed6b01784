"""The layer below `generate`: masks in your own decoding loop."""

import torch

import structgen as sg
from structgen.demo import load_demo

PROMPT = """Extract the reading: station, temperature, humidity, alarm (true or false).
Text: Station North Hill reports 21.5 degrees and 40 percent humidity. No alarm.
JSON: """
SCHEMA = {
    "type": "object",
    "properties": {
        "station": {"type": "string"},
        "temperature": {"type": "number"},
        "humidity": {"type": "integer", "minimum": 0, "maximum": 100},
        "alarm": {"type": "boolean"},
    },
    "required": ["station", "temperature", "humidity", "alarm"],
    "additionalProperties": False,
}

model, tokenizer = load_demo()
vocabulary = sg.engine.Vocabulary.from_tokenizer(tokenizer)
matcher = sg.JsonSchema(SCHEMA).compile(vocabulary).matcher()
ids = torch.tensor([tokenizer.encode(PROMPT)])

with torch.inference_mode():
    while not matcher.finished:
        logits = model(ids).logits[0, -1]  # all ids at each step: give your loop the cache that it has
        token = int(matcher.apply(logits).argmax())
        matcher.advance(token)
        ids = torch.cat([ids, torch.tensor([[token]])], dim=1)

print(matcher.text.decode())

# Output:
# {"station": "North Hill", "temperature": 21.5, "humidity": 40, "alarm": false}
