#!/usr/bin/env python3
"""Step 6: writes a checkpoint of train.py as a Hugging Face folder: BF16 safetensors in two shards, index, config.json, tokenizer.json.

    export.py PACK STATE OUT
"""

import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file

from train import model_for_export

MAX_POSITION = 8192
LARGEST_SHARD = 16_000_000  # bytes


def config(shape):
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.query_heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shape.epsilon,
        "attention_bias": False,
        "attn_output_gate": True,
        "tie_word_embeddings": False,
        "max_position_embeddings": MAX_POSITION,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": shape.rope_theta,
            "partial_rotary_factor": shape.rotary_dims / shape.head_dim,
        },
        "partial_rotary_factor": shape.rotary_dims / shape.head_dim,
        "linear_conv_kernel_dim": shape.convolution_kernel,
        "linear_key_head_dim": shape.linear_key_dim,
        "linear_value_head_dim": shape.linear_value_dim,
        "linear_num_key_heads": shape.linear_key_heads,
        "linear_num_value_heads": shape.linear_value_heads,
        "layer_types": ["full_attention" if shape.is_full_attention(i) else "linear_attention" for i in range(shape.layers)],
        "full_attention_interval": shape.full_attention_interval,
        "mtp_num_hidden_layers": 1,
        "eos_token_id": 0,
        "bos_token_id": None,
        "pad_token_id": None,
    }


def main(pack, state, out):
    out.mkdir(parents=True, exist_ok=True)
    model, training = model_for_export(state)
    tensors = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}
    total = sum(tensor.nbytes for tensor in tensors.values())
    shards = [{}, {}]
    before = 0
    for name, tensor in tensors.items():
        shards[0 if before < total / 2 else 1][name] = tensor
        before += tensor.nbytes
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, out / file, metadata={"format": "pt"})
        if (out / file).stat().st_size > LARGEST_SHARD:
            raise RuntimeError(f"{file} is larger than {LARGEST_SHARD} bytes")
        weight_map.update({name: file for name in shard})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    (out / "config.json").write_text(json.dumps(config(model.shape), indent=1) + "\n")
    (out / "training.json").write_text(json.dumps(training, indent=1) + "\n")
    shutil.copy(pack / "tokenizer.json", out)
    print("exported", len(tensors), "tensors,", total, "bytes", training)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:4]))
