"""Stream a value: one event for each piece of text, and a partial object whenever something changed."""

import structgen as sg
from structgen.demo.tasks import Order  # customer: str, items: list of product and quantity, express: bool

ask = """Extract the order: customer, items (list of product, quantity), express (true or false).
Text: Tom Berg ordered 3 lamps and 2 chairs by express."""

model = sg.load("demo")
messages = [{"role": "user", "content": ask}]
shown = None
for event in sg.stream(model, messages, Order):
    if event.partial is not None and event.partial != shown:  # most pieces complete nothing
        shown = event.partial
        print(shown.model_dump_json(exclude_unset=True))
    if event.result:  # with the last event
        print(event.result.finish, type(event.result.value).__name__)

# Output:
# {}
# {"customer":""}
# {"customer":"T"}
# {"customer":"Tom"}
# {"customer":"Tom "}
# {"customer":"Tom Berg"}
# {"customer":"Tom Berg","items":[{}]}
# {"customer":"Tom Berg","items":[{"product":""}]}
# {"customer":"Tom Berg","items":[{"product":"lamp"}]}
# {"customer":"Tom Berg","items":[{"product":"lamp","quantity":3}]}
# {"customer":"Tom Berg","items":[{"product":"lamp","quantity":3},{}]}
# {"customer":"Tom Berg","items":[{"product":"lamp","quantity":3},{"product":""}]}
# {"customer":"Tom Berg","items":[{"product":"lamp","quantity":3},{"product":"chair"}]}
# {"customer":"Tom Berg","items":[{"product":"lamp","quantity":3},{"product":"chair","quantity":2}]}
# {"customer":"Tom Berg","items":[{"product":"lamp","quantity":3},{"product":"chair","quantity":2}],"express":true}
# complete Order
