from llama_cpp import Llama, LogitsProcessorList

from structgen.integrations.llama_cpp import ConstraintLogitsProcessor
from structgen.models.known import PACKAGED

llama = Llama(str(PACKAGED["smollm2"].path()), n_ctx=512, n_threads=1, verbose=False)
user = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}

# %% README.md: JSON schema mode
messages = [{"role": "user", "content": "Extract name and age as JSON: Jason is 25 years old"}]
# was: response_format={"type": "json_object", "schema": user}
masks = LogitsProcessorList([ConstraintLogitsProcessor(user, llama)])
out = llama.create_chat_completion(messages, logits_processor=masks, max_tokens=64, temperature=0)
answer = out["choices"][0]["message"]["content"]
assert '"age": 25' in answer

# %% README.md: a completion
# was: stop=["Q:", "\n"]
masks = LogitsProcessorList([ConstraintLogitsProcessor({"type": "array", "items": {"type": "string"}}, llama)])
answer = llama("Q: Name the planets in the solar system? A: ", max_tokens=48, logits_processor=masks)["choices"][0]["text"]
assert answer.startswith("[")

# %% llama_cpp/llama_grammar.py: a grammar
# was: grammar=LlamaGrammar.from_string(...)
masks = LogitsProcessorList([ConstraintLogitsProcessor({"enum": ["yes", "no"]}, llama)])
answer = llama("Is Lyon in France? Answer:", max_tokens=8, logits_processor=masks)["choices"][0]["text"]
assert answer in ('"yes"', '"no"')
