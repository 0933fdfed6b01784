"""What all tests share: the folder of test data, one thread per process, repeatable hypothesis runs."""

from __future__ import annotations

import lzma
import os
import shutil
from pathlib import Path

# Before anything imports numpy or torch: test workers share the cores, and more threads only fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run: a failure in CI can be repeated, and a passing change stays passing.
settings.register_profile(
    "structgen",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("structgen")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder named by STRUCTGEN_DATA, by default `../shared/data`; skips where it is absent."""
    folder = Path(os.environ.get("STRUCTGEN_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no test data at {folder}: set STRUCTGEN_DATA")
    return folder


@pytest.fixture
def small_bpe():
    """A byte-level BPE trained here, as a transformers tokenizer with `</s>` as its end."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["</s>"], initial_alphabet=alphabet)
    cities = ['{"name": "Paris", "population": 2}', '{"name": "Rome", "population": 3}']
    tokenizer.train_from_iterator([*cities, "the name of the city and its population"] * 9, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


@pytest.fixture(scope="session")
def llama(data_folder: Path, tmp_path_factory: pytest.TempPathFactory):
    """Llama 3's tokenizer and its vocabulary."""
    from transformers import PreTrainedTokenizerFast

    from structgen.vocabulary import Vocabulary

    folder = tmp_path_factory.mktemp("llama3")
    for file in (data_folder / "llama3-tokenizer").iterdir():
        if file.suffix == ".xz":
            (folder / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
        else:
            shutil.copy(file, folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer, Vocabulary.from_tokenizer(tokenizer)
