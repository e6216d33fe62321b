"""Writes the models of `bench edge` as ONNX, for ONNX Runtime Web, which transformers.js computes with.

    onnx_models.py FOLDER

Of each in FOLDER/edge/models.json one for the processor and one for GPUs, beside its GGUF file; FOLDER/edge/onnx.json
says where, or why there is none. Attention is one operator that grows the cache it is given, and weights are

- Q4_0: the same blocks of 32 (`MatMulNBits`), which transformers.js calls q4;
- Q8_0, GPUs: the same blocks, for which transformers.js has no name;
- Q8_0, processor: rounded again with a scale for each output, and activations to eight bits (`MatMulInteger`):
  transformers.js's q8, which it takes there if nothing is said. As blocks a model of 15M took five times as long there.

Other types are no blocks of ONNX Runtime's. Of families Llama's and Qwen2's.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
BLOCK = 32
#: Products in blocks may round activations to eight bits, as the engines beside this one do.
ACCURACY_LEVEL = 4


class Unwritten(Exception):
    """There is no such model in ONNX."""


class Writer:
    """A graph that grows by one operator at a time."""

    def __init__(self, gguf, requantized):
        self.requantized = requantized
        self.rounded = {}
        fields = gguf.fields.items()
        self.fields = {name: field.contents() for name, field in fields if not name.startswith("tokenizer")}
        self.architecture = self.fields["general.architecture"]
        if self.architecture not in ("llama", "qwen2"):
            raise Unwritten(f"no graph is written for {self.architecture}")
        if f"{self.architecture}.rope.scaling.type" in self.fields:
            raise Unwritten("no graph is written for scaled positions")
        self.tensors = {tensor.name: tensor for tensor in gguf.tensors}
        self.nodes, self.initializers = [], []

    def field(self, name):
        return self.fields[f"{self.architecture}.{name}"]

    def constant(self, name, values):
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operator, inputs, outputs, domain="", **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def vector(self, name):
        return self.constant(name, self.tensors[name].data.astype(np.float32))

    def blocks(self, name):
        """Bits of a weight, rows of unsigned weights in file order, and a scale for each block."""
        tensor = self.tensors[name]
        bits, size = {Type.Q8_0: (8, 34), Type.Q4_0: (4, 18)}.get(tensor.tensor_type, (None, None))
        if bits is None:
            raise Unwritten(f"ONNX Runtime has no blocks of {tensor.tensor_type.name}")
        rows = tensor.data.shape[0]
        blocks = tensor.data.reshape(rows, -1, size)
        scales = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16)[:, :, 0].astype(np.float32)
        bytes_ = blocks[:, :, 2:]
        if bits == 8:
            return bits, bytes_ ^ 0x80, scales
        # The low halves are the first 16 weights; here neighbours share a byte.
        weights = np.concatenate([bytes_ & 15, bytes_ >> 4], axis=2)
        return bits, weights[:, :, 0::2] | weights[:, :, 1::2] << 4, scales

    def product(self, x, name, out):
        bits, weights, scales = self.blocks(f"{name}.weight")
        rows, blocks = scales.shape
        if self.requantized:
            return self.rounded_product(x, name, out, (weights - 128.0) * scales[:, :, None])
        inputs = [x, self.constant(f"{name}.weight", weights), self.constant(f"{name}.scales", scales.reshape(-1))]
        if f"{name}.bias" in self.tensors:
            inputs += ["", "", self.vector(f"{name}.bias")]
        sizes = {"K": blocks * BLOCK, "N": rows, "bits": bits, "block_size": BLOCK}
        return self.add("MatMulNBits", inputs, out, MICROSOFT, accuracy_level=ACCURACY_LEVEL, **sizes)

    def rounded_product(self, x, name, out, weights):
        weights = weights.reshape(weights.shape[0], -1)
        scales = np.maximum(np.abs(weights).max(axis=1), 1e-9) / 127
        weights = np.round(weights / scales[:, None]).astype(np.int8).T
        if x not in self.rounded:
            self.rounded[x] = [f"{x}.rounded", f"{x}.scale", f"{x}.zero"]
            self.add("DynamicQuantizeLinear", [x], self.rounded[x])
        rounded, scale, zero = self.rounded[x]
        sums = self.add("MatMulInteger", [rounded, self.constant(f"{name}.weight", weights), zero], f"{out}.sums")
        floats = self.add("Cast", [sums], f"{out}.floats", to=TensorProto.FLOAT)
        scales = self.constant(f"{name}.scales", scales.astype(np.float32))
        product = [floats, self.add("Mul", [scale, scales], f"{out}.scale")]
        if f"{name}.bias" not in self.tensors:
            return self.add("Mul", product, out)
        return self.add("Add", [self.add("Mul", product, f"{out}.product"), self.vector(f"{name}.bias")], out)

    def embedding(self, ids):
        bits, weights, scales = self.blocks("token_embd.weight")
        rows = scales.shape[0]
        table = self.constant("embedding", weights.reshape(rows, -1))
        inputs = [table, ids, self.constant("embedding.scales", scales)]
        # Without zero points unsigned weights are around the middle.
        sizes = {"bits": bits, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
        return self.add("GatherBlockQuantized", inputs, "hidden", MICROSOFT, **sizes)

    def angles(self):
        head, context = self.field("rope.dimension_count"), self.field("context_length")
        frequencies = self.field("rope.freq_base") ** (-np.arange(0, head, 2, dtype=np.float64) / head)
        angles = np.arange(context)[:, None] * frequencies
        tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
        return [self.constant(name, table.astype(np.float32)) for name, table in tables.items()]

    def norm(self, hidden, skip, name):
        """The residual stream with what is added to it, and its norm."""
        epsilon, scale = self.field("attention.layer_norm_rms_epsilon"), self.vector(f"{name}.weight")
        if skip is None:
            attributes = {"axis": -1, "epsilon": epsilon, "stash_type": 1}
            return hidden, self.add("SimplifiedLayerNormalization", [hidden, scale], f"{name}.out", **attributes)
        outputs = [f"{name}.out", "", "", f"{name}.sum"]
        inputs = [hidden, skip, scale]
        self.add("SkipSimplifiedLayerNormalization", inputs, outputs, MICROSOFT, epsilon=epsilon)
        return outputs[3], outputs[0]

    def model(self):
        heads, kv_heads = self.field("attention.head_count"), self.field("attention.head_count_kv")
        width = self.field("embedding_length")
        head = self.fields.get(f"{self.architecture}.attention.key_length", width // heads)
        layers = self.field("block_count")
        cache, grown = [1, kv_heads, "past", head], [1, kv_heads, "all", head]
        inputs = [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "rows"]),
            # Of which logits are wanted.
            helper.make_tensor_value_info("rows_wanted", TensorProto.INT64, ["wanted"]),
            # Behind as many tokens as there will be, less one.
            helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, [1]),
            helper.make_tensor_value_info("total_sequence_length", TensorProto.INT32, [1]),
        ]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "wanted", "vocabulary"])]
        angles, attention = self.angles(), {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": 1}
        # Files of Llama's have pairs of neighbours.
        attention["rotary_interleaved"] = int(self.architecture == "llama")
        hidden, skip = self.embedding("input_ids"), None
        for layer in range(layers):
            block = f"blk.{layer}"
            hidden, x = self.norm(hidden, skip, f"{block}.attn_norm")
            parts = [self.product(x, f"{block}.attn_{part}", f"{block}.{part}") for part in "qkv"]
            past, present = ([f"{when}.{layer}.{what}" for what in ("key", "value")] for when in ("past", "present"))
            read = [*parts, *past, "seqlens_k", "total_sequence_length", *angles]
            context = self.add("GroupQueryAttention", read, [f"{block}.context", *present], MICROSOFT, **attention)
            inputs += [helper.make_tensor_value_info(one, TensorProto.FLOAT, cache) for one in past]
            outputs += [helper.make_tensor_value_info(one, TensorProto.FLOAT, grown) for one in present]
            attended = self.product(context, f"{block}.attn_output", f"{block}.attended")
            hidden, x = self.norm(hidden, attended, f"{block}.ffn_norm")
            gate, up = (self.product(x, f"{block}.ffn_{part}", f"{block}.{part}") for part in ("gate", "up"))
            sigmoid = self.add("Sigmoid", [gate], f"{block}.sigmoid")
            silu = self.add("Mul", [gate, sigmoid], f"{block}.silu")
            skip = self.product(self.add("Mul", [silu, up], f"{block}.inner"), f"{block}.ffn_down", f"{block}.down")
        _, x = self.norm(hidden, skip, "output_norm")
        x = self.add("Gather", [x, "rows_wanted"], "wanted_hidden", axis=1)
        self.product(x, "output" if "output.weight" in self.tensors else "token_embd", "logits")
        graph = helper.make_graph(self.nodes, "draft", inputs, outputs, self.initializers)
        versions = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)


def write(source, target, requantized):
    """It stays until the file that it is made of, or this one, is younger."""
    if target.exists() and target.stat().st_mtime > max(source.stat().st_mtime, Path(__file__).stat().st_mtime):
        return target.name
    model = Writer(GGUFReader(source), requantized).model()
    unfinished = target.with_suffix(".part")
    onnx.save(model, unfinished)
    unfinished.rename(target)
    return target.name


def main():
    folder = Path(sys.argv[1])
    found = {}
    for model in json.loads((folder / "edge" / "models.json").read_text()):
        source = Path(model["path"])
        target = folder / "models" / f"{source.stem}.onnx"
        try:
            of_gpu = write(source, target, False)
            is_of_bytes = model["format"] == "Q8_0"
            rounded = target.with_stem(f"{source.stem}-rounded")
            of_processor = write(source, rounded, True) if is_of_bytes else of_gpu
            found[model["file"]] = {"processor": of_processor, "gpu": of_gpu}
        except Unwritten as reason:
            found[model["file"]] = {"reason": str(reason)}
    (folder / "edge" / "onnx.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
