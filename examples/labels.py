"""The probability of every label, and calibration by examples."""

import structgen as sg

LABELS = ["positive", "negative", "neutral"]
TASK = "Extract the review: product, sentiment (positive, negative or neutral), rating, recommend (true or false)."


def prompt(text: str) -> str:
    """The demo model was trained on this wording; most models need no prompt of your own."""
    return f'{TASK}\nText: {text}\nJSON: {{"product": "kettle", "sentiment": "'


EXAMPLES = [
    ("I bought the kettle last week. It broke at once. 1 out of 5.", "negative"),
    ("The kettle does what it should. 3 out of 5.", "neutral"),
    ("Best kettle that I ever had. 5 out of 5. I recommend it.", "positive"),
]
TEXTS = ["I bought the kettle last week. I love it. 5 out of 5.", "The kettle is too loud. 2 out of 5."]

model = sg.load("demo")
for result in sg.classify(model, TEXTS, LABELS, prompt=prompt):
    print(result.label, {label: round(each, 3) for label, each in result.distribution.items()})

calibration = sg.calibrate(model, EXAMPLES, LABELS, prompt=prompt)
results = sg.classify(model, TEXTS, LABELS, prompt=prompt, calibration=calibration)
print([f"{each.label} {each.probability:.2f}" for each in results])

# Output:
# positive {'positive': 0.999, 'neutral': 0.001, 'negative': 0.0}
# negative {'negative': 0.999, 'neutral': 0.001, 'positive': 0.0}
# ['positive 1.00', 'negative 1.00']
