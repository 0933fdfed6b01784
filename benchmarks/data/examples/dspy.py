from typing import Literal

import dspy

import structgen as sg
from structgen.integrations.dspy import StructgenEngine

model = sg.load("smollm2")
settings = {"max_tokens": 100, "temperature": 0, "cache": False}

# %% docs/docs/learn/programming/signatures.md: a boolean
# was: dspy.LM("openai/gpt-5-mini")
lm = dspy.LM("structgen", engine=StructgenEngine(model), **settings)
dspy.configure(lm=lm)
classify = dspy.Predict("sentence -> sentiment: bool")
answer = classify(sentence="it's a charming and often affecting journey.").sentiment
assert isinstance(answer, bool)

# %% docs/docs/learn/programming/signatures.md: one of six emotions
class Emotion(dspy.Signature):
    """Classify emotion."""

    sentence: str = dspy.InputField()
    sentiment: Literal["sadness", "joy", "love", "anger", "fear", "surprise"] = dspy.OutputField()


# was: dspy.LM("openai/gpt-5-mini")
lm = dspy.LM("structgen", engine=StructgenEngine(model), **settings)
dspy.configure(lm=lm)
answer = dspy.Predict(Emotion)(sentence="i started feeling a little vulnerable").sentiment

# %% docs/docs/learn/programming/signatures.md: a summary after reasoning
# was: dspy.LM("openai/gpt-5-mini")
lm = dspy.LM("structgen", engine=StructgenEngine(model), **settings)
dspy.configure(lm=lm)
answer = dspy.ChainOfThought("document -> summary")(document="Lee made seven appearances and scored one goal.").summary

# %% docs/docs/learn/programming/signatures.md: evidence as a dictionary
# differs: DSPy sends no schema where a type is a dictionary, so a small model writes a value of another type
class Faithfulness(dspy.Signature):
    """Is the text based on the context?"""

    context: str = dspy.InputField()
    text: str = dspy.InputField()
    faithfulness: bool = dspy.OutputField()
    evidence: dict[str, list[str]] = dspy.OutputField()


# was: dspy.LM("openai/gpt-5-mini")
lm = dspy.LM("structgen", engine=StructgenEngine(model), **settings)
dspy.configure(lm=lm)
answer = dspy.ChainOfThought(Faithfulness)(context="Lee scored twice.", text="Lee scored 3 goals.").evidence

# %% docs/docs/learn/programming/modules.md: a number after reasoning
# was: dspy.LM("openai/gpt-5-mini")
lm = dspy.LM("structgen", engine=StructgenEngine(model), **settings)
dspy.configure(lm=lm)
answer = dspy.ChainOfThought("question -> answer: float")(question="Two dice are tossed: probability of two?").answer
assert isinstance(answer, float)

# %% docs/docs/learn/programming/modules.md: a class and how sure
class Classify(dspy.Signature):
    """Classify sentiment of a given sentence."""

    sentence: str = dspy.InputField()
    sentiment: Literal["positive", "negative", "neutral"] = dspy.OutputField()
    confidence: float = dspy.OutputField()


# was: dspy.LM("openai/gpt-5-mini")
lm = dspy.LM("structgen", engine=StructgenEngine(model), **settings)
dspy.configure(lm=lm)
answer = dspy.Predict(Classify)(sentence="This book was super fun to read.")
assert isinstance(answer.confidence, float)

# %% docs/docs/learn/programming/tools.md: an agent with a tool
# differs: the arguments of a tool are a dictionary, so DSPy sends no schema, and a small model names no tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


# was: dspy.LM("openai/gpt-5-mini")
lm = dspy.LM("structgen", engine=StructgenEngine(model), **settings)
dspy.configure(lm=lm)
answer = dspy.ReAct("question -> answer", tools=[get_weather], max_iters=2)(question="The weather in Tokyo?").answer
