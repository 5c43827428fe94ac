"""Prints the cases, one JSON object per line: python -m cases, from the folder validation."""

import json

from cases import CASES, MODELS

for case in CASES.values():
    print(json.dumps({"name": case.name, "model": case.model, "part": MODELS[case.model].part, **case.settings()}))
