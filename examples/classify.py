"""Labels with their probabilities: one label as bare text, or a `Literal` inside an object."""

from typing import Literal

from pydantic import BaseModel, Field

import structgen as sg


class Review(BaseModel):
    product: str
    sentiment: Literal["positive", "negative", "neutral"]
    rating: int = Field(ge=1, le=5)
    recommend: bool


TASK = "Extract the review: product, sentiment (positive, negative or neutral), rating, recommend (true or false)."
TEXT = "I bought the kettle last week. It broke at once. 1 out of 5. I do not recommend it."

model = sg.load("demo")
messages = [{"role": "user", "content": f"{TASK}\nText: {TEXT}"}]
run = sg.generate(model, messages, Review, details=True)
print(repr(run.value))

sentiment = run.fields["/sentiment"]
print(f"{run.value.sentiment}: {sentiment.probability:.3f}")
for label, probability in sorted(sentiment.values.items(), key=lambda item: -item[1]):
    print(f"    {label:12} {probability:.3f}")

# A person checks the values that the model is not sure of.
unsure = [pointer for pointer, field in run.fields.items() if field.probability < 0.5]
print("to check:", unsure)

# One label as bare text. The prompt contains the beginning of the answer, so the model only writes the word.
prompt = f'{TASK}\nText: {TEXT}\nJSON: {{"product": "kettle", "sentiment": "'
word = sg.generate(model, prompt, sg.Choice(["positive", "negative", "neutral"]))
print(word)

# Output:
# Review(product='kettle', sentiment='negative', rating=1, recommend=False)
# negative: 1.000
#     "negative"   1.000
#     "neutral"    0.000
#     "positive"   0.000
# to check: []
# negative
