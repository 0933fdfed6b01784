"""A server with OpenAI's interface and the demo model, and the `openai` package as its client."""

# Needs: openai
# Needs: uvicorn
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import openai
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int
    city: str


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]

command = [Path(sys.executable).with_name("structgen"), "serve", "demo", "--port", str(port)]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    while server.poll() is None:  # until the model is loaded
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
            break
        except OSError:
            time.sleep(0.2)

    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    ask = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon."
    messages = [{"role": "user", "content": ask}]
    done = client.chat.completions.parse(model="demo", messages=messages, response_format=Person, temperature=0)
    print(repr(done.choices[0].message.parsed))

    # Options that OpenAI's interface lacks go into the field `structgen`. Without the ban the answer is Tom Berg.
    ask = "Extract the person: name, age, city.\nText: Tom Berg spoke with Amara Castillo, 64, from Norwich."
    done = client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": ask}],
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": Person.model_json_schema()}},
        extra_body={"structgen": {"banned": ["Tom Berg"]}},
    )
    print(done.choices[0].message.content)
finally:
    server.terminate()
    server.wait()

# Output:
# Person(name='Ada Moreau', age=36, city='Lyon')
# {"name": "Amara Castillo", "age": 64, "city": "Norwich"}
