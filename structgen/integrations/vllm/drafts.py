"""Forced text as speculative drafts of vLLM: what must come next is read in one forward pass.

    STRUCTGEN_VLLM=1 vllm serve ... --structured-outputs-config.backend outlines \\
        --scheduler-cls structgen.integrations.vllm.drafts.ForcedDraftScheduler \\
        --speculative-config '{"method": "custom_class", "num_speculative_tokens": 8,
                               "model": "structgen.integrations.vllm.drafts.NoDrafts"}'

vLLM's proposers run in the workers, which know no grammar and not which request a row belongs to. The grammars are in
the scheduler's process. So the proposer proposes nothing, and the scheduler puts in the forced tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler

from structgen.integrations.vllm.backend import VLLMGrammar


class NoDrafts:
    """The proposer of the workers; it turns speculative decoding on."""

    def __init__(self, vllm_config: Any) -> None:
        pass

    def load_model(self, *arguments: Any, **options: Any) -> None:
        """Does nothing: there is no draft model."""

    def propose(self, sampled_token_ids: Sequence[Sequence[int]], *arguments: Any, **options: Any) -> list[list[int]]:
        """Returns no draft for each row."""
        return [[] for _ in sampled_token_ids]


class ForcedDraftScheduler(Scheduler):  # type: ignore[misc]
    """vLLM's scheduler, with the forced tokens of each constrained request as its draft."""

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """Takes the drafts for the next step. A request without forced tokens keeps the proposer's."""
        drafts = [
            self._forced(request_id) or draft
            for request_id, draft in zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=True)
        ]
        super().update_draft_token_ids(replace(draft_token_ids, draft_token_ids=drafts))

    def _forced(self, request_id: str) -> list[int]:
        request = self.requests.get(request_id)
        asked = None if request is None else request.structured_output_request
        grammar = None if asked is None else asked.grammar
        return grammar.forced(self.num_spec_tokens) if isinstance(grammar, VLLMGrammar) else []
