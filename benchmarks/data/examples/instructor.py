from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Literal, Union

import instructor
from instructor import Mode
from openai import OpenAI
from pydantic import AfterValidator, BaseModel, Field, field_validator

import structgen as sg

model = sg.load("demo")

# %% docs/index.md: a person
class ExtractUser(BaseModel):
    name: str
    age: int


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "John Doe is 30 years old."}]
answer = client.chat.completions.create(model="gpt-4o-mini", response_model=ExtractUser, messages=asked)

# %% docs/index.md: a person by a tool call
class ExtractUser(BaseModel):
    name: str
    age: int


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)))
asked = [{"role": "user", "content": "John Doe is 30 years old."}]
answer = client.chat.completions.create(model="gpt-4o-mini", response_model=ExtractUser, messages=asked)

# %% docs/examples/classification.md: thought first, then a label
class Spam(BaseModel):
    """Spam or not."""

    chain_of_thought: str = Field(description="Why?", max_length=60)
    label: Literal["SPAM", "NOT_SPAM"]


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "Classify: Hey, buy my NFT!"}]
answer = client.chat.completions.create(model="gpt-4o-mini", response_model=Spam, messages=asked)

# %% docs/concepts/enums.md: an enum
class Role(Enum):
    PRINCIPAL = "PRINCIPAL"
    TEACHER = "TEACHER"
    OTHER = "OTHER"


class UserDetail(BaseModel):
    age: int
    name: str
    role: Role


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "Ann, 50, is a teacher."}]
answer = client.chat.completions.create(model="gpt-4o-mini", response_model=UserDetail, messages=asked)

# %% docs/concepts/lists.md: several users
class User(BaseModel):
    name: str
    age: int


# was: instructor.from_openai(OpenAI(), mode=instructor.Mode.JSON)
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "Jason is 10 and John is 30."}]
answer = client.chat.completions.create(
    model="gpt-4o-mini", response_model=Iterable[User], messages=asked, temperature=0.1, max_tokens=200
)
answer = list(answer)

# %% docs/concepts/partial.md: a value as it grows
class User(BaseModel):
    name: str
    age: int


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "John Doe is 30 years old."}]
answer = [*client.chat.completions.create_partial(model="gpt-4o-mini", response_model=User, messages=asked)][-1]
assert answer.age is not None

# %% docs/concepts/unions.md: one of two kinds of query
class UserQuery(BaseModel):
    type: Literal["user"]
    username: str


class SystemQuery(BaseModel):
    type: Literal["system"]
    command: str


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "Parse: user lookup jsmith"}]
answer = client.chat.completions.create(model="gpt-4o-mini", response_model=Union[UserQuery, SystemQuery], messages=asked)

# %% docs/concepts/validation.md: a validator, asked again
class User(BaseModel):
    name: str = Field(min_length=2)
    age: int = Field(ge=0, le=150)

    @field_validator("name")
    @classmethod
    def not_blank(cls, name):
        if not name.strip():
            raise ValueError("a name")
        return name


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "John Doe is 30 years old."}]
answer = client.chat.completions.create(model="gpt-4o-mini", response_model=User, messages=asked, max_retries=2)

# %% docs/concepts/reask_validation.md: names in capitals, asked again
# differs: the rule runs in instructor, and asking again does not help a small model; a `pattern=` is enforced
def capitals(name):
    if name.upper() != name:
        raise ValueError("write the name in capitals")
    return name


class User(BaseModel):
    name: Annotated[str, AfterValidator(capitals)]
    age: int


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "Jason is 12 years old."}]
answer = client.chat.completions.create(model="gpt-4o-mini", response_model=User, messages=asked, max_retries=2)

# %% docs/concepts/maybe.md: perhaps a person
class User(BaseModel):
    name: str
    age: int


# was: instructor.from_openai(OpenAI())
client = instructor.from_openai(OpenAI(api_key="-", http_client=sg.transport(model)), mode=Mode.JSON_SCHEMA)
asked = [{"role": "user", "content": "Unknown user"}]
answer = client.chat.completions.create(model="gpt-4o-mini", response_model=instructor.Maybe(User), messages=asked)
