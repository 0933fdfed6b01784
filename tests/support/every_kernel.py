"""Uses every kernel on a few texts, and says what came out: `python -m tests.support.every_kernel` without compiled
ones."""

from __future__ import annotations

import json
import sys
import warnings
from hashlib import sha256

RULES = 'start: "x" word\nword: /[a-c]+/\n'


def results() -> dict[str, str]:
    """For each constraint or tokenizer: a digest of all that its kernels gave."""
    from structgen.automaton.table_format import Machine
    from structgen.automaton.tables import Tables
    from structgen.cli.installed import SCHEMA, VALUE
    from structgen.constraints.basic import Constraint, JsonSchema
    from structgen.constraints.compositions import Sequence
    from structgen.constraints.languages import Lark
    from structgen.endings.closing import Closing
    from structgen.memory import Memory
    from structgen.vocabulary.vocabulary import single_bytes

    vocabulary = single_bytes()
    words = [f"{number:03}" for number in range(200)]
    text = json.dumps(VALUE, ensure_ascii=False)
    texts: dict[str, tuple[Constraint, str]] = {
        "object": (JsonSchema(SCHEMA), text),
        "sequence": (Sequence("so: ", JsonSchema(SCHEMA)), "so: " + json.dumps(VALUE)),
        "anything": (JsonSchema({}), "[" * 20 + "]" * 20),
        "words": (JsonSchema({"enum": words}), json.dumps(words[1])),
        "lark": (Lark(RULES), "xabc"),
        "quote": (JsonSchema({"type": "string", "x-quote": {"whole": "words"}}, source="a b"), '"b"'),
    }
    found = {}
    for name, (constraint, text) in texts.items():
        matcher, told = constraint.compile(vocabulary).matcher(), sha256()
        for byte in text.encode():
            told.update(matcher.mask().tobytes())
            matcher.advance(byte)
        told.update(matcher.mask().tobytes())
        told.update(repr(Closing.of(matcher.grammar).cost(matcher.grammar.start)).encode())
        found[name] = told.hexdigest()
    returns = Tables(Memory())
    for outcome in range(returns.machine[Machine.n_returns]):  # so many that their table grows
        returns.set_return(1, outcome, 1)
    found["returns"] = sha256(returns.returns.tobytes()).hexdigest()
    return found | _canonical()


def _canonical() -> dict[str, str]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from structgen.vocabulary import Vocabulary

    pieces = ["a", "b", "ab", "</s>"]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[("a", "b")]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, end_ids=[3])
    canonical = vocabulary.canonical
    after = canonical.advance(canonical.advance(canonical.start, 1) or canonical.start, 0) or canonical.start
    return {"canonical": sha256(vocabulary.canonical_masks.mask(after).tobytes()).hexdigest()}


if __name__ == "__main__":
    sys.modules["structgen._kernels"] = None  # type: ignore[assignment]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = results()
    told = [f"{each.category.__name__}: {each.message}" for each in caught if "kernels" in str(each.message)]
    print(json.dumps({"results": found, "warnings": told}))
