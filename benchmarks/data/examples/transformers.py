from structgen.demo import load_demo
from structgen.integrations.transformers import ConstraintLogitsProcessor, constrained_generate

model, tokenizer = load_demo()
city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

# %% docs/source/en/generation_strategies.md: custom generation
inputs = tokenizer(["Lyon is in France. JSON: "], return_tensors="pt")
# was: custom_generate="transformers-community/custom_generate_example"
out = model.generate(**inputs, custom_generate=constrained_generate(city, tokenizer), max_new_tokens=40)
answer = out

# %% docs/source/en/internal/generation_utils.md: a logits processor
inputs = tokenizer(["Lyon is in France. JSON: "], return_tensors="pt")
# was: logits_processor=[MinLengthLogitsProcessor(...)]
processor = ConstraintLogitsProcessor(city, model, tokenizer)
out = model.generate(**inputs, logits_processor=[processor], max_new_tokens=40, do_sample=False)
answer = tokenizer.decode(out[0])

# %% docs/source/en/generation_strategies.md: beams
inputs = tokenizer(["Lyon is in France. JSON: "], return_tensors="pt")
# was: model.generate(**inputs, num_beams=4)
processor = ConstraintLogitsProcessor(city, model, tokenizer)
out = model.generate(**inputs, num_beams=4, logits_processor=[processor], max_new_tokens=40)
answer = tokenizer.decode(out[0])
