"""Sends damaged and random requests to `vramfit web` for a while.

    python3 tests/web/fuzz.py PATH_OF_VRAMFIT [--seconds 20] [--seed 0]

Fails if an answer is a 500 or there is none, if the program ends, or if its memory passes 1 GiB. Whatever is sent, the client closes its
side after it, so that the server knows it all.
"""

import argparse
import pathlib
import random
import re
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = ["resnet18", "lstm", "gpt2", "bert-base", "t5-small", "", "../x", "file:0/x", "GPT2", "meta-llama/Llama-3.2-1B"]
VALUES = ["0", "1", "-1", "7", "4096", "99999999999999999999", "", "true", "false", "none", "blocks", "nf4", "bf16", "fp16", "x", "%00", "%", "%F0%9F%92%A9",
          "RTX 3060".replace(" ", "+"), "12GiB", "1e309", "NaN", "a,b,c", "*", "sequential:3", "--html=x", "x=1", "0-5;decay:*", "expandable_segments:True"]


def query(rng, options):
    fields = [("model", rng.choice(MODELS))] if rng.random() < 0.95 else []
    fields += [(rng.choice(options), rng.choice(VALUES)) for _ in range(rng.randrange(4))]
    return "&".join(f"{name}={value}" for name, value in fields)


def damaged(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 12)):
        at = rng.randrange(len(data) or 1)
        kind = rng.randrange(3)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randrange(1, 40)]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 8)))
    return bytes(data)


def request(rng, host, options, files):
    kind = rng.random()
    if kind < 0.55:
        path = rng.choice(["estimate"] * 6 + ["max-batch"]) + "?" + query(rng, options)
        return f"GET /api/{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    if kind < 0.85:
        name, data = rng.choice(files)
        body = damaged(rng, data) if rng.random() < 0.9 else data
        head = f"POST /api/models?name={name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body
    whole = f"GET /api/estimate?model=resnet18 HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\r\n".encode()
    # Who sends nothing is owed nothing.
    return damaged(rng, whole) or b"\r"


def exchange(address, data):
    with socket.create_connection(address, timeout=20) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(65536):
                answer += part
        except (TimeoutError, ConnectionError):
            answer = b""
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vramfit")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    server = subprocess.Popen([arguments.vramfit, "web"], stderr=subprocess.PIPE, text=True)
    host, port = re.search(r"http://([^:]+):(\d+)/", server.stderr.readline()).groups()
    captures = ROOT / "validation/captures"
    files = [
        ("a.vramfit", (captures / "bert-small.vramfit").read_bytes()),
        ("model.toml", b'input = ["batch", 3]\nsizes = { batch = 2 }\nlayers = ["Linear(3, 4)", "ReLU()"]\n'),
        ("config.json", b'{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 100}'),
        ("x.pt2", next((ROOT / "crates/readers/tests/archives").glob("*.pt2")).read_bytes()),
    ]
    listing = subprocess.run([arguments.vramfit, "estimate", "--help"], capture_output=True, text=True).stdout
    options = sorted(set(re.findall(r"--([a-z][a-z-]+)", listing)))
    codes, count, begun = {}, 0, time.monotonic()
    try:
        while time.monotonic() - begun < arguments.seconds:
            rng = random.Random(f"{arguments.seed}-{count}")
            data = request(rng, f"{host}:{port}", options, files)
            code = exchange((host, int(port)), data)
            codes[code] = codes.get(code, 0) + 1
            memory = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.pid}/status").read_text())[1])
            if code in (0, 500, 504) or server.poll() is not None or memory > 1 << 20:
                sys.exit(f"request {count} of seed {arguments.seed}: {code}, {memory} KiB: {data[:600]!r}")
            count += 1
    finally:
        server.terminate()
        server.wait()
    print(f"{count} requests: " + ", ".join(f"{number} × {code}" for code, number in sorted(codes.items())))


if __name__ == "__main__":
    main()
