"""`generate` of transformers under a constraint: a logits processor in its own loop, or structgen's loop inside it.

    model.generate(**inputs, logits_processor=[ConstraintLogitsProcessor(City, model, tokenizer)])
    model.generate(**inputs, custom_generate=constrained_generate(City, tokenizer, banned=["Rome"]))

A processor can only mask. structgen's loop also takes tokens back, closes values in time and feeds forced text.
"""

from structgen.integrations.transformers.custom_generate import ConstrainedOutput, constrained_generate
from structgen.integrations.transformers.logits_processor import ConstraintLogitsProcessor

__all__ = ["ConstrainedOutput", "ConstraintLogitsProcessor", "constrained_generate"]
