"""`classify`: a label for each text, with the exact probability of every label, calibrated if asked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum, EnumMeta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, get_args, get_origin, overload

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import TypeVar

from structgen.arguments import flag_of, is_listed, named_arguments, require, require_flag
from structgen.decoding.label_scores import label_scores
from structgen.decoding.prompts.prompt import Prompt as Read
from structgen.decoding.prompts.prompt import read_prompt
from structgen.errors import OptionError
from structgen.given_prompts import GivenPrompts, plain
from structgen.models.model import Model, as_model

if TYPE_CHECKING:
    from typing_extensions import TypeForm, Unpack

Floats = NDArray[np.float64]
MOST_LABELS = 1_000
BINS = 10
"""The intervals of probability by which `calibration_error` groups texts."""
_YES_NO = "yes", "no"


L = TypeVar("L", default=Any)  # type checkers that do not know `TypeForm` give Any
Prompt = str | Callable[..., Any] | None


class ClassifyOptions(TypedDict, total=False):
    """The options of `classify`, which explains them."""

    prompt: Prompt
    multi: bool | None
    calibration: Calibration | None
    tokenizer: Any


@dataclass(frozen=True, slots=True)
class Classification(Generic[L]):
    """What a text is.

    Attributes:
        label: the most likely label.
        probability: of `label`, among the labels.
        distribution: the probability of each label, most likely first. They add up to 1, except with `multi`.
        mass: the probability that the model's answer is one of the labels at all, before it is divided among them.
        labels: with `multi`, the labels with a probability of at least one half, most likely first; else `label` alone.
        error: why a text of a list has no label (`label` is None then, and `probability` 0): it is empty, no text, or
            longer than the model's context; empty if it has one.
    """

    label: L
    probability: float
    distribution: Mapping[L, float]
    mass: float
    labels: tuple[L, ...]
    error: str = ""


@dataclass(frozen=True)
class Calibration:
    """How a model's probabilities of some labels become true ones: see `calibrate`.

    Attributes:
        labels: their texts.
        temperature: by which the logarithms of probabilities are divided. Above 1: the model was too sure.
        priors: what is added for each label. Above 0: the model names the label too rarely.
        multi: has each label a probability by itself?
    """

    labels: tuple[str, ...]
    temperature: float
    priors: tuple[float, ...]
    multi: bool = False

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it to a file, as JSON."""
        Path(path).write_text(json.dumps(asdict(self), ensure_ascii=False, indent=2), encoding="utf-8")

    @staticmethod
    def load(path: str | PathLike[str]) -> Calibration:
        """Reads what `save` has written.

        Raises:
            OptionError: the file has something else.
        """
        try:
            given = json.loads(Path(path).read_text(encoding="utf-8"))
            return Calibration(
                tuple(given["labels"]), float(given["temperature"]), tuple(given["priors"]), bool(given["multi"])
            )
        except (ValueError, KeyError, TypeError) as error:
            raise OptionError(f"{path}: expected what Calibration.save writes") from error


@overload
def classify(
    model: Any, texts: str, labels: Sequence[L] | Mapping[L, str], **options: Unpack[ClassifyOptions]
) -> Classification[L]: ...
@overload
def classify(model: Any, texts: str, labels: TypeForm[L], **options: Unpack[ClassifyOptions]) -> Classification[L]: ...
@overload
def classify(
    model: Any, texts: list[str], labels: Sequence[L] | Mapping[L, str], **options: Unpack[ClassifyOptions]
) -> list[Classification[L]]: ...
@overload
def classify(
    model: Any, texts: list[str], labels: TypeForm[L], **options: Unpack[ClassifyOptions]
) -> list[Classification[L]]: ...
@named_arguments
def classify(
    model: Any,
    texts: str | Sequence[str],
    labels: Any,
    *,
    prompt: Prompt = None,
    multi: bool | None = False,
    calibration: Calibration | None = None,
    tokenizer: Any = None,
) -> Any:
    """The label of each text, with the probability of every label.

        classify(model, "It broke at once.", ["positive", "negative", "neutral"]).distribution

    The probabilities are the model's own, exact for all labels: nothing is drawn, and the labels that the model did not
    choose are read, too. Of a label's spellings in tokens only the tokenizer's own counts.

    Args:
        model: as for `generate`, but not a `Remote`.
        texts: a text, or a list or column (of pandas, polars, Arrow) of them.
        labels: a list of texts, a dict of texts with a description of each, an `Enum` or a `Literal`; 1,000 at most.
        prompt: a text with `{text}` in it, sent as a message of the user if the model has a chat template; or a
            function from a text to a prompt, as `generate` takes it. The label comes right after it. None writes one
            with the labels.
        multi: a text may have several labels: the model is asked about each, and says yes or no. The prompt is a
            function of a text and a label then, or None.
        calibration: what `calibrate` gave for these labels.
        tokenizer: of a bare transformers model.

    Returns:
        A `Classification`; a list of them for a list of texts.

    Raises:
        OptionError: labels or a prompt cannot work; the calibration is for other labels; or the text is empty or too
            long. One of a list that is has an `error`, and the others their labels.
    """
    classifier = Classifier(as_model(model, tokenizer), labels, prompt, calibration, multi=flag_of("multi", multi))
    listed = [texts] if isinstance(texts, str) else _listed(texts)
    found = classifier.results(listed, "texts" if isinstance(texts, str) else "texts[{}]")
    errors = [each for each in found if isinstance(each, OptionError)]
    if errors and len(errors) == len(found):  # none can be read
        raise errors[-1]
    results = [replace(_NOTHING, error=str(each)) if isinstance(each, OptionError) else each for each in found]
    return results[0] if isinstance(texts, str) else results


