"""Reinforcement learning of a constrained model with TRL: the loss follows the law that has drawn the texts.

Rollouts come from `generate` of transformers under a mask. Then the probability of a token is p / m, where m is the
probability of all tokens that the mask allows there. TRL computes p alone; `MaskedGRPOTrainer` divides by m.
"""

# Needs: trl

from typing import Any, Literal

import torch
from datasets import Dataset
from pydantic import BaseModel, ValidationError
from trl import GRPOConfig, GRPOTrainer

import structgen as sg
from structgen.integrations.transformers import ConstraintLogitsProcessor


class Ticket(BaseModel):
    team: Literal["billing", "shipping", "technical", "account"]


TICKETS = {
    "I was charged twice this month.": "billing",
    "The parcel has not moved for nine days!": "shipping",
    "The app crashes whenever I open the camera.": "technical",
    "Somebody has taken over my profile, help me!": "account",
    "Which currencies can I pay in?": "billing",
    "My order went to another address.": "shipping",
    "The whole site is down.": "technical",
    "How do I change the email that I log in with?": "account",
}
PROMPT = "{}\nTeam as JSON:\n"
ROWS = [{"prompt": PROMPT.format(text), "team": team} for text, team in TICKETS.items()]


def rewards(completions: list[str], team: list[str], **_: Any) -> list[float]:
    """A point for the right team, none for a text that is no ticket, as happens without masks."""
    tickets = map(parsed, completions)
    return [float(ticket is not None and ticket.team == each) for ticket, each in zip(tickets, team, strict=True)]


def parsed(text: str) -> Ticket | None:
    """The ticket of a text; None if it is none."""
    try:
        return Ticket.model_validate_json(text)
    except ValidationError:
        return None


class MaskedGRPOTrainer(GRPOTrainer):
    """`GRPOTrainer` with the probabilities of constrained rollouts."""

    grammar: sg.engine.Grammar

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        logits = model(input_ids=input_ids, attention_mask=attention_mask).logits[:, -logits_to_keep - 1 : -1]
        logits = logits.float() / self.temperature
        logps, entropies = logits.new_zeros(logits.shape[:2]), logits.new_zeros(logits.shape[:2])
        lengths = attention_mask[:, -logits_to_keep:].sum(dim=1).tolist()
        for row, length in enumerate(lengths):
            ids = input_ids[row, -logits_to_keep:][:length].tolist()
            replayed = sg.replay(self.grammar, ids)
            logps[row, :length] = replayed.logprobs(logits[row, :length])
            entropies[row, :length] = replayed.entropies(logits[row, :length]).detach()
        return logps, entropies, None


def rollouts(prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[Any]]:
    """Draws texts of the schema, and the log-probabilities with which they were drawn."""
    tokenizer, model = trainer.processing_class, trainer.model
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    masks = ConstraintLogitsProcessor(Ticket, model, tokenizer)
    with torch.no_grad():
        drawn = model.generate(
            **inputs, do_sample=True, top_k=0, max_new_tokens=trainer.max_completion_length,
            logits_processor=[masks], return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
    texts = drawn.sequences[:, inputs["input_ids"].shape[1] :]
    chosen = torch.stack(drawn.scores, dim=1).log_softmax(dim=-1).gather(2, texts.unsqueeze(2)).squeeze(2)
    ends = ((texts == tokenizer.eos_token_id).int().argmax(dim=1) + 1).tolist()  # the mask makes each text end
    return {
        "prompt_ids": [tokenizer(prompt)["input_ids"] for prompt in prompts],
        "completion_ids": [ids[:end].tolist() for ids, end in zip(texts, ends, strict=True)],
        "logprobs": [row[:end].tolist() for row, end in zip(chosen, ends, strict=True)],
    }


def train(
    loaded: sg.Model, steps: int = 20, kind: type[GRPOTrainer] = MaskedGRPOTrainer, rollout: Any = rollouts, **more: Any
) -> list[float]:
    """The mean reward of each step, between 0 and 1; `more` are options of the training."""
    tokenizer = loaded.tokenizer
    options = {
        "output_dir": "grpo", "per_device_train_batch_size": 16, "num_generations": 8, "max_completion_length": 16,
        "max_steps": steps, "learning_rate": 1e-5, "beta": 0.0, "logging_steps": 1, "use_cpu": True, "report_to": [],
        "save_strategy": "no", "seed": 0, "bf16": False, "lr_scheduler_type": "constant",
    }  # fmt: skip
    config = GRPOConfig(**{**options, **more})
    trainer = kind(
        loaded.module, rewards, config, Dataset.from_list(ROWS), processing_class=tokenizer, rollout_func=rollout
    )
    MaskedGRPOTrainer.grammar = sg.JsonSchema(Ticket).compile(sg.engine.Vocabulary.from_tokenizer(tokenizer))
    trainer.train()
    return [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]


if __name__ == "__main__":
    print([round(reward, 2) for reward in train(sg.load("smollm2"))])
