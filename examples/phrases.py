"""Required words: constrained beam search, which replaces `force_words_ids`."""

from transformers import T5Config, T5ForConditionalGeneration

import structgen as sg
from structgen.demo.tasks import Person

model = sg.load("demo")
tokenizer = model.tokenizer

# A formal translation: *Sie*, not *du*. With random weights here; with google-t5/t5-base it is "Wie alt sind Sie?".
sizes = {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4}
config = T5Config(vocab_size=len(tokenizer), decoder_start_token_id=0, eos_token_id=tokenizer.eos_token_id, **sizes)
german = sg.generate(
    T5ForConditionalGeneration(config), "translate English to German: How old are you?", tokenizer=tokenizer,
    phrases=[sg.Phrase("Sie", whole_word=True)], beams=5, limits=sg.Limits(40),
)  # fmt: skip
print("Sie" in german)

# *scared*, and one of four forms of *scream*, on two prompts at once.
stories = sg.generate(
    model, ["The soldiers", "The child"], beams=8, limits=sg.Limits(40),
    phrases=["scared", sg.phrases.AnyOf("scream", "screams", "screaming", "screamed")],
)  # fmt: skip
print(["scared" in story and "scream" in story for story in stories])

# In one value of a schema, which is enforced as always.
person = sg.generate(
    model, "Text: Ada Moreau, 36, left New York for Lyon.\nJSON: ", Person, beams=8,
    canonical=True, phrases=[sg.phrases.Ordered("New", "York", at="/city", whole_word=True)], banned=["Newton"],
)  # fmt: skip
print(repr(person))

# Output:
# True
# [True, True]
# Person(name='Ada Moreau', age=36, city='New York')
