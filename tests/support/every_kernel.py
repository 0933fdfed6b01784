"""Uses every kernel on a few texts, and says what came out: `python -m tests.support.every_kernel` without compiled
ones."""

from __future__ import annotations

import json
import sys
import warnings
from hashlib import sha256
from typing import Any

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
    returns = Tables()
    for outcome in range(returns.machine[Machine.n_returns]):  # so many that their table grows
        returns.set_return(1, outcome, 1)
    found["returns"] = sha256(returns.returns.tobytes()).hexdigest()
    return found | _canonical()


def _canonical() -> dict[str, str]:
    import numpy as np
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from structgen.constraints.basic import Choice
    from structgen.masks import canonical_walk as walk
    from structgen.vocabulary import Vocabulary

    pieces = ["a", "b", "ab", "</s>"]
    bpe = models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[("a", "b")])
    vocabulary = Vocabulary.from_tokenizer(Tokenizer(bpe), end_ids=[3])
    grammar, canonical = Choice(["ab", "ba"]).compile(vocabulary), vocabulary.canonical
    after = canonical.advance(canonical.start, 1) or canonical.start  # b
    told: list[Any] = [canonical.mask(after).tolist()]
    told.append(canonical.advance(after._replace(packed=-1), 0))  # asks whether both may stand side by side
    numbers, tokens, out = np.zeros(walk.NUMBERS, np.int64), np.arange(2), np.zeros(walk.WIDE, np.int64)
    told.append(canonical.among(after, tokens))
    told += [walk.few(canonical.mask(after), out), out.tolist()]
    place = canonical.base, numbers.ctypes.data, grammar.start, canonical.start.packed
    told.append(grammar.answered(walk.alive, *place, walk.DEPTH, tokens))
    told += [grammar.answered(walk.live, *place, out, tokens), out.tolist()]
    found = {"merges": sha256(repr(told).encode()).hexdigest()}
    unigram = Tokenizer(models.Unigram([("</s>", 0.0), *((piece, -1.0) for piece in pieces[:3])], 0))
    unigram.pre_tokenizer, unigram.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    canonical = Vocabulary.from_tokenizer(unigram, end_ids=[0]).canonical
    after = canonical.advance(canonical.afresh, 1) or canonical.afresh
    return found | {"unigram": sha256(canonical.mask(after).tobytes()).hexdigest()}


if __name__ == "__main__":
    sys.modules["structgen._kernels"] = None  # type: ignore[assignment]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = results()
    told = [f"{each.category.__name__}: {each.message}" for each in caught if "kernels" in str(each.message)]
    print(json.dumps({"results": found, "warnings": told}))
