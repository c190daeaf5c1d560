#!/usr/bin/env python3
"""Checks that the prompts of prompts/tare-64.jsonl are not in the training text, and writes prompt_overlap.json beside this file.

    check_prompts.py WORK

Reports, over all prompts, how many of their runs of eight and of thirteen words occur in the training text (idioms do: an option table
looks like every other one), and fails when a prompt occurs whole or when more than half of the 13-word runs of one prompt do.
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROMPTS = HERE.parent.parent / "prompts" / "tare-64.jsonl"
RUNS = (8, 13)
LARGEST_SHARE = 0.5
WORD = re.compile(r"\w+|[^\w\s]")  # punctuation marks count as words, so that code has enough of them


def runs(words, length):
    return [tuple(words[i:i + length]) for i in range(len(words) - length + 1)]


def main(work):
    prompts = [json.loads(line) for line in PROMPTS.read_text().splitlines()]
    wanted = {length: {} for length in RUNS}
    for prompt in prompts:
        words = WORD.findall(prompt["turns"][0])
        for length in RUNS:
            for run in runs(words, length):
                wanted[length][run] = False
    # A run can only occur where its first three words do; that test is cheap.
    starts = {run[:3] for run in wanted[RUNS[0]]}
    whole = set()
    normalized = {prompt["question_id"]: " ".join(prompt["turns"][0].split()) for prompt in prompts}
    with open(work / "train.jsonl", encoding="utf-8") as lines:
        for line in lines:
            text = json.loads(line)["text"]
            words = WORD.findall(text)
            for i, start in enumerate(zip(words, words[1:], words[2:])):
                if start in starts:
                    for length in RUNS:
                        run = tuple(words[i:i + length])
                        if run in wanted[length]:
                            wanted[length][run] = True
            joined = " ".join(text.split())
            whole.update(number for number, prompt in normalized.items() if prompt in joined)
    report = {"prompts": len(prompts), "prompts_found_whole": sorted(whole)}
    worst = 0.0
    for length in RUNS:
        shares = {}
        for prompt in prompts:
            own = runs(WORD.findall(prompt["turns"][0]), length)
            shares[prompt["question_id"]] = sum(wanted[length][run] for run in own) / max(1, len(own))
        report[f"runs_of_{length}_words"] = {"found": sum(wanted[length].values()), "of": len(wanted[length]),
                                            "largest_share_of_a_prompt": round(max(shares.values()), 3),
                                            "prompt": max(shares, key=shares.get)}
        worst = max(shares.values())
    (HERE / "prompt_overlap.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    if whole or worst > LARGEST_SHARE:
        sys.exit("error: a prompt is in the training text")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
