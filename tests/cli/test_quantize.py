"""cera quantize: what comes out, what is refused, and what a signal or a full disk leaves behind."""
import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest

from program import BIN, TINY_FILE, cera, start
from test_files import split


class Quantize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.f32 = os.path.join(self.folder, "f32.gguf")
        self.out = os.path.join(self.folder, "out.gguf")

    def make_f32(self):
        result = cera("quantize", TINY_FILE, self.f32, "F32", "--allow-requantize")
        self.assertEqual(result.code, 0, result)

    def names(self):
        return sorted(os.listdir(self.folder))

    def test_a_model_that_was_quantised_runs(self):
        self.make_f32()
        result = cera("quantize", self.f32, self.out, "q8_0", "-t", "2", "--format", "json")
        self.assertEqual(result.code, 0, result)
        summary = result.json
        self.assertEqual(summary["schema"], "cera.quantize/1")
        self.assertEqual((summary["tensors"], summary["fallback"]), (75, 0))
        self.assertLess(summary["bytes_after"], summary["bytes_before"] / 3)
        self.assertEqual(cera("inspect", self.out, "--json").json["quant"], "Q8_0")
        # Q8_0 of what came from Q8_0 has the same weights, so it says the same.
        text = ["-p", "Once upon a time", "-n", "20", "--temperature", "0"]
        self.assertEqual(cera("run", self.out, *text).out, cera("run", TINY_FILE, *text).out)
        self.assertEqual(self.names(), ["f32.gguf", "out.gguf"])

    def test_usage(self):
        for args, words in [
                ([], "3 of the three words are missing"),
                ([TINY_FILE, self.out], "1 of the three words is missing"),
                ([TINY_FILE, self.out, "Q8_0", "more"], "unexpected argument more"),
                ([TINY_FILE, self.out, "Q9"], "TYPE is one of F32, F16"),
                ([TINY_FILE, TINY_FILE, "Q8_0"], "are the same"),
                ([TINY_FILE, self.out, "Q8_0", "--output-tensor-type", "x"], "output_type")]:
            result = cera("quantize", *args)
            self.assertEqual(result.code, 2, result)
            self.assertIn(words, result.err)
        self.assertEqual(self.names(), [])

    def test_sources_that_do_not_serve(self):
        result = cera("quantize", TINY_FILE, self.out, "Q4_0")
        self.assertEqual(result.code, 3, result)
        self.assertIn("--allow-requantize", result.err)
        result = cera("quantize", os.path.join(self.folder, "no.gguf"), self.out, "Q4_0")
        self.assertEqual(result.code, 3, result)
        with open(self.f32, "wb") as f:
            f.write(b"GGUF but no more")
        self.assertEqual(cera("quantize", self.f32, self.out, "Q4_0").code, 3)
        self.assertEqual(self.names(), ["f32.gguf"])

    def test_a_model_in_several_files(self):
        parts = split(TINY_FILE, self.folder, 3)
        result = cera("quantize", parts[1], self.out, "Q8_0")
        self.assertEqual(result.code, 0, result)
        info = cera("inspect", self.out, "--json").json
        self.assertEqual(info["parts"], 1)
        self.assertEqual([k for k in info["meta"] if k.startswith("split.")], [])
        text = ["-p", "Once upon a time"]
        self.assertEqual(cera("logits", self.out, *text).out, cera("logits", parts[0], *text).out)
        # No part may be the target.
        for part in parts:
            result = cera("quantize", parts[0], part, "Q8_0")
            self.assertEqual(result.code, 2, result)
            self.assertIn("are the same", result.err)

    def test_targets_that_name_no_file(self):
        for target in ("", self.folder + "/", self.folder + "/new/"):
            result = cera("quantize", TINY_FILE, target, "Q8_0")
            self.assertIn(result.code, (1, 2), result)
            self.assertIn("path: expected the name of a file", result.err)
            self.assertNotIn("TYPE is one of", result.err)

    def test_targets_that_cannot_be_written(self):
        for target in (os.path.join(self.folder, "missing", "out.gguf"), self.folder, "/dev/null"):
            result = cera("quantize", TINY_FILE, target, "Q8_0")
            self.assertEqual(result.code, 1, result)
        self.assertEqual(self.names(), [])

    def test_a_full_disk_leaves_nothing(self):
        with open(self.out, "wb") as f:
            f.write(b"old")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (500000, 500000))

        done = subprocess.run([BIN, "quantize", TINY_FILE, self.out, "Q8_0"],
                              capture_output=True, preexec_fn=limit, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(b"larger than is allowed", done.stderr)
        self.assertEqual(self.names(), ["out.gguf"])
        with open(self.out, "rb") as f:
            self.assertEqual(f.read(), b"old")

    def test_a_signal_leaves_nothing(self):
        self.make_f32()
        big = os.path.join(self.folder, "big.gguf")
        make_big(big)
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143),
                             (signal.SIGHUP, 129)):
            process = start("quantize", big, self.out, "IQ3_S", "-t", "1")
            deadline = time.monotonic() + 30
            while not any(n.endswith(".part") for n in self.names()):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.005)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, err)
            self.assertEqual(self.names(), ["big.gguf", "f32.gguf"])

    def test_progress(self):
        self.make_f32()
        result = cera("quantize", self.f32, self.out, "Q4_K_M", "--progress", "json")
        self.assertEqual(result.code, 0, result)
        lines = [line for line in result.err.split("\n") if "progress" in line]
        self.assertIn('"file":"quantize"', lines[-1])
        self.assertEqual(cera("quantize", self.f32, self.out, "Q4_K_M", "-q").err, "")


def make_big(path):
    """A file with one tensor of 16 million weights, so that there is time for a signal."""
    rows, row = 4096, 4096
    text = lambda s: len(s).to_bytes(8, "little") + s.encode()
    head = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") * 2
    head += text("general.architecture") + (8).to_bytes(4, "little") + text("llama")
    head += text("blk.0.attn_q.weight") + (2).to_bytes(4, "little")
    head += row.to_bytes(8, "little") + rows.to_bytes(8, "little") + bytes(4) + bytes(8)
    head += bytes(-len(head) % 32)
    with open(path, "wb") as f:
        f.write(head)
        f.write(bytes(i % 64 for i in range(1 << 12)) * 4 * (rows * row >> 12))


if __name__ == "__main__":
    unittest.main()
