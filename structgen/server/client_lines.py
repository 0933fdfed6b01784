"""What to write into a client's configuration, so that it asks this server."""

from __future__ import annotations

from string import Template

CLIENTS = {
    "codex": """\
# ~/.codex/config.toml
model = "$name"
model_provider = "structgen"

[model_providers.structgen]
name = "structgen"
base_url = "$url/v1"
wire_api = "responses"
$env""",
    "claude": """\
# in the shell, before `claude`
export ANTHROPIC_BASE_URL=$url
export ANTHROPIC_API_KEY=$key
export ANTHROPIC_MODEL=$name
export ANTHROPIC_SMALL_FAST_MODEL=$name
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
""",
    "opencode": """\
// opencode.json
{
  "provider": {
    "structgen": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": "$url/v1", "apiKey": "$key"},
      "models": {"$name": {"name": "$name"}}
    }
  },
  "model": "structgen/$name"
}
""",
    "qwen": """\
# in the shell, before `qwen --auth-type openai`
export OPENAI_BASE_URL=$url/v1
export OPENAI_API_KEY=$key
export OPENAI_MODEL=$name
""",
    "crush": """\
// crush.json
{
  "providers": {
    "structgen": {
      "type": "openai",
      "base_url": "$url/v1",
      "api_key": "$key",
      "models": [{"id": "$name", "name": "$name", "context_window": 32768, "default_max_tokens": 4096}]
    }
  }
}
""",
    "openai": """\
# in the shell, before a program with an OpenAI SDK; the model is "$name"
export OPENAI_BASE_URL=$url/v1
export OPENAI_API_KEY=$key
""",
}
"""A client -> its lines."""


def client_lines(client: str, url: str, name: str, *, keyed: bool = False) -> str:
    """Returns the lines of a client's configuration.

    Args:
        client: one of `CLIENTS`.
        url: the server's address, without a path.
        name: of the model.
        keyed: does the server ask for a key?
    """
    env = 'env_key = "STRUCTGEN_API_KEY"\n' if keyed else ""  # codex reads no key, but the name of its variable
    return Template(CLIENTS[client]).substitute(url=url, name=name, key="YOUR_KEY" if keyed else "none", env=env)
