"""Canonical tokens: only the tokenizer's own spelling of a text, also where the answer joins the prompt."""

import structgen as sg

model = sg.load("demo")


def encode(text):
    return model.tokenizer.encode(text, add_special_tokens=False)


letters = [token for letter in "author" for token in encode(letter)]
print(model.vocabulary.is_canonical(encode("author")), model.vocabulary.is_canonical(letters))

schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
drawn = sg.Sampling(temperature=2.0, seed=0)
for canonical in (False, True):
    run = sg.generate(model, "I read The Last Man.\n", schema, sampling=drawn, canonical=canonical, details=True)
    tokens = [token for token in run.token_ids if token not in model.vocabulary.end_ids]
    print(canonical, encode(run.text) == tokens)

# Token healing takes the prompt's last token back. The model chooses it again, together with the next characters.
run = sg.generate(model, "Order: 3 coff", token_healing=True, details=True)
print(repr(run.healed), [model.vocabulary.token(token) for token in run.token_ids][:2], run.text[:2])

# Output:
# True False
# False False
# True True
# 'coff' [b'coffee', b'{"'] ee
