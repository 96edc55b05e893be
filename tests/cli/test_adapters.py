"""--lora, --control-vector and their relatives, in every command that computes; and what is said of a
file that is no adapter of the model."""
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import unittest

from program import ROOT, TINY, TINY_FILE, cera

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import gguf_bytes as gguf  # noqa: E402

IDS = ",".join(str(5 + i * 37 % 900) for i in range(40))
COMMANDS = {
    "run": ("--token-ids", IDS, "-n", "12", "--temperature", "0"),
    "logits": ("--token-ids", IDS, "--format", "json"),
    "embed": ("--token-ids", IDS, "--json"),
    "perplexity": ("-p", "Once upon a time there was a little girl. " * 20, "-c", "64"),
}


def floats(n, size):
    return struct.pack("<%df" % n, *(random.uniform(-size, size) for _ in range(n)))


class Adapters(unittest.TestCase):
    def setUp(self):
        random.seed(1)
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        with open(TINY_FILE, "rb") as f:
            self.model = gguf.Reader(f.read()).model
        arch = self.model.get("general.architecture").value
        self.arch = arch if isinstance(arch, str) else arch.decode()

    def write(self, name, keys, tensors):
        m = gguf.Model()
        m.keys = [(key, gguf.Value(gguf.STRING, text)) for key, text in keys.items()]
        m.tensors = tensors
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            f.write(m.write())
        return path

    def lora(self, name="lora.gguf", rank=4, arch=None):
        tensors = []
        for t in self.model.tensors:
            if len(t.shape) == 2 and t.name.startswith("blk.") and "conv.weight" not in t.name:
                cols, rows = t.shape
                tensors.append(gguf.Tensor(t.name + ".lora_a", [cols, rank], 0, floats(cols * rank, 0.3)))
                tensors.append(gguf.Tensor(t.name + ".lora_b", [rank, rows], 0, floats(rows * rank, 0.3)))
        keys = {"general.architecture": arch or self.arch, "general.type": "adapter", "adapter.type": "lora"}
        return self.write(name, keys, tensors)

    def control(self):
        n = next(t for t in self.model.tensors if t.name == "token_embd.weight").shape[0]
        layers = [gguf.Tensor("direction.%d" % i, [n], 0, floats(n, 1)) for i in (1, 2)]
        return self.write("control.gguf", {"general.architecture": "controlvector"}, layers)

    def test_every_command(self):
        lora, control = self.lora(), self.control()
        for command, args in COMMANDS.items():
            plain = cera(command, "-m", TINY, *args)
            self.assertEqual(plain.code, 0, plain)
            answers = {plain.out}
            for option in (("--lora", lora), ("--lora-scaled", lora + ":0.5"),
                           ("--control-vector", control), ("--control-vector-scaled", control + ":-2"),
                           ("--control-vector", control, "--control-vector-layer-range", "2-2"),
                           ("--lora", lora, "--control-vector", control)):
                r = cera(command, "-m", TINY, *args, *option)
                self.assertEqual(r.code, 0, r)
                answers.add(r.out)
            if command != "run":  # whose few tokens may be the same
                self.assertEqual(len(answers), 7, command)
            off = cera(command, "-m", TINY, *args, "--lora-scaled", lora + ":0")
            self.assertEqual(off.out, plain.out)

    def test_scales_and_places(self):
        lora = self.lora()
        args = ("logits", "-m", TINY, "--token-ids", IDS, "--json")
        one = cera(*args, "--lora", lora).out
        self.assertEqual(cera(*args, "--lora-scaled", lora + ":1").out, one)
        self.assertEqual(cera(*args, "--lora", lora, "--threads", "1").out, one)
        # The directions are those of layers 1 and 2.
        control = self.control()
        both = cera(*args, "--control-vector", control).out
        within = cera(*args, "--control-vector", control, "--control-vector-layer-range", "1-2").out
        behind = cera(*args, "--control-vector", control, "--control-vector-layer-range", "3-9").out
        self.assertEqual(within, both)
        self.assertEqual(behind, cera(*args).out)

    def test_bench_and_inspect(self):
        lora = self.lora()
        # Sessions that run at the same time share an adapter, which is opened once.
        r = cera("bench", "-m", TINY, "-p", "8", "-n", "4", "-r", "1", "-t", "1", "--parallel", "9",
                 "--lora", lora, "-v")
        self.assertEqual((r.code, r.err.count("adapter " + lora)), (0, 1), r)
        r = cera("bench", "-m", TINY, "-p", "8", "-n", "4", "-r", "1", "--lora", lora, "--json")
        self.assertEqual(r.code, 0, r)
        self.assertIn("Kind: LoRA adapter", cera("inspect", "-m", lora).out)
        self.assertIn("Kind: control vector", cera("inspect", "-m", self.control()).out)

    def test_errors(self):
        lora, control = self.lora(), self.control()
        run = ("run", "-m", TINY, "--token-ids", IDS, "-n", "1")
        for args, code, says in (
                (("--lora", os.path.join(self.folder, "none")), 3, "none: cannot open"),
                (("--lora", self.lora("other.gguf", arch="qwen2")), 3, "found one for qwen2"),
                (("--lora", TINY_FILE), 3, "general.type"),
                (("--lora", control), 2, "it is a control vector"),
                (("--control-vector", lora), 2, "it is a LoRA adapter"),
                (("--lora-scaled", lora), 2, "PATH:0.5"),
                (("--lora-scaled", lora + ":nan"), 2, "PATH:0.5"),
                (("--control-vector", control, "--control-vector-layer-range", "3"), 2, "4-20"),
                (("--control-vector", control, "--control-vector-layer-range", "5-2"), 2, "4-20"),
                (("--control-vector-layer-range", "1-2"), 2, "no control vector"),
                (("--lora", lora, "--control-vector-layer-range", "1-2"), 2, "no control vector"),
                (("--lora", self.folder), 3, "or a folder with adapter_config.json"),
                (("--lora-scaled", lora + ":1e30"), 2, "the scale of an adapter")):
            r = cera(*run, *args)
            self.assertEqual(r.code, code, r)
            self.assertIn(says, r.err)
            self.assertEqual(r.out, "")

    def test_peft_settings(self):
        path = os.path.join(self.folder, "peft")
        os.mkdir(path)
        good = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "target_modules": ["q_proj"]}
        name = "base_model.model.model.layers.%d.%s.lora_%s.weight"
        for change, says in (
                ({"use_dora": True}, "use_dora"), ({"bias": "all"}, "bias"),
                ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
                ({"fan_in_fan_out": True}, "fan_in_fan_out"), ({"init_lora_weights": "pissa"}, "init_lora"),
                ({"lora_alpha": 0}, "lora_alpha"), ({"peft_type": "IA3"}, "IA3"),
                ({"alpha_pattern": {"q_(": 3}}, 'alpha_pattern: "q_("'), ({"invented": 1}, "invented"),
                ({"alpha_pattern": 3}, "alpha_pattern: expected an object"),
                ({"rank_pattern": ["q_proj"]}, "rank_pattern: expected an object"),
                ({"alpha_pattern": {"q_.*": "x"}}, "alpha_pattern: q_.*: expected a number"),
                ({"r": 3}, "model.layers.0.self_attn.q_proj: expected rank 3, as r says, its tensors have 2"),
                ({"rank_pattern": {"[qk]_proj": 4}}, "q_proj: expected rank 4, as rank_pattern says"),
                ({"r": 0}, "r: expected a whole number"), ({"r": "x"}, "r: expected a whole number"),
                ({"rank_pattern": {"q_proj": 1.5}}, "rank_pattern: q_proj: expected a whole number"),
                ({}, "no such tensor is known")):
            header = json.dumps({name % (0, "mlp.q_proj" if not change else "self_attn.q_proj", half): {
                "dtype": "F32", "shape": [2, 2], "data_offsets": [16 * i, 16 * i + 16]}
                for i, half in enumerate("AB")}).encode()
            with open(os.path.join(path, "adapter_config.json"), "w", encoding="utf-8") as f:
                json.dump({**good, **change}, f)
            with open(os.path.join(path, "adapter_model.safetensors"), "wb") as f:
                f.write(struct.pack("<Q", len(header)) + header + bytes(32))
            r = cera("run", "-m", TINY, "--token-ids", IDS, "-n", "1", "--lora", path)
            self.assertEqual(r.code, 3, r)
            self.assertIn(says, r.err)


if __name__ == "__main__":
    unittest.main()
