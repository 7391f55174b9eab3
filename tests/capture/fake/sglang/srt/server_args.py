"""Parses the few arguments that the toy needs."""

import argparse
import json


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path")
    parser.add_argument("--forward-hooks", type=json.loads)
    parser.add_argument("--speculative-draft-model-path")
    parser.add_argument("--tp-size", type=int, default=1)
    parser.add_argument("--mood", default="well")  # what goes wrong
    return parser.parse_known_args(argv)[0]
