"""How often a model is right: a job over rows whose values are known, and a comparison of what it gave.

`comparison` compares two values place by place, `counts` says how sure the shares are, `evaluation` runs the job or
reads one that has run, `mistakes_page` shows what is wrong, and `choosing` finds examples for the prompt.
"""

from structgen.evaluating.choosing import choose_examples
from structgen.evaluating.counts import Accuracy, Comparison, Difference
from structgen.evaluating.evaluation import Evaluation, Review, evaluate

__all__ = ["Accuracy", "Comparison", "Difference", "Evaluation", "Review", "choose_examples", "evaluate"]
