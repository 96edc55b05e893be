"""scripts/make-random-gguf: models that open, compute finite numbers, and are the same each time."""
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from program import ROOT, as_user, cera

MAKE = os.path.join(ROOT, "scripts", "make-random-gguf")
# The whole of each architecture: LFM2's third layer is the first with attention.
CASES = [("SmolLM2-135M", "Q4_1", 1), ("SmolLM2-135M", "Q8_0", 1), ("LFM2-350M", "Q4_K_M", 3),
         ("LFM2-350M", "Q6_K", 3), ("SmolLM2-135M", "MXFP4", 1), ("SmolLM2-135M", "BF16", 1),
         ("Qwen3-0.6B", "IQ4_XS", 1)]


class RandomModelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "random.gguf")

    def make(self, shape, type_name, *args):
        return subprocess.run([sys.executable, MAKE, shape, type_name, self.path, *args],
                              capture_output=True, text=True, check=False)

    def read(self):
        with open(self.path, "rb") as f:
            return f.read()

    def test_models_compute(self):
        for shape, type_name, n_layers in CASES:
            with self.subTest(shape=shape, type=type_name):
                done = self.make(shape, type_name, "--layers", str(n_layers))
                self.assertEqual(done.returncode, 0, done)
                result = cera("logits", "-m", self.path, "-p", "Hello there", "--json")
                self.assertEqual(result.code, 0, result)
                scores = result.json
                self.assertTrue(all(x is not None and math.isfinite(x) for x in scores))
                self.assertGreater(len(set(scores)), 1000)

    def test_the_same_arguments_give_the_same_bytes(self):
        args = ("SmolLM2-135M", "Q4_0", "--layers", "1")
        self.make(*args)
        first = self.read()
        self.make(*args)
        self.assertEqual(self.read() == first, True)
        self.make(*args, "--seed", "2")
        other = self.read()
        self.assertEqual((len(other), other == first), (len(first), False))

    def test_refusals(self):
        for args, why in ((("SmolLM2-135M", "Q4_K"), "no whole blocks of Q4_K"),
                          (("SmolLM2-135M", "Q4_0", "--layers", "31"), "expected 1 to 30"),
                          (("SmolLM2-135M", "Q4_0", "--head", "Q6_K"), "no whole blocks of Q6_K"),
                          (("Llama", "Q4_0"), "invalid choice")):
            done = self.make(*args)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)
            self.assertEqual(os.listdir(self.folder), [])

    def test_no_room(self):
        """What was there stays, and nothing else does."""
        with open(self.path, "w", encoding="utf-8") as f:
            f.write("before")
        done = subprocess.run(
            [sys.executable, MAKE, "SmolLM2-135M", "Q4_0", self.path, "--layers", "1"],
            capture_output=True, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (
            1, "", "make-random-gguf: cannot write %s: File too large\n" % self.path))
        self.assertEqual(self.read(), b"before")
        self.assertEqual(os.listdir(self.folder), ["random.gguf"])

    def test_places_that_are_no_files(self):
        for path, why in (("/nowhere/m.gguf", "No such file or directory"),
                          (self.folder, "expected a regular file"),
                          (os.devnull, "expected a regular file")):
            self.path = path
            done = self.make("SmolLM2-135M", "Q4_0", "--layers", "1")
            self.assertEqual((done.returncode, done.stderr),
                             (1, "make-random-gguf: cannot write %s: %s\n" % (path, why)))

    def test_interrupts(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([sys.executable, MAKE, "Llama-3.1-8B", "Q8_0", self.path],
                                       stderr=subprocess.PIPE, preexec_fn=as_user)
            while process.poll() is None and not os.listdir(self.folder):
                time.sleep(0.01)
            process.send_signal(number)
            self.assertEqual(process.communicate(timeout=60)[1], b"")
            self.assertEqual((process.returncode, os.listdir(self.folder)), (128 + number, []))


if __name__ == "__main__":
    unittest.main()
