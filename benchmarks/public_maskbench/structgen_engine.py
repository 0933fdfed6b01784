"""structgen as an engine of the public MaskBench: goes beside the others in `maskbench/maskbench/` of
guidance-ai/jsonschemabench, with two lines in `get_engine` of its `runner.py`:

    if args.structgen:
        from .structgen_engine import StructgenEngine
"""

import structgen as sg

from .engine import Engine


class StructgenEngine(Engine):
    any_order = False
    """Accept members in any order, as the documents of some schemas have them. By default in the schema's order."""

    def get_id(self):
        return "structgen-any" if self.any_order else "structgen"

    def get_name(self):
        return "structgen (any order)" if self.any_order else "structgen"

    def get_module(self):
        return "structgen"

    def init(self):
        self.vocabulary = sg.engine.Vocabulary.from_tokenizer(self.tokenizer)
        sg.JsonSchema(True).compile(self.vocabulary).matcher().mask()  # what is made once for a vocabulary

    def compile_grammar(self, schema):
        constraint = sg.JsonSchema(schema, order="any" if self.any_order else "schema")
        self.grammar = constraint.compile(self.vocabulary)

    def reset(self):
        self.matcher = self.grammar.matcher()

    def compute_mask(self):
        try:
            self.mask = self.matcher.mask()
        except sg.errors.DeadEnd:  # nothing may follow
            self.mask = None

    def commit_token(self, t):
        ok = self.mask is not None and bool(self.mask[t >> 5] >> (t & 31) & 1)
        if ok:
            self.matcher.advance(t)
        return ok
