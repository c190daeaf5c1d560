#!/usr/bin/env python3
"""Step 7, on the GPU host: checks an exported model against Hugging Face transformers and measures it.

    check.py PACK MODEL OUT

Everything runs in FP32 over the BF16 weights of MODEL. Compares this folder's model with transformers' on held-out windows, measures held-out bits a
byte (windows of 2,048 tokens without context before them, a document's end counted as a byte), and writes OUT/metrics.json and the golden of
the engine's tests, OUT/golden.safetensors (input_ids [48] I32, logits [8, vocabulary] F32 of the last eight positions, by transformers).
"""

import datetime
import json
import pathlib
import platform
import sys

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from model import LanguageModel
from train import WINDOW, evaluate, read_tokens

COMPARED_TOKENS = 1024
LOGITS_TOLERANCE = 2e-3   # logits reach 20 to 30; two FP32 programs differ by about 1e-4 there
GOLDEN_POSITIONS = 8
BEGINNINGS = ["#include <vector>\n\n// Returns the sum of all elements.\nint sum(", 'def read_config(path):\n    """Read the configuration',
              "The server listens on a TCP port and "]


def load_ours(folder, device):
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    tensors = {}
    for file in sorted(set(index["weight_map"].values())):
        tensors.update(load_file(folder / file))
    model = LanguageModel(compute_type=torch.float32)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return model.to(device)


def mtp_loss(model, pack, kind, device):
    """Nats a token of the MTP head over the first held-out windows."""
    tokens = torch.from_numpy(read_tokens(pack / f"{kind}.npy.xz").astype(numpy.int64))
    count = min(48, (len(tokens) - 2) // WINDOW)
    batch = torch.stack([tokens[i * WINDOW:i * WINDOW + WINDOW + 2] for i in range(count)]).to(device)
    with torch.no_grad():
        next_token, further = model.losses(batch)
    return {"next_token_nats": next_token.item(), "mtp_nats": further.item()}


def main(pack, folder, out):
    out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    ours = load_ours(folder, device)
    theirs = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    difference = scale = 0.0
    for kind in ("held-code", "held-prose"):
        window = torch.from_numpy(read_tokens(pack / f"{kind}.npy.xz")[:COMPARED_TOKENS].astype(numpy.int64))[None].to(device)
        with torch.no_grad():
            expected = theirs(window).logits
            difference = max(difference, (ours.logits(ours.hidden(window)) - expected).abs().max().item())
            scale = max(scale, expected.abs().max().item())
    if not difference < LOGITS_TOLERANCE:
        raise RuntimeError(f"logits differ from transformers' by {difference}")
    print(f"logits agree with transformers within {difference:.2e} (largest logit {scale:.1f})", flush=True)

    golden = json.loads((pack / "golden.json").read_text())
    ids = torch.tensor([golden["ids"]], device=device)
    with torch.no_grad():
        logits = theirs(ids).logits[0, -GOLDEN_POSITIONS:].cpu().contiguous()
    save_file({"input_ids": ids[0].int().cpu(), "logits": logits}, out / "golden.safetensors")

    encoding = json.loads((pack / "encoding.json").read_text())
    bits = evaluate(ours, pack, device)
    metrics = {
        "held_out_bits_per_byte": {"code": bits["held-code"], "prose": bits["held-prose"]},
        "held_out_losses_first_windows": {kind: mtp_loss(ours, pack, kind, device) for kind in ("held-code", "held-prose")},
        "held_out_encoding": {kind: encoding[kind] for kind in ("held-code", "held-prose")},
        "logits_difference_to_transformers": difference,
        "largest_logit": scale,
        "training": json.loads((folder / "training.json").read_text()),
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
    print(json.dumps(metrics, indent=1), flush=True)
    for beginning in BEGINNINGS:
        ids = torch.tensor([tokenizer.encode(beginning).ids], device=device)
        torch.manual_seed(1)
        continued = theirs.generate(ids, max_new_tokens=60, do_sample=True, temperature=0.8, top_k=0)
        print("-----\n" + tokenizer.decode(continued[0].tolist()), flush=True)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:4]))
