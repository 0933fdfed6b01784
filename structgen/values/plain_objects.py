"""Objects in the commonest case, on the way to the first mask: one set of them, whose members no rule and no count
binds. What follows a name is looked at when a text has that name."""

from __future__ import annotations

from structgen.values.lockstep import Choice
from structgen.automaton.literals import write_literals
from structgen.values.object_progress import Members
from structgen.values.objects import Next, ObjectFrames
from structgen.values.name_frames import quoted
from structgen.automaton.table_format import DEAD


class PlainObjects(ObjectFrames):
    """The frames of objects, with a short way for those; `ObjectFrames` has the long one, which is the same."""

    def _expand_object(
        self, choice: Choice, members: tuple[Members, ...], depth: int, before: bytes, last: bytes, state: int
    ) -> None:
        objects = members[0].objects
        few = len(members) == 1 and len(objects.properties) <= self.many_names and not self.layout.bound
        if not few or not self.is_empty.inhabited(objects).uncounted:
            super()._expand_object(choice, members, depth, before, last, state)
            return
        (progress,) = members
        close = self._close_object(choice, members)
        literals = [(last, close)] if close else []
        others = self._other(progress, 0) if self._takes_any(progress) else None
        if others:
            literals.append((before + b'"', self._among_others(choice, progress, depth, tuple(others))))
        else:
            literals += self._declared(choice, progress, self._living(progress), depth, before + b'"')
        write_literals(self, state, literals)

    def _living(self, progress: Members) -> list[int]:
        """The declared members that may come next."""
        properties, is_empty = progress.objects.properties, self.is_empty
        return [i for i in progress.open() if not is_empty(properties[i].value)]

    def _declared(
        self, choice: Choice, progress: Members, living: list[int], depth: int, before: bytes
    ) -> list[tuple[bytes, int]]:
        """The names of these members, behind `before`, and the states behind their colons."""
        properties, first = progress.objects.properties, 0
        if not living:
            return []

        def expand(state: int) -> None:
            i = living[state - first]
            following = Next(properties[i].value, progress.with_declared(i), suspect=False)
            self._expand_member(choice, (following,), depth, state)

        first = self.later_block(len(living), expand)
        behind = b'"' + self.layout.colon
        return [(before + quoted(properties[i].name) + behind, first + k) for k, i in enumerate(living)]

    def _among_others(self, choice: Choice, progress: Members, depth: int, others: tuple[Next, ...]) -> int:
        """The state after the quote of a name that need not be declared."""
        inside, properties = self.free_name(self._behind_name(choice, others, depth)), progress.objects.properties
        if not properties:
            return inside

        def expand(state: int) -> None:
            living = self._living(progress)
            literals = self._declared(choice, progress, living, depth, b"")
            refused = set(range(len(properties))).difference(living)
            literals += [(quoted(properties[i].name) + b'"', DEAD) for i in refused]
            write_literals(self, state, literals, inner=inside, other=inside)

        return self.later(expand)