_NOTHING: Classification[Any] = Classification(None, 0.0, {}, 0.0, ())


class Classifier:
    """Labels texts, a list at a time. For the arguments see `classify`.

    Attributes:
        values: the text of each label, with the value that stands for it.

    Raises:
        OptionError: labels or a prompt cannot work, or the calibration is for other labels.
    """

    def __init__(
        self, owner: Model, labels: Any, prompt: Prompt, calibration: Calibration | None, *, multi: bool
    ) -> None:
        self._owner, self._prompt, self._calibration, self._multi = owner, prompt, calibration, multi
        self.values = label_values(labels)
        if calibration is not None:
            same = calibration.labels == tuple(self.values) and calibration.multi == multi
            require(same, "calibration", calibration, f"a calibration for the labels {', '.join(self.values)}")
        self._make = _prompts(owner, self.values, labels, prompt, multi=multi)

    def results(self, texts: Sequence[Any], name: str) -> list[Classification[Any] | OptionError]:
        """What each text is, or why that cannot be said.

        Args:
            name: of a text in errors, with `{}` for its place.
        """
        results = dict[int, Classification[Any] | OptionError]()
        prompts = dict[int, list[Read]]()
        for place, text in enumerate(texts):
            try:
                is_text = isinstance(text, str) and bool(text.strip())
                require(is_text, name.format(place), text, "a text that is not empty")
                prompts[place] = _read(self._owner, text, self.values, self._make, multi=self._multi)
            except OptionError as error:
                results[place] = error
        scores = _scores(self._owner, list(prompts.values()), self.values, self._prompt, multi=self._multi)
        for place, row in zip(prompts, scores, strict=True):
            results[place] = _result(row, list(self.values.values()), self._calibration, multi=self._multi)
        return [results[place] for place in range(len(texts))]


def _listed(texts: Any) -> list[Any]:
    """The texts of a list or column."""
    several = isinstance(texts, Iterable) and not isinstance(texts, (Mapping, bytes)) and not hasattr(texts, "columns")
    require(several, "texts", texts, "a text or a list of texts (prompt= makes messages of each)")
    return list(texts.to_pylist() if hasattr(texts, "to_pylist") else texts)


@named_arguments
def calibrate(
    model: Any,
    examples: Sequence[tuple[str, Any]] | Sequence[str],
    labels: Any,
    *,
    prompt: str | Callable[[str], Any] | None = None,
    multi: bool = False,
    tokenizer: Any = None,
) -> Calibration:
    """A temperature and a prior for each label that make a model's probabilities true (Guo et al., 2017).

    Args:
        examples: pairs of a text and its label; with `multi`, and a list of its labels. Or texts without content, such
            as "N/A": then only priors are found, by which no label is likelier than others for these (Zhao et al.,
            2021).
        model, labels, prompt, multi, tokenizer: as for `classify`.

    Raises:
        OptionError: there are no examples, or an example has an unknown label.
    """
    owner, values = as_model(model, tokenizer), label_values(labels)
    given = isinstance(examples, (list, tuple)) and bool(examples)
    require(given, "examples", examples, "a list of pairs of a text and its label, or of texts without content")
    texts = [each if isinstance(each, str) else each[0] for each in examples]
    make = _prompts(owner, values, labels, prompt, multi=multi)
    require(is_listed(texts, str), "examples", examples, "pairs of a text and its label, or texts")
    prompts = [_read(owner, text, values, make, multi=multi) for text in texts]
    scores = _scores(owner, prompts, values, prompt, multi=multi)
    logits = _logits(scores, multi=multi)
    if is_listed(examples, str):
        mean = np.log(np.maximum(_probabilities(logits, 1.0, 0.0, multi=multi).mean(0), 1e-12))
        priors = -_logit(np.exp(mean)) if multi else mean.mean() - mean
        return Calibration(tuple(values), 1.0, tuple(priors.tolist()), multi)
    pairs: Any = examples
    wanted = [set(right) if multi else {right} for _, right in pairs]
    known = list(values.values())
    for own in wanted:
        require(own <= set(known), "examples", own - set(known), f"labels among {', '.join(values)}")
    truth = np.array([[label in own for label in known] for own in wanted])
    return Calibration(tuple(values), *_fitted(logits, truth, multi=multi), multi)


