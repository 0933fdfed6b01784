"""`model.generate` of transformers, held to a schema: as a logits processor, or with structgen's own loop inside."""

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person  # name: str, age: int, city: str
from structgen.integrations.transformers import ConstraintLogitsProcessor, constrained_generate

TEXTS = ["Ada Moreau, 36, lives in Lyon.", "Tom Berg spoke with Amara Castillo, 64, from Norwich."]

model, tokenizer = load_demo()
tokenizer.padding_side = "left"
prompts = [f"Extract the person: name, age, city.\nText: {text}\nJSON: " for text in TEXTS]
inputs = tokenizer(prompts, return_tensors="pt", padding=True)
begin = inputs["input_ids"].shape[1]

# 1. A LogitsProcessor: transformers decodes, structgen masks. One for each call.
processor = ConstraintLogitsProcessor(Person, model, tokenizer)
ids = model.generate(**inputs, max_new_tokens=60, logits_processor=[processor])
print(*tokenizer.batch_decode(ids[:, begin:], skip_special_tokens=True), sep="\n")

# 2. custom_generate: transformers prepares, structgen decodes. So banned words, retries and budgets work, too.
decode = constrained_generate(Person, tokenizer, banned=["Tom Berg"])
output = model.generate(**inputs, max_new_tokens=60, custom_generate=decode, return_dict_in_generate=True)
for run in output.generations:
    print(repr(run.value), run.finish)

# 3. What is allowed next, for a loop of your own: see own_loop.py.
matcher = sg.JsonSchema(Person).compile(sg.engine.Vocabulary.from_tokenizer(tokenizer)).matcher()
print([matcher.grammar.vocabulary.token(token) for token in matcher.allowed_tokens()])

# Output:
# {"name": "Ada Moreau", "age": 36, "city": "Lyon"}
# {"name": "Tom Berg", "age": 64, "city": "Norwich"}
# Person(name='Ada Moreau', age=36, city='Lyon') complete
# Person(name='Amara Castillo', age=64, city='Norwich') complete
# [b'{', b'{"']
