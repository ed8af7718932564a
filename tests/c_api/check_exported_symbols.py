#!/usr/bin/env python3
"""Compares what a shared library exports with a list: one line a symbol, sorted."""
import subprocess
import sys

library, listed_path = sys.argv[1:]
lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
exported = {line.split()[-1] for line in lines.splitlines() if line.split()[-2] != "A"}
with open(listed_path, encoding="utf-8") as file:
    listed = set(file.read().split())
for symbol in sorted(exported - listed):
    print(f"exported but not listed: {symbol}")
for symbol in sorted(listed - exported):
    print(f"listed but not exported: {symbol}")
sys.exit(exported != listed)
