"""Adapters for other engines and loops. Each module imports the other package; nothing of structgen imports it.

`followed_rows` follows the rows of a loop that chooses its tokens itself; `transformers` and `onnxruntime_genai` use
it. `text_grammars` compiles what requests name, for the plugins in `sglang` and `vllm`. `ray` and `ray_serve` spread
jobs and the server over machines.
"""