@named_arguments
def calibration_error(
    results: Sequence[Classification[Any]], right: Sequence[Any], *, plot: str | PathLike[str] | None = None
) -> float:
    """How far probabilities are from the share that is right: the expected calibration error, 0 to 1.

    Args:
        results: of `classify`, without `multi`.
        right: the right label of each.
        plot: a file for the reliability diagram: an SVG, which every browser shows.
    """
    require(len(results) == len(right) > 0, "right", right, "the right label of each result")
    sure = np.array([each.probability for each in results])
    hit = np.array([each.label == label for each, label in zip(results, right, strict=True)])
    groups = np.minimum((sure * BINS).astype(int), BINS - 1)
    error = float(sum(abs((sure - hit)[groups == group].sum()) for group in range(BINS)) / len(sure))
    if plot is not None:
        bins = [groups == group for group in np.unique(groups)]
        points = [(float(sure[each].mean()), float(hit[each].mean()), int(each.sum())) for each in bins]
        Path(plot).write_text(_reliability(points, error), encoding="utf-8")
    return error


def _reliability(points: Sequence[tuple[float, float, int]], error: float) -> str:
    """A reliability diagram as SVG.

    Args:
        points: of each interval, the mean probability, the share that is right, and how many texts it has.
    """
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-46 -34 280 290" font-family="sans-serif" font-size="12">',
        '<rect x="-46" y="-34" width="280" height="290" fill="white"/>',
        f'<text y="-16">{sum(count for _, _, count in points)} texts, calibration error {error:.2f}</text>',
        '<path d="M0 200L200 0" stroke="#999" stroke-dasharray="4 4"/>',
        '<text x="100" y="238" text-anchor="middle">probability; up: share that is right</text>',
    ]
    for share in (0, 50, 100):
        parts.append(f'<path d="M0 {200 - 2 * share}H200" stroke="#e4e4e4"/>')
        parts.append(f'<text x="-6" y="{204 - 2 * share}" text-anchor="end">{share}%</text>')
        parts.append(f'<text x="{2 * share}" y="218" text-anchor="middle">{share}%</text>')
    for told, hit, count in points:
        size = 3 + min(math.sqrt(count) / 2, 9)
        parts.append(
            f'<circle cx="{200 * told:.1f}" cy="{200 * (1 - hit):.1f}" r="{size:.1f}" fill="#0d9488">'
            f"<title>{count} texts: told {told:.0%}, right {hit:.0%}</title></circle>"
        )
    return "\n".join([*parts, "</svg>", ""])


def label_values(labels: Any) -> dict[str, Any]:
    """The text of each label, with the value that stands for it."""
    if isinstance(labels, EnumMeta):
        members: list[Enum] = list(labels)
        values: dict[str, Any] = {str(member.value): member for member in members}
    else:
        listed = get_args(labels) if get_origin(labels) is Literal else labels
        require(isinstance(listed, (list, tuple, Mapping)), "labels", labels, "a list, a dict, an Enum or a Literal")
        values = {str(label): label for label in listed}
        require(len(values) == len(listed), "labels", labels, "labels that differ")
    require(2 <= len(values) <= MOST_LABELS and "" not in values, "labels", labels, f"2 to {MOST_LABELS} texts")
    return values


def _read(
    owner: Model, text: str, values: Mapping[str, Any], make: Callable[[str, str], Any], *, multi: bool
) -> list[Read]:
    """The prompt of a text; with `multi`, one for each label."""
    given = [GivenPrompts.of(make(text, name)).each[0] for name in (values if multi else [""])]
    return [read_prompt(owner, each, thinks=False) for each in given]


