"""--control-vector and its like: what they change, and what is refused."""
import os
import struct
import tempfile
import unittest

from program import TINY, cera

N_EMBD, LAST = 128, 7  # of the built-in model


def text(data):
    return struct.pack("<Q", len(data)) + data.encode()


def control_vector(layer, values):
    """A GGUF file with one direction."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("controlvector")
    head += text("direction.%d" % layer) + struct.pack("<IQIQ", 1, len(values), 0, 0)
    head += b"\0" * (-len(head) % 32)
    return head + struct.pack("<%df" % len(values), *values)


class ControlVector(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = self.file("a.gguf", control_vector(LAST, [(-1) ** i * 50.0 for i in range(N_EMBD)]))

    def file(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def run_with(self, *args):
        r = cera("run", "-m", TINY, "-p", "Once upon a time", "-n", "8", "--temperature", "0", *args)
        self.assertEqual(r.code, 0, r)
        return r.out

    def test_counts_by_its_scale_and_layers(self):
        plain, changed = self.run_with(), self.run_with("--control-vector", self.path)
        self.assertNotEqual(plain, changed)
        scaled = self.path + ":%s"
        self.assertEqual(self.run_with("--control-vector-scaled", scaled % "0"), plain)
        self.assertEqual(self.run_with("--control-vector-scaled", scaled % "0.25",
                                       "--control-vector-scaled", scaled % "0.75"), changed)
        for layers, expected in (("0-6", plain), ("7-7", changed), ("8-9", plain)):
            self.assertEqual(self.run_with("--control-vector", self.path,
                                           "--control-vector-layer-range", layers), expected, layers)

    def test_states_on_disk_are_not_mixed_up(self):
        cases = [[], ["--control-vector", self.path], ["--control-vector-scaled", self.path + ":-1"]]
        expected = [self.run_with(*args) for args in cases]
        self.assertEqual(len(set(expected)), 3, expected)
        for _ in range(2):
            found = [self.run_with(*args, "--cache-dir", os.path.join(self.folder, "cache"))
                     for args in cases]
            self.assertEqual(found, expected)

    def test_what_is_refused(self):
        short = self.file("short.gguf", control_vector(LAST, [1.0] * 64))
        behind = self.file("behind.gguf", control_vector(LAST + 1, [1.0] * N_EMBD))
        endless = self.file("inf.gguf", control_vector(1, [float("inf")] * N_EMBD))
        for args, code, why in (
                (["--control-vector", short], 3, "direction.7"),
                (["--control-vector", behind], 3, "direction.8"),
                (["--control-vector", endless], 3, "finite"),
                (["--control-vector", self.path + "x"], 3, "no such file"),
                (["--lora", self.path], 2, "it is a control vector"),
                (["--control-vector-scaled", self.path], 2, "PATH:0.5"),
                (["--control-vector-scaled", self.path + ":nan"], 2, "PATH:0.5"),
                (["--control-vector-layer-range", "5-2"], 2, "two numbers of layers"),
                (["--control-vector", self.path] * 65, 3, "at most 64")):
            r = cera("run", "-m", TINY, "-p", "x", "-n", "1", *args)
            self.assertEqual((r.code, r.out), (code, ""), r)
            self.assertIn(why, r.err)
            self.assertNotIn(TINY, r.err)  # another model would not help


if __name__ == "__main__":
    unittest.main()
