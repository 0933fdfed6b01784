"""Compiles all kernels ahead of their first use.

`python -m structgen.compile_ahead` compiles them for all machines of this kind and puts them into the package, where
`structgen.kernels` finds them; what is there already is not compiled again. The build of a wheel runs it
(`hatch_build.py`), and the build of an image may.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory

import numpy as np

from structgen.kernels import KERNELS, SHORT
from structgen.kernels.folders import level, shipped_folder

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "n": {"type": "integer", "minimum": 3},
        "word": {"type": "string", "pattern": "^[^\\s]+$", "maxLength": 20},
        "either": {"anyOf": [{"type": "string", "pattern": "^[ab]"}, {"type": "string", "maxLength": 2}]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "numbers": {"type": "array", "items": {"type": "integer"}, "maxItems": 1000},
    },
    "required": ["name", "n", "word", "either", "tags"],
}
VALUE = {"name": "Zoë", "n": 42, "word": "é", "either": "b", "tags": ["a", "b"], "numbers": list(range(40))}
"""A schema and one of its values, which together need most kernels."""
RULES = 'start: "x" word\nword: /[a-c]+/\n'


def use_kernels() -> None:
    """Uses every kernel on a few texts, so that each is compiled, or loaded if it was compiled before."""
    from structgen.automaton.table_format import R_CAP_RETURNS
    from structgen.automaton.tables import Tables
    from structgen.constraints.basic import Constraint, JsonSchema
    from structgen.constraints.compositions import Sequence
    from structgen.constraints.languages import Lark
    from structgen.endings.closing import Closing
    from structgen.vocabulary.vocabulary import single_bytes

    vocabulary = single_bytes()
    words = [f"{number:05}" for number in range(4000)]
    text = json.dumps(VALUE, ensure_ascii=False)
    texts: list[tuple[Constraint, str]] = [
        (JsonSchema(SCHEMA), text),
        (Sequence("so: ", JsonSchema(SCHEMA)), "so: " + json.dumps(VALUE)),
        (JsonSchema({}), "[" * 99 + "]" * 99),
        (JsonSchema({"enum": words}), json.dumps(words[1])),
        (Lark(RULES), "xabc"),
        (JsonSchema({"type": "string", "x-quote": {"whole": "words"}}, source="a b"), '"b"'),
    ]
    for constraint, text in texts:
        matcher = constraint.compile(vocabulary).matcher()
        for byte in text.encode():
            matcher.mask()
            matcher.advance(byte)
        Closing.of(matcher.grammar).cost(matcher.grammar.start)
    returns = Tables()
    for outcome in range(returns.registers[R_CAP_RETURNS]):  # so many that their table grows
        returns.set_return(1, outcome, 1)
    use_canonical_kernels()


def use_canonical_kernels() -> None:
    """Uses every kernel for canonical tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from structgen.constraints.basic import Choice
    from structgen.masks import canonical_walk as walk
    from structgen.vocabulary import Vocabulary

    pieces = ["a", "b", "ab", "</s>"]
    bpe = models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[("a", "b")])
    vocabulary = Vocabulary.from_tokenizer(Tokenizer(bpe), end_ids=[3])
    grammar, canonical = Choice(["ab", "ba"]).compile(vocabulary), vocabulary.canonical
    behind = canonical.advance(canonical.start, 1) or canonical.start  # b
    canonical.mask(behind)
    canonical.advance(behind._replace(packed=-1), 0)  # by hand, which asks whether both may stand side by side
    numbers, tokens, out = np.zeros(walk.NUMBERS, np.int64), np.arange(2), np.zeros(walk.WIDE, np.int64)
    canonical.among(behind, tokens)
    walk.few(canonical.mask(behind), out)
    place = canonical.base, numbers.ctypes.data, grammar.start, canonical.start.packed
    grammar.answered(walk.alive, *place, walk.DEPTH, tokens)
    grammar.answered(walk.live, *place, out, tokens)
    unigram = Tokenizer(models.Unigram([("</s>", 0.0), *((piece, -1.0) for piece in pieces[:3])], 0))
    unigram.pre_tokenizer, unigram.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    canonical = Vocabulary.from_tokenizer(unigram, end_ids=[0]).canonical
    canonical.mask(canonical.advance(canonical.afresh, 1) or canonical.afresh)


def ship() -> None:
    """Makes the folder of shipped kernels hold each kernel in its present form, and no other of this Python's."""
    use_kernels()
    files = {file for kernel in KERNELS for file in kernel._cache.ship()}
    for old in shipped_folder().glob(f"*.{sys.implementation.cache_tag}*"):
        if old not in files:
            old.unlink()


def main() -> None:
    """Ships the kernels from a process whose compiler targets the level instead of this processor."""
    name, target = level(), shipped_folder()
    if name is None or not SHORT:
        unknown = "this architecture" if SHORT else "this version of numba"
        sys.exit(f"{unknown} is not known to structgen: kernels are compiled at their first use")
    with TemporaryDirectory() as folder:
        changed = {"NUMBA_CACHE_DIR": folder, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
        command = [sys.executable, "-c", "from structgen.compile_ahead import ship; ship()"]
        subprocess.run(command, env=os.environ | changed, check=True)
    print(target)


if __name__ == "__main__":
    main()
