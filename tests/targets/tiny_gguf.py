"""A tiny random Gemma 3 as a GGUF file, and packages that carry it in chunks, for tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from diffdraft import files
from diffdraft.config import Chunk, PackagedTarget

SIZES = {
    "embedding_length": 32,
    "block_count": 7,  # six slide, the sixth sees everything
    "feed_forward_length": 64,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 16,
    "attention.value_length": 16,
    "attention.sliding_window": 8,
    "context_length": 512,
}
REALS = {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6}
WINDOW = SIZES["attention.sliding_window"]
CONTROL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
USER_DEFINED = ["[tool]", "\n", "\n\n", "  ", "   ", "    ", "\t"]
WORDS = ["▁t", "he", "▁the", "in", "▁in", "▁b", "eg", "inn", "▁beg", "▁beginn", "ing", "nn", "é"]
LETTERS = ["▁", *"etaoinshrdlucmfwypvbgkqjxz.,;!?'<>0123456789ABCDEFx[]"]
N_CHUNKS = 3
# The readout is the embedding: a wide one would say the last token again, and hide errors by one.
EMBEDDING_STD = 0.05

Tensors = dict[str, np.ndarray]


def pieces() -> list[tuple[str, float, int]]:
    """Piece, score and kind of every id: controls, user-defined, bytes, then words by rank."""
    controls = [(piece, -1000.0, 3) for piece in CONTROL]
    user = [(piece, -1000.0, 4) for piece in USER_DEFINED]
    raw = [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    normal = [*WORDS, *dict.fromkeys(LETTERS)]
    return [*controls, *user, *raw, *((piece, -float(i), 1) for i, piece in enumerate(normal))]


def random_tensors(seed: int = 4) -> Tensors:
    """Tensors by their names in GGUF; wide enough that argmaxes differ between contexts."""
    rng = np.random.default_rng(seed)
    D, F = SIZES["embedding_length"], SIZES["feed_forward_length"]
    Q, K = 4 * 16, 2 * 16
    matrices = {
        **{"attn_q": (Q, D), "attn_k": (K, D), "attn_v": (K, D), "attn_output": (D, Q)},
        **{"ffn_gate": (F, D), "ffn_up": (F, D), "ffn_down": (D, F)},
    }
    norms = {"attn_norm": D, "attn_q_norm": 16, "attn_k_norm": 16, "post_attention_norm": D}
    norms |= {"ffn_norm": D, "post_ffw_norm": D}
    tensors = {
        "token_embd.weight": rng.normal(0, EMBEDDING_STD, (len(pieces()), D)),
        "output_norm.weight": rng.normal(1, 0.3, D),
    }
    for layer in range(SIZES["block_count"]):
        for name, shape in matrices.items():
            tensors[f"blk.{layer}.{name}.weight"] = rng.normal(0, 0.5, shape)
        for name, size in norms.items():
            tensors[f"blk.{layer}.{name}.weight"] = rng.normal(1, 0.3, size)
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


def metadata() -> dict[str, Any]:
    """Metadata by key; lists and Python scalars."""
    columns = [list(column) for column in zip(*pieces(), strict=True)]
    tokens = {"tokens": columns[0], "scores": columns[1], "token_type": columns[2]}
    flags = {"add_bos_token": True, "add_eos_token": False, "add_space_prefix": False}
    ids = {"padding": 0, "eos": 1, "bos": 2, "unknown": 3}
    named = {f"{name}_token_id": id_ for name, id_ in ids.items()}
    tokenizer = {"model": "llama", **tokens, **flags, **named}
    return {
        **{f"gemma3.{key}": value for key, value in (SIZES | REALS).items()},
        **{f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()},
    }


def write_gguf(
    path: Path,
    tensors: Tensors | None = None,
    values: dict[str, Any] | None = None,
    architecture: str = "gemma3",
) -> None:
    """Write the file: matrices in Q8_0, norms in float32, as a real one has them."""
    writer = gguf.GGUFWriter(path, architecture)
    add: dict[type, Callable[[str, Any], None]] = {
        **{bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32},
        **{str: writer.add_string, list: writer.add_array},
    }
    for key, value in (metadata() if values is None else values).items():
        add[type(value)](key, value)
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, tensor in (random_tensors() if tensors is None else tensors).items():
        if tensor.ndim == 1:
            writer.add_tensor(name, tensor)
        else:
            writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def dequantised(path: Path) -> Tensors:
    """Every tensor of a file by its name in GGUF, read without the code under test."""
    reader = gguf.GGUFReader(path)
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}


def install(site: Path, whole: Path, name: str = "tiny") -> PackagedTarget:
    """Cut a file into the packages NAME-part1, ...; `site` belongs on the path of Python."""
    data, chunks = whole.read_bytes(), []
    size = -(-len(data) // N_CHUNKS)
    for n in range(N_CHUNKS):
        package, module = f"{name}-part{n + 1}", f"{name}_part{n + 1}"
        file = f"{module}/data/tiny.gguf.part{n:02d}"
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[n * size : (n + 1) * size])
        # Nobody may import the package.
        files.write_text(path.parents[1] / "__init__.py", "raise SystemExit('imported')\n")
        described = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2.{n}\n"
        files.write_text(site / f"{module}-1.2.{n}.dist-info" / "METADATA", described)
        chunks.append(Chunk(package=package, file=file))
    return PackagedTarget(
        chunks=tuple(chunks), sha256=files.sha256_bytes(data), licence="none, random weights"
    )
