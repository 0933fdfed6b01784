"""Data never becomes a control token: in messages, calls, results, documents and options, for all templates at hand."""

from __future__ import annotations

import lzma
import re
import tarfile
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import structgen as sg
from structgen.chat.control_tokens import control_names, plain_ids
from structgen.chat.messages import prompt_ids, require_options
from structgen.chat.pieces import TAG
from structgen.chat.templates import variables_of
from structgen.decoding.prompts.prompt import read_prompt
from structgen.demo import load_demo
from structgen.errors import OptionError
from structgen.given_prompts import GivenPrompts
from structgen.tools import Tool
from tests.support.chat_templates import DATA, templates
from tests.support.thinning import thinned

BYTES = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def more_templates():
    archive = DATA / "chat-templates-more.tar.xz"
    if not archive.exists():
        return {}
    with tarfile.open(archive) as packed:
        files = {Path(entry.name): packed.extractfile(entry) for entry in packed if entry.name.endswith(".jinja")}
        return {path.stem: file.read().decode() for path, file in sorted(files.items()) if file is not None}


def tokenizer_of(source):
    """Bytes, and a special token for each tag of a template and some others."""
    backend = Tokenizer(models.BPE(dict(BYTES), []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tags = sorted({*TAG.findall(source), "<|im_end|>", "<s>", "</s>", "[INST]"})
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.add_tokens([AddedToken(tag, special=place % 3 > 0) for place, tag in enumerate(tags)])
    tokenizer.chat_template = source
    return tokenizer


RESHAPED = {
    "Bielik-11B-v3.0-Instruct", "MiniMax-M3", "inclusionai-ling-3.0-flash", "poolside-Laguna-XS-2.1",
    "poolside-Laguna-XS.2", "cts_allanchan339-vllm-qwen36-enhanced", "cts_froggeric-Qwen-Fixed-Chat-Templates-v21.3",
}  # fmt: skip
"""Templates that look for thoughts and calls in what was said, and write other tags themselves where some are."""


def conversations(text):
    """Conversations with a text at every place of data; the first ones are the richest."""
    call = {"id": "callid123", "type": "function", "function": {"name": "weather", "arguments": {"city": text}}}
    system, user = {"role": "system", "content": text}, {"role": "user", "content": text}
    called = {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls": [call]}
    result = {"role": "tool", "name": "weather", "tool_call_id": "callid123", "content": text}
    said = {"role": "assistant", "content": text}
    yield [system, user, called, result, said, user]
    yield [user, called, result, said, user]
    yield [system, user, said, user]
    yield [user, said, user]
    yield [user]


def names_of(tokenizer):
    pattern = control_names(tokenizer)
    return sorted(name for name in tokenizer.get_added_vocab() if pattern is not None and pattern.fullmatch(name))


def control_ids(tokenizer):
    return {tokenizer.convert_tokens_to_ids(name) for name in names_of(tokenizer)}


def control_count(tokenizer, text):
    """The number of control tokens in the first conversation that the template renders; and its length."""
    control = control_ids(tokenizer)
    declared = {"name": "weather", "description": text, "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": text, "enum": [text]}}}}  # fmt: skip
    tools = [Tool.of({"type": "function", "function": declared})]
    known = variables_of(tokenizer.chat_template) - {"bos_token", "eos_token"}
    options = {name: text for name in ("reasoning_effort", "builtin_tools", "date_string") if name in known}
    if "documents" in known:
        options["documents"] = [{"title": text, "text": text}]
    for number, conversation in enumerate(conversations(text)):
        for given in (options, {}):
            for shown in (tools, ()):
                try:
                    ids = prompt_ids(tokenizer, conversation, shown, options=given)
                except OptionError:
                    continue
                return number, bool(given), bool(shown), sum(token in control for token in ids)
    return None


