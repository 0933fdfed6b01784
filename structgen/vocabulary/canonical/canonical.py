"""The tokens that keep a sequence canonical: equal to what the tokenizer itself makes of its text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from structgen.memo import cached_up_to
from structgen.vocabulary.canonical import step_kernels as kernels
from structgen.vocabulary.canonical.added import AddedContents
from structgen.vocabulary.canonical.merges import Merges
from structgen.vocabulary.canonical.model import EncoderModel
from structgen.vocabulary.canonical.recognizer import NO_TOKEN, UNPACKED, Canonical, CanonicalState, Recent
from structgen.vocabulary.canonical.signatures import TokenSignatures
from structgen.vocabulary.canonical.splits import CUT, DEAD, FREE, INSIDE, START
from structgen.vocabulary.canonical.step_kernels import REFUSED, UNTOLD, Steps, StepTables, among, follow, joins
from structgen.vocabulary.canonical.unicode_form import UnicodeForm
from structgen.vocabulary.packed import Words, packed
from structgen.vocabulary.trie import Trie

REMEMBERED = 256
"""Cached masks of each kind: on JSON, nine of ten requests are for one of them."""
REMEMBERED_STATES = 4096

Chunk = tuple[int, ...]
"""The tokens that merges alone would make of a chunk which is one token."""


class MergeCanonical(Canonical):
    """For byte-pair encodings.

    A token is allowed if the pre-tokenizer may cut the text as the tokens do, and if byte-pair encoding would leave the
    token beside the last one, or the token begins a new chunk: `cut[state] | (free[state] & followers[last])`.

    Args:
        tokens: the bytes of each token by id; empty for one that is no text.
        special_ids: the tokens that exist and are no text.
        model: how the tokenizer encodes.
        trie: the tokens as a tree.
    """

    def __init__(self, tokens: Sequence[bytes], special_ids: Iterable[int], model: EncoderModel, trie: Trie) -> None:
        self._splits = model.splits
        self._merges = Merges(model.atoms, model.offsets, model.merged)
        spelled = (np.diff(model.offsets) > 0).tolist()
        self._texts = [token if has_atoms else b"" for token, has_atoms in zip(tokens, spelled, strict=True)]
        contents = (content.encode() for content in model.added.values())
        self._contents = AddedContents(contents, self._texts, trie)
        self._form = UnicodeForm(self._texts) if model.composed else None
        self._whole = self._merges.encoded if model.whole else {}
        self._chunks = defaultdict[int, list[Chunk]](list)  # by their last tokens
        for chunk in self._whole.values():
            self._chunks[chunk[-1]].append(chunk)
        self._begun = {chunk[:size] for chunk in self._whole.values() for size in range(1, len(chunk))}
        self._signatures = TokenSignatures(self._texts, model.splits, model.byte_tokens, model.characters)
        self._index([bool(token) for token in tokens], list(special_ids))
        pairs = {chunk[-2] << 32 | chunk[-1] for chunk in self._whole.values() if len(chunk) > 1}
        self._tables = StepTables(self._merges, self._signatures, model.splits, self._flags, sorted(pairs))
        self.base: Steps = self._tables.base
        self.start, self._behind_added = map(self._begin, model.spaced)
        self.afresh = self._begin(spaced=False)

    def may_end(self, state: CanonicalState) -> bool:
        if state.pending or state.uncut:
            return False
        return state.last == NO_TOKEN or bool(self._splits.may_end[state.split])

    def advance(self, state: CanonicalState, token: int) -> CanonicalState | None:
        if state.packed >= 0 and not state.recent:
            after = follow(self.base, state.packed, token)
            if after >= 0:
                return self._unpacked(after)
            if after == REFUSED:
                return None
        text = self._texts[token]
        if not text:
            return self._behind_added if self.may_end(state) else None
        if not self._merges.alone[token] and token not in self._whole:
            return None
        joined = state.last != NO_TOKEN and joins(self.base, state.last, token)
        if ((state.pending or state.uncut) and not joined) or (state.spaced and not text.startswith(b" ")):
            return None
        place = state.place if state.pending else INSIDE if state.uncut else FREE if joined else CUT
        read = self._signatures.read(state.split, place, state.pending, token)
        begun = self._contents.begun(state.begun, text)
        if read is None or begun is None:
            return None
        split, whole, pending, place = read
        tail = "" if self._form is None else self._form.after(state.tail, whole)
        if tail is None:
            return None
        recent: Recent = ()
        uncut = False
        if state.recent or self._flags[token] & kernels.BEGINS:
            recent = (*state.recent, (token, DEAD if state.pending else state.split))
            uncut = not pending and any(self._may_be_whole(chunk, recent) for chunk in self._chunks.get(token, ()))
            recent = self._begun_chunks(recent)
        is_packed = self._flags[token] & kernels.PLAIN and not (begun or uncut)
        packed = split << 32 | token + 1 if is_packed else UNPACKED
        return CanonicalState(split, token, pending, place, begun, False, uncut, tail, recent, packed)

    def _begin(self, spaced: bool) -> CanonicalState:
        """The state before a text."""
        return CanonicalState(START, NO_TOKEN, spaced=spaced, packed=UNPACKED if spaced else START << 32)

    @cached_up_to(REMEMBERED_STATES)
    def _unpacked(self, packed: int) -> CanonicalState:
        """The state behind a token that is `PLAIN`."""
        token = (packed & 0xFFFFFFFF) - 1
        tail = "" if self._form is None else self._form.after("", self._texts[token].decode()) or ""
        return CanonicalState(packed >> 32, token, place=INSIDE, tail=tail, packed=packed)

    def mask(self, state: CanonicalState) -> Words:
        return self._mask(state.future)

    def among(self, state: CanonicalState, tokens: NDArray[np.int64]) -> tuple[Words, NDArray[np.int64]] | None:
        words, kept = self._nothing.copy(), np.empty_like(tokens)
        count = UNTOLD if state.packed < 0 else among(self.base, state.packed, tokens, kept, words)
        return None if count < 0 else (words, kept[:count])

    @cached_up_to(REMEMBERED)
    def _mask(self, future: int | CanonicalState) -> Words:
        """The mask of a state, from `CanonicalState.future`."""
        if isinstance(future, CanonicalState):
            state = future
        else:
            state = self.afresh if future == self.afresh.packed else self._unpacked(future)
        if state.pending:
            inside, cut = self._continuing(state.split, state.place, state.pending, state.tail), self._nothing
        elif state.uncut:
            inside, cut = self._standing(state.split, INSIDE), self._nothing
        else:
            inside, cut = self._standing(state.split, FREE), self._standing(state.split, CUT)
        words = cut.copy() if state.last == NO_TOKEN else self._merges.followers(state.last, inside, cut)
        if state.spaced:
            words &= self._spaced
        words &= self._contents.harmless(state.begun)
        if self._form is not None and not state.pending:
            words &= self._form.kept(state.tail)
        if self.may_end(state):
            words |= self._outer
        words.setflags(write=False)
        return words

    def _index(self, is_text: Sequence[bool], special_ids: Sequence[int]) -> None:
        """Make the sets of tokens for masks, and the flags of the tokens for kernels."""
        alone, signatures = self._merges.alone, self._signatures
        whole = alone.copy()
        whole[list(self._whole)] = True
        self._candidates = {INSIDE: alone, FREE: alone, CUT: whole}
        outer = np.array([not text for text in self._texts]) & np.array(is_text)
        outer[special_ids] = True
        self._outer = packed(outer)
        self._nothing = np.zeros_like(self._outer)
        self._spaced = packed(np.array([text.startswith(b" ") for text in self._texts]))
        simple = alone & signatures.complete
        simple[self._contents.whole] = False
        if self._form is not None:
            simple[list(self._form.touchy)] = False
        plain = simple.copy()
        plain[self._contents.beginning] = False
        begins, ends = np.zeros_like(plain), np.zeros_like(plain)
        for chunk in self._whole.values():
            begins[chunk[0]] = ends[chunk[-1]] = True
            if len(chunk) == 1:
                plain[chunk[0]] = False
        flags = plain * kernels.PLAIN | alone * kernels.ALONE | begins * kernels.BEGINS | ends * kernels.ENDS
        flags |= outer * kernels.OUTER | simple * kernels.SIMPLE
        flags |= ~(signatures.starting & whole) * kernels.ABSENT
        self._flags = flags.astype(np.uint8)

    @cached_up_to(REMEMBERED)
    def _standing(self, split: int, place: int) -> Words:
        """The tokens that may stand behind a state of `Splits`, at a place of this kind."""
        return packed(self._signatures.alive(split, place) & self._candidates[place])

    @cached_up_to(REMEMBERED)
    def _continuing(self, split: int, place: int, pending: bytes, tail: str) -> Words:
        """The tokens that may continue an incomplete character."""
        flags = np.zeros(len(self._texts), np.bool_)
        for token in self._signatures.continuing:
            read = self._signatures.read(split, place, pending, token)
            flags[token] = read is not None and (self._form is None or self._form.after(tail, read[1]) is not None)
        return packed(flags & self._merges.alone)

    def _begun_chunks(self, recent: Recent) -> Recent:
        """The longest suffix of the last tokens that may begin a chunk that is one token."""
        tokens = tuple(token for token, _ in recent)
        starts = (start for start in range(len(tokens)) if tokens[start:] in self._begun)
        return recent[next(starts, len(recent)) :]

    def _may_be_whole(self, chunk: Chunk, recent: Recent) -> bool:
        """Are the last tokens the encoding of a token, and may they be an uncut chunk?"""
        last = recent[-len(chunk) :]
        if tuple(token for token, _ in last) != chunk or last[0][1] == DEAD:
            return False
        text = b"".join(self._texts[token] for token in chunk).decode()
        return self._splits.follow(last[0][1], text, CUT) != DEAD
