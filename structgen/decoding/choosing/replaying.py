"""The masks of a text that is written already: what training on generated texts needs.

A mask changes the law of a text. A token that the model gives the probability p is drawn with p / m, where m is the
probability of all tokens that the mask allows there, and m depends on the model's weights. Policy gradients that leave
m out follow another law than the one that has drawn the text. `replay` finds the masks of a text anew, from its tokens
alone; `Replay` then gives p / m, and m, of any logits, with their gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.arguments import require
from structgen.decoding.choosing.masking import forbid
from structgen.errors import OptionError
from structgen.masks.grammar import Grammar, Matcher
from structgen.masks.string_slices import Uint32
from structgen.masks.words import pack


@dataclass(frozen=True, slots=True)
class Replay:
    """The masks under which a text was written.

    Attributes:
        token_ids: the tokens of the text.
        distinct: the different masks, uint32[masks, words]; bit `i % 32` of word `i // 32` is token `i`.
        rows: for each token, the row of `distinct` that is its mask: int64[tokens].
        width: the number of tokens of the vocabulary.
    """

    token_ids: tuple[int, ...]
    distinct: Uint32 = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    width: int

    @property
    def masks(self) -> Uint32:
        """The mask of each token: uint32[tokens, words], a new array. Few of them differ, see `distinct`."""
        return self.distinct[self.rows]

    def logprobs(self, logits: Tensor) -> Tensor:
        """The log-probability of each token under the mask: log p - log m, in nats. That of a forced token is 0.

        Args:
            logits: float[tokens, columns]: row `i` has the model's logits for token `i`, divided by the temperature if
                one was used. Columns beyond the vocabulary are padding.

        Returns:
            float[tokens], with gradients if `logits` has them. Its sum is the log-probability of the text.

        Raises:
            OptionError: the logits have another shape.
        """
        chosen = torch.tensor(self.token_ids, dtype=torch.int64, device=logits.device).unsqueeze(1)
        return self._allowed(logits).log_softmax(dim=-1).gather(1, chosen).squeeze(1)

    def log_masses(self, logits: Tensor) -> Tensor:
        """The log of the probability that each mask allowed: log m, at most 0, in nats.

        Arguments, gradients and errors are those of `logprobs`.
        """
        return self._allowed(logits).logsumexp(dim=-1) - logits[:, : self.width].logsumexp(dim=-1)

    def entropies(self, logits: Tensor) -> Tensor:
        """The entropy of the law of each token under the mask, in nats. See `logprobs` for the rest."""
        logs = self._allowed(logits).log_softmax(dim=-1)
        return -(logs.exp() * logs.clamp(min=-1e4)).sum(dim=-1)

    def _allowed(self, logits: Tensor) -> Tensor:
        """The logits with minus infinity for forbidden tokens: float[tokens, width]."""
        shape, tokens = tuple(getattr(logits, "shape", ())), len(self.token_ids)
        if len(shape) != 2 or shape[0] != tokens or shape[1] < self.width:
            raise OptionError(f"logits of shape {shape}: expected float[{tokens}, {self.width}], a row for each token")
        masks = torch.from_numpy(self.distinct.view(np.int32)).to(logits.device)
        return forbid(logits[:, : self.width], masks[torch.from_numpy(self.rows).to(logits.device)])


def replay(grammar: Grammar | Matcher, token_ids: Sequence[int], *, forced: Sequence[bool] = ()) -> Replay:
    """The masks under which a text was written, from its tokens.

    Args:
        grammar: the constraint, compiled for the model's vocabulary; or a matcher that stands at the text's beginning,
            such as a `CanonicalMatcher`. The matcher does not move.
        token_ids: the tokens of the text. An end token may be the last one.
        forced: for each token, whether it was written without asking the model, as `sg.generate` does where only one
            text can follow: `[token.forced for token in generation.trace.tokens]`. Its mask is that token alone.

    Raises:
        OptionError: `grammar` is neither, or `forced` has another length.
        TokenRejected: the text is not one of the grammar's.
    """
    require(isinstance(grammar, (Grammar, Matcher)), "grammar", grammar, "a Grammar or a Matcher")
    ids = tuple(map(int, token_ids))
    require(not len(forced) or len(forced) == len(ids), "forced", forced, f"a bool for each of {len(ids)} tokens")
    matcher = grammar.matcher() if isinstance(grammar, Grammar) else grammar.fork()
    width = matcher.grammar.vocabulary.width
    distinct: dict[bytes, int] = {}
    rows = list[int]()
    for token, alone in zip_longest(ids, forced, fillvalue=False):
        mask = b"" if matcher.finished else (pack(np.array([token]), width) if alone else matcher.mask()).tobytes()
        matcher.advance(token)
        rows.append(distinct.setdefault(mask, len(distinct)))
    words = np.frombuffer(b"".join(distinct), np.uint32).reshape(len(distinct), -(-width // 32)).copy()
    return Replay(ids, words, np.array(rows, np.int64), width)
