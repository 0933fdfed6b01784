"""Many prompts in one batch, each with its own sampling options."""

from pydantic import BaseModel

import structgen as sg


class Item(BaseModel):
    product: str
    quantity: int


class Order(BaseModel):
    customer: str
    items: list[Item]
    express: bool


TEXTS = [
    "Tom Berg ordered 3 lamps and 2 chairs by express.",
    "Please send 12 notebooks to Mira Costa.",
]
PROMPT = """Extract the order: customer, items (list of product, quantity), express (true or false).
Text: {text}"""

model = sg.load("demo")
prompts = [[{"role": "user", "content": PROMPT.format(text=text)}] for text in TEXTS]
for order in sg.generate(model, prompts, Order):
    print(f"{order.customer}, {'express' if order.express else 'not express'}:")
    for item in order.items:
        print(" ", item)

# Rows are independent: the first stays greedy, the second is sampled with its own seed.
sampling = [sg.Sampling(), sg.Sampling(temperature=0.7, top_p=0.9, seed=7)]
drawn = sg.generate(model, prompts, Order, sampling=sampling)
print(len(drawn), all(isinstance(order, Order) for order in drawn))

# Output:
# Tom Berg, express:
#   product='lamp' quantity=3
#   product='chair' quantity=2
# Mira Costa, not express:
#   product='notebook' quantity=12
# 2 True
