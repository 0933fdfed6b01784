"""structgen's loop inside `generate` of transformers, as its `custom_generate=`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.generation.utils import GenerateDecoderOnlyOutput

from structgen.api import generate
from structgen.decoding.call_options import LIMITS
from structgen.decoding.cuts import Cuts
from structgen.decoding.generation import Generation
from structgen.decoding.prompts.prompt import IDS, OURS
from structgen.decoding.request import raise_first_error
from structgen.errors import OptionError, RunError
from structgen.models.model import Model
from structgen.options import Beams, Limits, Sampling
from structgen.vocabulary.table import as_ids

OUR_TEMPERATURE = {"TemperatureLogitsWarper", "InfNanRemoveLogitsProcessor"}
"""Processors for options that the loop has itself, or that hide an error."""
NOT_READ = {*IDS, *OURS}
"""Arguments of the forward pass that are no part of a prompt."""


def constrained_generate(schema: Any, tokenizer: Any, *, limits: Limits = LIMITS, **options: Any) -> Callable[..., Any]:
    """Returns what `custom_generate=` of a transformers model takes: `generate` then runs structgen's loop.

    The loop takes tokens back, closes values in time for `max_new_tokens` and feeds forced text. It follows these
    arguments of the call and of `generation_config`: the length, `do_sample` with all options that are logits
    processors, `logits_processor=`, beams with their penalty, `num_return_sequences` and end tokens; and torch's seed.

    Args:
        schema: as for `structgen.generate`; a list gives each prompt its own.
        tokenizer: the tokenizer of the model.
        limits: the limits of each row; `max_new_tokens` is that of the call.
        options: further options of `structgen.generate` (`banned`, `guards`, `canonical`, `whitespace`, `order`, ...).

    Returns:
        For `generate`: int64[rows, tokens], prompts and texts, padded on the right; with `return_dict_in_generate=True`
        a `ConstrainedOutput`.
    """

    def decode(
        model: PreTrainedModel,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        inputs_tensor: Tensor | None = None,
        **inputs: Any,
    ) -> Tensor | ConstrainedOutput:
        owner, config = Model.of(model, tokenizer), generation_config
        _require_possible(owner, stopping_criteria, config, inputs)
        beams, sequences = config.num_beams or 1, config.num_return_sequences or 1
        copies = max(beams, sequences)  # `generate` has repeated each prompt in that many rows
        prompts = _prompts(model, input_ids, inputs_tensor, inputs, copies)
        schemas = schema if isinstance(schema, list) else [schema] * len(prompts)
        if beams == 1:
            prompts, schemas = ([one for one in each for _ in range(sequences)] for each in (prompts, schemas))
        results = generate(
            owner,
            prompts,
            schema=schemas,
            sampling=_sampling(config, logits_processor, len(prompts)),
            limits=replace(limits, max_new_tokens=config.max_length - input_ids.shape[1]),
            beams=Beams(beams, config.length_penalty, config.early_stopping) if beams > 1 else 1,
            details=True,
            **options,
        )
        raise_first_error([result.error for result in results])
        if beams > 1:
            results = [beam for result in results for beam in _best(result, sequences)]
        ends = [id_ for id_ in [config.pad_token_id, *owner.vocabulary.end_ids] if id_ is not None]
        given = input_ids[::copies].repeat_interleave(sequences, dim=0)
        output = _sequences(given, [result.token_ids for result in results], ends[0])
        if config.return_dict_in_generate:
            return ConstrainedOutput(sequences=output, generations=tuple(results))  # type: ignore[arg-type]
        cuts = Cuts(len(results), many=True, through="transformers")
        for row, result in enumerate(results):
            cuts.note(row, result)
        return output

    return decode


@dataclass
class ConstrainedOutput(GenerateDecoderOnlyOutput):
    """The result of `generate` with `return_dict_in_generate=True` and `constrained_generate`.

    Attributes:
        sequences: int64[rows, tokens], prompts and texts.
        generations: the `structgen.Generation` of each row, with its value.
    """

    generations: tuple[Generation[Any], ...] | None = None


def _require_possible(owner: Model, stopping: Any, config: Any, inputs: Mapping[str, Any]) -> None:
    """Refuses options that the loop does not have."""
    for criterion in stopping:
        if not isinstance(criterion, (MaxLengthCriteria, EosTokenCriteria)):
            why = "a constraint itself defines where its text ends; leave out this stopping criterion"
            raise OptionError(f"{type(criterion).__name__}: {why}")
    asked = [name for name in ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
             if getattr(config, name, None)]  # fmt: skip
    if asked:
        raise OptionError(f"{asked[0]}=True: constrained_generate has none; its generations have probabilities")
    ends = {int(end) for end in as_ids(config.eos_token_id, "eos_token_id")} - set(owner.vocabulary.end_ids)
    if ends:
        raise OptionError(f"eos_token_id={min(ends)}: set it in model.generation_config, where every reader finds it")
    for name, value in inputs.items():
        if isinstance(value, Cache) and value.get_seq_length():
            raise OptionError(f"{name}: the loop has a cache of its own; give the whole prompt")


def _sampling(config: Any, processors: Sequence[Any], rows: int) -> Sampling | list[Sampling]:
    """Returns the sampling of the rows, with transformers' own logits processors."""
    fit = [p for p in processors if type(p).__name__ not in OUR_TEMPERATURE]
    if not config.do_sample:
        return Sampling(processors=tuple(fit))
    seed = int(torch.randint(2**62, (1,)))
    temperature = 1.0 if config.temperature is None else config.temperature
    return Sampling(temperature=temperature, processors=tuple(fit), seed=seed).several(rows)


def _best(result: Generation[Any], count: int) -> Sequence[Generation[Any]]:
    """Returns the best texts of a beam search."""
    if len(result.beams) < count:
        raise RunError(f"num_return_sequences={count}: the search found {len(result.beams)} texts, there are no more")
    return result.beams[:count]


def _prompts(
    model: PreTrainedModel, input_ids: Tensor, source: Tensor | None, inputs: Mapping[str, Any], copies: int
) -> list[Any]:
    """Returns one prompt for each that `generate` was given, without padding.

    Raises:
        OptionError: images or sounds for several prompts, which do not say to which they belong.
    """
    more = {name: given for name, given in inputs.items() if isinstance(given, Tensor) and name not in NOT_READ}
    mask = inputs.get("attention_mask")
    if more and len(input_ids) > copies:
        raise OptionError(f"{min(more)}: prompts with inputs besides input_ids make no batch; generate each by itself")
    prompts: list[Any] = []
    for row in range(0, len(input_ids), copies):
        own = None if mask is None else mask[row].bool()
        if model.config.is_encoder_decoder and source is not None:
            read, name = source[row // copies], model.main_input_name
            hidden = own is not None and name == "input_ids"
            prompts.append({name: (read[own] if hidden else read)[None], "decoder_input_ids": input_ids[row][None]})
            continue
        ids = input_ids[row] if own is None else input_ids[row][own]
        prompts.append({"input_ids": ids[None], **more} if more else ids.tolist())
    return prompts


def _sequences(prompts: Tensor, texts: Sequence[Sequence[int]], padding: int) -> Tensor:
    """Returns prompts with their texts after them: int64[rows, tokens]."""
    longest = max(map(len, texts), default=0)
    tokens = [[*text, *[padding] * (longest - len(text))] for text in texts]
    return torch.cat([prompts, prompts.new_tensor(tokens).reshape(len(texts), longest)], dim=1)
