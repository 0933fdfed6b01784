"""One of a few words: `Choice` for bare text, `Literal` inside an object."""

from typing import Literal

from pydantic import BaseModel, Field

import structgen as sg
from structgen.demo import load_demo


class Review(BaseModel):
    product: str
    sentiment: Literal["positive", "negative", "neutral"]
    rating: int = Field(ge=1, le=5)
    recommend: bool


FIELDS = "product, sentiment (positive, negative or neutral), rating, recommend (true or false)"
PROMPT = f"""Extract the review: {FIELDS}.
Text: I bought the kettle last week. It broke at once. 1 out of 5. I do not recommend it.
JSON: """

model, tokenizer = load_demo()
print(repr(sg.generate(model, PROMPT, schema=Review, tokenizer=tokenizer)))

# The same question with the answer's beginning given: the model only has to say the word.
word = sg.generate(
    model,
    PROMPT + '{"product": "kettle", "sentiment": "',
    schema=sg.Choice(["positive", "negative", "neutral"]),
    tokenizer=tokenizer,
)
print(word)

# Output:
# Review(product='kettle', sentiment='negative', rating=1, recommend=False)
# negative
