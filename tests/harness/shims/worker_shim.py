#!/usr/bin/env python3
"""A worker for tests, in another language and with faults on demand.

Speaks the protocol of docs/protocol/worker.md for an "engine" whose natural choice after the tokens so far is a hash of
them. The first argument names a fault:
  good | nonsense | wrong-version | echo | no-bytes | grandchild FILE | flood (a line that never ends)
  die-at-hello | die-at-open | die-at-run | die-in-answer (half of it is written) | killed-at-run | die-at-close
  hang-at-hello | hang-at-open | hang-at-run | hang-at-close | deaf (opens, then reads no more)
  profiles (knows `profile` too) | die-at-third-profile
  once FILE FAULT: that fault while FILE is there, which it takes away; then good
"""
import hashlib
import json
import os
import subprocess
import sys
import time

fault = sys.argv[1] if len(sys.argv) > 1 else "good"
once = None
if fault == "once":
    once = sys.argv[2]
    fault = sys.argv[3] if os.path.exists(once) else "good"
VOCABULARY = 500


def strikes(name):
    if fault != name:
        return False
    if once and os.path.exists(once):
        os.remove(once)
    return True


def die(words, code=3):
    print(words, file=sys.stderr, flush=True)
    os._exit(code)


def hang():
    print("going to sleep", file=sys.stderr, flush=True)
    time.sleep(300)


def natural(tokens):
    text = ",".join(map(str, tokens)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "little") % VOCABULARY


def answer(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def replay(call):
    tokens, chosen, absorbed = [], [], list(call["prompt"])
    forced = call.get("forced", [])
    length = len(forced) if forced else call["max_tokens"]
    for i in range(length):
        choice = natural(absorbed)
        token = forced[i] if forced else choice
        chosen.append(token if fault == "echo" else choice)
        tokens.append(token)
        absorbed.append(token)
    rounds = [1_000_000 + 10 * i for i in range(length - 1)]
    reply = dict(
        reply="run", outcome="forced_text" if forced else "length", tokens=tokens,
        agreed=sum(a == b for a, b in zip(tokens, chosen)), prefill_ns=2_000_000, first_token_ns=2_100_000,
        decode_ns=sum(rounds), total_ns=2_100_000 + sum(rounds), round_ns=rounds, round_tokens=[1] * len(rounds),
        peak_memory_bytes=50_000_000)
    if call.get("natural"):
        reply["natural"] = chosen
    return reply


profiled = 0


def profile(call):
    global profiled
    profiled += 1
    if fault == "die-at-third-profile" and profiled == 3:
        print("the collector is on fire", file=sys.stderr, flush=True)
        os._exit(3)
    run = replay(call)
    del run["reply"]
    rounds = len(run["round_ns"])
    answer(reply="profile", run=run, source="ops", rounds=rounds, records=2 * rounds, span_us=900, idle_us=100,
           rows=[dict(kernel="think", calls=1, us=500), dict(kernel="hash", calls=1, us=300)])


if fault == "grandchild":
    child = subprocess.Popen(["sleep", "300"])
    with open(sys.argv[2], "w") as file:
        file.write(str(child.pid))

for line in sys.stdin:
    call = json.loads(line)
    name = call["call"]
    if name == "hello":
        if strikes("die-at-hello"):
            die("no greeting today")
        if strikes("hang-at-hello"):
            hang()
        answer(reply="hello", protocol=2 if fault == "wrong-version" else 1, program="shim", version="1",
               build={"commit": "shim"}, options=[])
    elif name == "open":
        if strikes("die-at-open"):
            die("the model file is on fire")
        if strikes("hang-at-open"):
            hang()
        if call["model"] == "missing":
            answer(reply="error", kind="input", what="there is no such model", where="missing", hint="give another")
            continue
        answer(reply="open", checkpoint_digest="d" * 32, tokenizer_digest="", vocab_size=VOCABULARY,
               options=call["options"], description={"backend": "shim"}, bytes_per_round=0)
        if strikes("deaf"):
            hang()
    elif name == "encode":
        answer(reply="encode", tokens=[[1 + len(word) % 400 for word in text.split()] or [1] for text in call["texts"]])
    elif name == "run":
        if strikes("die-at-run"):
            print("last words of the worker", file=sys.stderr, flush=True)
            os.kill(os.getpid(), 11)
        if strikes("killed-at-run"):
            os.kill(os.getpid(), 9)
        if strikes("die-in-answer"):
            sys.stdout.write('{"reply": "run", "outcome": "forced_te')
            sys.stdout.flush()
            die("died in the middle of a word")
        if strikes("hang-at-run"):
            hang()
        if fault == "flood":
            while True:
                os.write(1, b"x" * 65536)
        if fault == "nonsense":
            print("warming up...", flush=True)
            continue
        answer(**replay(call))
    elif name == "profile" and fault in ("profiles", "die-at-third-profile"):
        profile(call)
    elif name == "close":
        if strikes("die-at-close"):
            die("died while closing")
        if strikes("hang-at-close"):
            hang()
        answer(reply="close")
        break
    else:
        answer(reply="error", kind="input", what=f"unknown call '{name}'", where="call", hint="")
