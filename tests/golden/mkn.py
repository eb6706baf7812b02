"""Reads a .mkn model image into numpy, after src/image/mkn.h: an implementation of the format that shares
no code with the engine or the quantizer. Needs numpy.

    import mkn
    image = mkn.Image("model.mkn")
    image.header["layers"], image.tensor("q", layer=3)          # float32 [rows][cols]

torch_model turns an image of the Llama kind into a PyTorch model (needs torch and transformers).
"""
import struct

import numpy as np

SECTIONS = ["directory", "layers", "data", "tokenizer", "strings", "provenance"]
ROLES = ["", "tables", "rope_frequencies", "embedding", "attention_norm", "q", "k", "v", "o", "q_bias", "k_bias",
         "v_bias", "q_norm", "k_norm", "mlp_norm", "gate", "up", "down", "output_norm", "head"]
FIELDS = ["layers", "heads", "kv_heads", "head_size", "hidden", "intermediate", "vocabulary", "context"]
F32, I8, Q8, Q4 = range(4)
TIED, ATTENTION_BIAS, QK_NORM, VOCAB_ONLY = 1, 2, 4, 8
TRANSFORMED = 1


class Image:
    def __init__(self, path):
        self.bytes = np.memmap(path, dtype=np.uint8, mode="r")
        head = bytes(self.bytes[:512])
        if head[:8] != b"MAKARNA\0":
            raise ValueError(f"{path}: not a makarna image")
        version, size = struct.unpack_from("<II", head, 8)
        if (version, size) != (1, 512):
            raise ValueError(f"{path}: version {version}, this script reads version 1")
        self.header = dict(zip(FIELDS, struct.unpack_from("<8I", head, 32)))
        self.header["norm_epsilon"], self.header["rope_base"] = struct.unpack_from("<2f", head, 64)
        self.header["rope_dims"], _, self.header["flags"], count = struct.unpack_from("<4I", head, 72)
        self.sections = {name: struct.unpack_from("<3Q", head, 104 + 24 * i)[:2] for i, name in enumerate(SECTIONS)}
        start = self.sections["directory"][0]
        self.directory = [struct.unpack_from("<HHIIIQQQQI", bytes(self.bytes[start + 64 * i:start + 64 * i + 64]))
                          for i in range(count)]

    def tensor(self, role, layer=0):
        """A tensor as float32 [rows][cols], or None."""
        for entry in self.directory:
            if ROLES[entry[0]] == role and entry[2] == layer:
                return self._decode(*entry)
        return None

    def _decode(self, _role, kind, _layer, rows, cols, offset, size, scales_offset, scales_size, flags):
        codes = self.bytes[offset:offset + size]
        if kind == F32:
            return np.frombuffer(codes.tobytes(), np.float32).reshape(rows, cols)
        if kind == I8:
            return codes.view(np.int8).reshape(rows, cols).astype(np.float32)
        groups, blocks = -(-rows // 4), -(-cols // 32)
        supers = -(-blocks // 8)
        scales = self.bytes[scales_offset:scales_offset + scales_size].reshape(groups, -1)
        step = 8 + (32 if kind == Q4 else 0)
        d = np.stack([scales[:, s * step:s * step + 8].copy().view(np.float16) for s in range(supers)], 1)
        d = np.repeat(d.astype(np.float32), 8, axis=1)[:, :blocks]  # [groups][blocks][4 rows]
        if kind == Q8:
            values = codes.reshape(groups, blocks, 4, 32).view(np.int8).astype(np.float32)
        else:
            t = np.empty((groups, blocks, 4), np.int64)
            for b in range(blocks):
                at = (b // 8) * step + 8 + 4 * (b % 8)
                t[:, b] = scales[:, at:at + 4]
            packed = codes.reshape(groups, blocks, 4, 16)
            nibbles = np.concatenate([packed & 15, packed >> 4], axis=3)
            tables = self.tensor("tables")
            values = tables[t[..., None], nibbles]
        values = (values * d[..., None]).transpose(0, 2, 1, 3).reshape(groups * 4, blocks * 32)
        return (transform(values) if flags & TRANSFORMED else values)[:rows, :cols]


def transform(values):
    """Orthonormal Walsh-Hadamard transform along the columns, by super-blocks of 256 cut into powers of two."""
    out = np.empty_like(values)
    begin = 0
    while begin < values.shape[1]:
        left = min(256 - begin % 256, values.shape[1] - begin)
        n = 1 << (left.bit_length() - 1)
        h = np.ones((1, 1), np.float64)
        while len(h) < n:
            h = np.block([[h, h], [h, -h]])
        out[:, begin:begin + n] = values[:, begin:begin + n].astype(np.float64) @ h / np.sqrt(n)
        begin += n
    return out


def torch_model(image):
    """transformers' LlamaForCausalLM in float32 with the image's weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    h = image.header
    config = LlamaConfig(vocab_size=h["vocabulary"], hidden_size=h["hidden"], intermediate_size=h["intermediate"],
                         num_hidden_layers=h["layers"], num_attention_heads=h["heads"],
                         num_key_value_heads=h["kv_heads"], head_dim=h["head_size"], rms_norm_eps=h["norm_epsilon"],
                         max_position_embeddings=h["context"], rope_theta=float(h["rope_base"]),
                         tie_word_embeddings=bool(h["flags"] & TIED), attention_bias=False)
    config.rope_parameters = {"rope_type": "default", "rope_theta": float(h["rope_base"])}
    model = LlamaForCausalLM(config).float().eval()
    names = {"attention_norm": "input_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj",
             "v": "self_attn.v_proj", "o": "self_attn.o_proj", "mlp_norm": "post_attention_layernorm",
             "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
    state = {"model.embed_tokens.weight": image.tensor("embedding"),
             "model.norm.weight": image.tensor("output_norm")[0]}
    state["lm_head.weight"] = state["model.embed_tokens.weight"] if h["flags"] & TIED else image.tensor("head")
    for layer in range(h["layers"]):
        for role, name in names.items():
            value = image.tensor(role, layer)
            state[f"model.layers.{layer}.{name}.weight"] = value[0] if role.endswith("norm") else value
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()}, strict=True)
    return model