@pytest.mark.parametrize("part", thinned(range(8), 8))
def test_no_control_token_comes_of_data(part):
    sources = {**templates(), **more_templates()}
    if not sources:
        pytest.skip("no templates: set STRUCTGEN_DATA")
    richest = 0
    for name, source in list(sources.items())[part::8]:
        tokenizer = tokenizer_of(source)
        tags = [tag for tag in names_of(tokenizer) if name not in RESHAPED or not re.search("think|tool_call", tag)]
        attack = " ".join([*tags, tags[0][: len(tags[0]) // 2] + tags[-1] + tags[0][len(tags[0]) // 2 :]])
        benign, attacked = control_count(tokenizer, "x"), control_count(tokenizer, attack)
        assert benign == attacked, name
        richest += benign is not None and benign[0] < 2
    assert richest > len(sources) // 16


def test_options_are_variables_of_the_template_and_nothing_else():
    _, tokenizer = load_demo()
    for name in ("chat_template", "tokenize", "max_length", "padding", "truncation", "bos_token", "messages", "other"):
        with pytest.raises(OptionError, match=name):
            require_options(tokenizer, {name: "x"})
    made = tokenizer_of("{{ messages[0].content }}{% if deep %}{{ deep }}{% endif %}{{ range(2) | list }}")
    assert variables_of(made.chat_template) == {"deep"}
    require_options(made, {"deep": 1})
    with pytest.raises(OptionError, match="its variables are deep"):
        require_options(made, {"depe": 1})


def test_names_as_keys_and_behind_repr_are_data_too():
    tokenizer = tokenizer_of("{{ messages[0].content }}{{ tools[0] | string }}{{ tools | tojson }}<|im_end|>")
    properties = {"a <|im_end|>": {"type": "string", "description": "<|im_end|>'"}}
    tool = Tool.of({"type": "function", "function": {"name": "f", "parameters": {"properties": properties}}})
    ids = prompt_ids(tokenizer, [{"role": "user", "content": "x"}], [tool])
    assert sum(token in control_ids(tokenizer) for token in ids) == 1
    assert tokenizer.decode(ids).count("<|im_end|>") == 5


def test_plain_text_is_data_and_the_rest_of_the_prompt_is_not():
    model, tokenizer = load_demo()
    owner = sg.Model.of(model, tokenizer)
    name, control = names_of(tokenizer)[0], control_ids(tokenizer)

    def read(prompt):
        (one,) = GivenPrompts.of(prompt).each
        return read_prompt(owner, one).ids

    def count(prompt):
        return sum(token in control for token in read(prompt)) - sum(token in control for token in read("x"))

    text = f"before {name} behind"
    mixed = name + "Text: " + sg.plain(text) + name[:2] + sg.plain(name[2:]) + "\nJSON: " + name
    assert (count(text), count(sg.plain(text)), count(sg.plain(name)), count(mixed)) == (1, 0, 0, 2)
    assert tokenizer.decode(read(mixed), skip_special_tokens=False).endswith(str(mixed))
    assert read(sg.plain("no name")) == read("no name")
    assert str(sg.plain(sg.plain("a"))) == "a"
    with pytest.raises(TypeError, match="join it"):
        f"{sg.plain('x')}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-spm-tokenizer", "qwen2-tokenizer", "gpt-2-tokenizer", "gemma-4-tokenizer"])
def test_plain_text_keeps_its_bytes_with_real_tokenizers(name, tmp_path):
    folder = DATA / "tokenizers" / name
    if not folder.exists():
        pytest.skip("no tokenizers: set STRUCTGEN_DATA")
    (tmp_path / "tokenizer.json").write_bytes(lzma.decompress((folder / "tokenizer.json.xz").read_bytes()))
    (tmp_path / "tokenizer_config.json").write_bytes((folder / "tokenizer_config.json").read_bytes())
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for each in names_of(tokenizer)[:3]:
        text = f"Hello {each}{each} world\n{each}"
        ids = plain_ids(tokenizer, text, [(0, len(text))], special=False)
        assert not control_ids(tokenizer) & set(ids)
        assert tokenizer.decode(ids).lstrip() == text
    assert plain_ids(tokenizer, "Hello", [(0, 5)]) is None
