"""Classification with 3, 4, 5 and 13 labels; all texts are written by hand, and the seed draws only their order."""

from __future__ import annotations

import random
from itertools import product

from quality_texts.case import Case
from training.templates import OPINIONS, PROBLEMS

SETS: dict[str, tuple[str, dict[str, list[str]]]] = {
    "topic": (
        "Which topic does the headline belong to?",
        {
            "sport": [
                "Late goal sends the home side into the final", "Swimmer breaks a twelve-year-old record",
                "Coach resigns after the third defeat in a row", "Marathon winner tested twice", "Tie-break decides a long match",
                "The league adds two teams for next season", "Cyclist wins the mountain stage alone", "Boxer keeps his belt on points",
            ],
            "politics": [
                "Parliament votes on the new tax law", "Minister steps down after the report", "Mayor wins a second term",
                "Two parties agree on a coalition", "Senate delays the vote on the treaty", "President vetoes the budget",
                "Opposition calls for an early election", "Voters reject the reform in a referendum",
            ],
            "science": [
                "Telescope sees the oldest galaxy so far", "Researchers grow heart cells in the lab", "A new particle, or a statistical ghost?",
                "Fossil shows how whales lost their legs", "Vaccine trial enters its third phase", "Probe lands on the far side of the moon",
                "Chemists make plastic that dissolves in the sea", "Bees can count to four, study finds",
            ],
            "business": [
                "Shares fall after a weak quarter", "Carmaker to buy its battery supplier", "Central bank keeps interest rates unchanged",
                "Start-up raises 40 million from investors", "Airline cuts 2,000 jobs", "Oil price climbs to a yearly high",
                "Retailer opens a hundred stores abroad", "Merger of the two banks is approved",
            ],
            "weather": [
                "Storm expected on the coast tonight", "Heat wave to last until Sunday", "First snow closes the mountain pass",
                "Flood warning for the lower river", "Fog delays flights this morning", "A dry spring worries farmers",
                "Hail the size of golf balls hits the valley", "Cold front brings frost at night",
            ],
        },
    ),
    "intent": (
        "What does the customer of the bank want?",
        {
            "lost_card": ["I can't find my card anywhere.", "My wallet was stolen with my card in it.", "I left my debit card on the train.",
                          "I think I dropped my card, please block it."],
            "card_arrival": ["When will my new card get here?", "I ordered a card two weeks ago and it has not come.", "Is my card in the post yet?",
                             "How do I track the card you sent me?"],
            "change_pin": ["How can I get a new PIN?", "I want to use another PIN.", "Can I set my own code for the card?",
                           "Please let me pick a different PIN."],
            "exchange_rate": ["What rate do you use for dollars?", "How many euros do I get for 100 pounds?", "Are your currency rates updated daily?",
                              "Is the exchange rate better at the weekend?"],
            "transfer_failed": ["My transfer did not go through.", "Why was my payment to my landlord rejected?", "The money I sent came back.",
                                "It says my bank transfer was declined."],
            "charged_fee": ["Why did I pay a fee at the cash machine?", "There is an extra charge on my account.", "You took 3 euros for a withdrawal.",
                            "I did not know there was a fee for payments abroad."],
            "refund": ["I want my money back from the shop.", "The refund for my returned shoes is missing.", "Can you reverse this purchase and pay me back?",
                       "When do I get the refund?"],
            "close_account": ["I want to leave your bank.", "Please cancel my account for good.", "How do I delete my account?",
                              "Shut down my account, I do not need it any more."],
            "open_account": ["I would like to become a customer.", "How do I start an account with you?", "Can my son open an account?",
                             "What do I need to open a second account?"],
            "change_address": ["I have moved to another street.", "Please update where I live.", "My home address is wrong in your app.",
                               "Send my letters to my new flat from now on."],
            "login_problem": ["I can't sign in to the app.", "My password is not accepted.", "The app logs me out all the time.",
                              "I forgot my passcode and am locked out."],
            "loan": ["Can I borrow 5,000 for a car?", "What does a loan cost per month?", "I want to ask for credit.",
                     "Do you give mortgages to first-time buyers?"],
            "balance": ["How much money do I have?", "Show me what is left on my account.", "Is there enough on my account for rent?",
                        "What is my balance today?"],
        },
    ),
}  # fmt: skip
OPENINGS = ("", "I bought a kettle. ", "About my new bicycle lamp: ")
"""What stands before an opinion or a problem of the demo model's templates."""


def cases() -> list[Case]:
    """All texts with their labels, in an order drawn from the seed."""
    sets = SETS | {
        "sentiment": ("Is the review positive, negative or neutral?", _each(OPINIONS, OPENINGS)),
        "department": ("Which department should answer the message?", _each(PROBLEMS, ("", "Hello! "))),
    }
    made = []
    for name, (question, texts) in sets.items():
        labels = [*texts]
        schema = {
            "type": "object",
            "properties": {"label": {"enum": labels}},
            "required": ["label"],
            "additionalProperties": False,
        }
        ask = f"{question} Answer with JSON: label ({', '.join(labels[:-1])} or {labels[-1]}).\nText: "
        made += [
            Case("labels", f"{name}-{label}-{i}", ask + text, schema, {"label": label})
            for label, each in texts.items()
            for i, text in enumerate(each)
        ]
        if name == "intent":
            last = Case("labels", "intent-balance-4", ask + "Has my salary come in, and what have I got now?", schema,
                        {"label": "balance"})  # fmt: skip
    random.Random("labels").shuffle(made)
    return [*made, last]  # it came later than the order


def _each(templates: dict[str, list[str]], openings: tuple[str, ...]) -> dict[str, list[str]]:
    """Every text of one choice a template, behind the openings."""
    texts = {label: [text for each in rows for text in _choices(each)] for label, rows in templates.items()}
    return {label: [start + text for start, text in product(openings, rows)] for label, rows in texts.items()}


def _choices(template: str) -> list[str]:
    """The texts of `[a|b].`"""
    return [f"{text}." if text[-1] not in "?." else text for text in template.strip("[].").split("|")]