def _scores(
    owner: Model, texts: Sequence[Sequence[Read]], values: Mapping[str, Any], prompt: Any, *, multi: bool
) -> Floats:
    """float[texts, labels]: the logarithm of the model's probability of each; of yes and no with `multi`, [., ., 2]."""
    require_flag("multi", multi)
    blank = " " if prompt is None and not _is_chat(owner) else ""
    prompts = [each for prompts in texts for each in prompts]
    scores = label_scores(owner, prompts, [blank + each for each in (_YES_NO if multi else values)])
    return scores.reshape(len(texts), len(values), 2) if multi else scores


def _is_chat(owner: Model) -> bool:
    return getattr(owner.tokenizer, "chat_template", None) is not None


def _prompts(
    owner: Model, values: Mapping[str, Any], labels: Any, prompt: Any, *, multi: bool
) -> Callable[[str, str], Any]:
    """Makes the prompt of a text; with `multi`, of a text and a label."""
    if callable(prompt):
        return prompt if multi else lambda text, _: prompt(text)
    template = isinstance(prompt, str) and "{text}" in prompt and not multi
    require(prompt is None or template, "prompt", prompt, "a text with {text} in it, or a function")
    told = [f"- {name}: {labels[value]}" if isinstance(labels, Mapping) else name for name, value in values.items()]
    listed = "".join(f"\n{each}" for each in told) if isinstance(labels, Mapping) else f" {', '.join(told)}"

    def made(text: str, name: str) -> Any:
        if template:
            before, _, behind = prompt.partition("{text}")
            asked = before + plain(text) + behind
        elif multi:
            about = f" ({labels[values[name]]})" if isinstance(labels, Mapping) else ""
            asked = "Text: " + plain(text) + f'\n\nDoes the label "{name}"{about} fit this text? Answer yes or no.'
        else:
            asked = f"Label the text with one of:{listed}\n\nText: " + plain(text) + "\n\nAnswer with the label alone."
        if _is_chat(owner):
            return [{"role": "user", "content": str(asked)}]
        return asked if template else asked + "\nAnswer:"

    return made


def _result(scores: Floats, values: list[Any], calibration: Calibration | None, *, multi: bool) -> Classification[Any]:
    """The result of one text, from its scores."""
    temperature, priors = (1.0, 0.0) if calibration is None else (calibration.temperature, np.array(calibration.priors))
    chances = _probabilities(_logits(scores[None], multi=multi), temperature, priors, multi=multi)[0]
    order = np.argsort(-chances, kind="stable").tolist()
    distribution = {values[place]: float(chances[place]) for place in order}
    masses = np.exp(scores).sum(-1)
    best = values[order[0]]
    fitting = tuple(label for label, chance in distribution.items() if chance >= 0.5)
    mass = float(masses.mean() if multi else masses)
    return Classification(best, distribution[best], distribution, min(mass, 1.0), fitting if multi else (best,))


def _logits(scores: Floats, *, multi: bool) -> Floats:
    """float[texts, labels]: of which the probabilities are the softmax, or with `multi` the logistic function."""
    return scores[..., 0] - scores[..., 1] if multi else scores


def _probabilities(logits: Floats, temperature: float, priors: Any, *, multi: bool) -> Floats:
    changed = logits / temperature + priors
    if multi:
        result: Floats = np.exp(-np.logaddexp(0, -changed))
        return result
    weights: Floats = np.exp(changed - changed.max(-1, keepdims=True))
    shares: Floats = weights / weights.sum(-1, keepdims=True)
    return shares


def _logit(chances: Floats) -> Floats:
    logits: Floats = np.log(chances) - np.log1p(-np.minimum(chances, 1 - 1e-12))
    return logits


def _fitted(logits: Floats, truth: NDArray[np.bool_], *, multi: bool) -> tuple[float, tuple[float, ...]]:
    """The temperature and the priors under which the labels are most likely; without examples they would be 1 and 0."""
    given, right = torch.tensor(logits), torch.tensor(truth, dtype=torch.float64)
    unknown = torch.zeros(1 + logits.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer: Any = torch.optim.LBFGS([unknown], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimizer.zero_grad()
        changed = given / torch.exp(unknown[0]) + unknown[1:]
        if multi:
            misses = torch.nn.functional.binary_cross_entropy_with_logits(changed, right, reduction="sum")
        else:
            misses = -(torch.log_softmax(changed, -1) * right).sum()
        total: Any = misses + (unknown**2).sum() / 2
        total.backward()
        return total

    optimizer.step(loss)
    found = unknown.detach().tolist()
    return math.exp(found[0]), tuple(found[1:])
