"""What is made of a vocabulary once, and lives as long as it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from structgen.vocabulary.vocabulary import Vocabulary

T = TypeVar("T")


def once_per_vocabulary(make: Callable[[Vocabulary], T]) -> Callable[[Vocabulary], T]:
    """A function of a vocabulary that is asked once for each; what it gave is forgotten with the vocabulary."""
    known: WeakKeyDictionary[Vocabulary, T] = WeakKeyDictionary()

    @wraps(make)
    def remembered(vocabulary: Vocabulary) -> T:
        found = known.get(vocabulary)
        if found is None:
            found = known[vocabulary] = make(vocabulary)
        return found

    return remembered
