"""`generate` of transformers under a constraint: as a `LogitsProcessor` of its own loop, or with our loop inside it.

    model.generate(**inputs, logits_processor=[ConstraintLogitsProcessor(City, model, tokenizer)])
    model.generate(**inputs, custom_generate=constrained_generate(City, tokenizer, banned=["Rome"]))

A processor masks. To go back, to close a value in time and to feed forced text is not in its power; our loop does all.
"""

from structgen.integrations.transformers.custom_generate import ConstrainedOutput, constrained_generate
from structgen.integrations.transformers.logits_processor import ConstraintLogitsProcessor

__all__ = ["ConstrainedOutput", "ConstraintLogitsProcessor", "constrained_generate"]
