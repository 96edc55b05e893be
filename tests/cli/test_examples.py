"""The examples in C and in Python say the same: what a session gets depends neither on the others nor
on when its thread gets to run."""
import os
import re
import subprocess
import sys
import unittest

from program import ROOT, TINY_FILE, environment

IN_C = os.environ.get("CERA_EXAMPLE_BATCH")
LIBRARY = os.environ.get("CERA_SHARED")
IN_PYTHON = os.path.join(ROOT, "examples", "batch.py")


def run(*words, **env):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120,
                          stdin=subprocess.DEVNULL, env=environment(**env))


@unittest.skipUnless(IN_C and LIBRARY, "built without examples, or with a sanitizer")
class ExamplesTest(unittest.TestCase):
    def test_sixteen_sessions(self):
        expected = run(IN_C, TINY_FILE, "12")
        self.assertEqual((expected.returncode, expected.stderr), (0, ""))
        lines = expected.stdout.splitlines()
        self.assertEqual(len(lines), 16)
        self.assertGreater(len({line.split(":", maxsplit=1)[1] for line in lines}), 10)
        for line in lines:
            self.assertLessEqual(int(re.match(r"\w+ \((\d+) tokens\):", line).group(1)), 12)
        found = run(sys.executable, IN_PYTHON, TINY_FILE, "12", CERA_LIBRARY=LIBRARY)
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.assertEqual(found.stdout.splitlines(), lines)

    def test_mistakes(self):
        for program in ([IN_C], [sys.executable, IN_PYTHON]):
            done = run(*program, "/nowhere.gguf", CERA_LIBRARY=LIBRARY)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("/nowhere.gguf", done.stderr)
            done = run(*program, CERA_LIBRARY=LIBRARY)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("usage: batch", done.stderr)


if __name__ == "__main__":
    unittest.main()
