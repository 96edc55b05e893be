"""./run's arguments and the counting of ./check, without a build: a copy of the scripts in a folder
of its own, with a `ninja` that does nothing and a `cera` that prints its arguments."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

CERA = r"""#!/bin/sh
if [ "$*" = "run --help" ]; then
    printf '  -n, --max-tokens N       how many\n      --stop STR           text\n'
    printf '      --ignore-eos         go on\n  -q, --quiet              less\n'
    printf '      --kv-cache-keys f16|f32\n                           type\n'
    exit
fi
printf '%s\n' "$@"
"""

LOG = """Start testing
----------------------------------------------------------
1/6 Testing: unit/test_a
1/6 Test: unit/test_a
Command: "test_a"
Output:
----------------------------------------------------------
[==========] Running 4 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
[  ERROR   ] --- 0x1 != 0x2
[  FAILED  ] two
[ RUN      ] three
skip: no model
[  SKIPPED ] three
[ RUN      ] four
[       OK ] four
[==========] 4 test(s) run.
[  PASSED  ] 2 test(s).
<end of output>
Test time =   0.00 sec
----------------------------------------------------------
Test Failed.
"unit/test_a" end time: Jan 01 00:00 UTC
----------------------------------------------------------

2/6 Testing: unit/test_dies
2/6 Test: unit/test_dies
[==========] Running 2 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
Test time =   0.00 sec
----------------------------------------------------------
Test Failed.
"unit/test_dies" end time: Jan 01 00:00 UTC

3/6 Testing: cli/test_b
3/6 Test: cli/test_b
test_x (test_b.B.test_x) ... noise
ok
test_y (test_b.B.test_y) ... skipped 'not today'
test_z (test_b.B.test_z) ... ok

----------------------------------------------------------------------
Ran 3 tests in 0.001s

OK (skipped=1)
Test time =   0.00 sec
----------------------------------------------------------
Test Passed.
"cli/test_b" end time: Jan 01 00:00 UTC

4/6 Testing: layers
4/6 Test: layers
Test time =   0.00 sec
----------------------------------------------------------
Test Passed.
"layers" end time: Jan 01 00:00 UTC

5/6 Testing: examples/generate
5/6 Test: examples/generate
, there was a little owl
Test time =   0.00 sec
----------------------------------------------------------
Test Pass Reason:
Required regular expression found. Regex=[owl]
"examples/generate" end time: Jan 01 00:00 UTC

6/6 Testing: examples/batch
6/6 Test: examples/batch
nothing
Test time =   0.00 sec
----------------------------------------------------------
Test Fail Reason:
Required regular expression not found. Regex=[owl]
"examples/batch" end time: Jan 01 00:00 UTC
"""


class Scripts(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="cera-scripts-")
        self.addCleanup(shutil.rmtree, self.root)
        os.mkdir(os.path.join(self.root, "scripts"))
        for name in ("run", "scripts/setup.sh", "scripts/count-tests"):
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.root, name))
        self.write("build/release/build.ninja", "")
        self.write("build/release/CMakeCache.txt",
                   "CMAKE_HOME_DIRECTORY:INTERNAL=%s\n" % os.path.realpath(self.root))
        self.write("build/release/cera", CERA)
        self.write("bin/ninja", "#!/bin/sh\nexit ${NINJA_STATUS_CODE:-0}\n")

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(full, 0o755)

    def start(self, *args, **extra):
        path = os.path.join(self.root, "bin") + ":" + os.environ["PATH"]
        return subprocess.run([os.path.join(self.root, "run"), *args], cwd="/", text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              env={"PATH": path, **extra})

    def check_args(self, given, expected):
        done = self.start(*given)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.split("\n")[:-1], ["run"] + expected, given)

    def test_run_arguments(self):
        tiny = ["-m", "builtin:tiny"]
        for given, expected in (
                ([], tiny),
                (["Once upon a time"], tiny + ["-p", "Once upon a time"]),
                ([""], tiny + ["-p", ""]),
                (["-n", "5", "Once"], tiny + ["-p", "Once", "-n", "5"]),
                (["--stop", "x y", "Once", "-q"], tiny + ["-p", "Once", "--stop", "x y", "-q"]),
                (["-q", "Once"], tiny + ["-p", "Once", "-q"]),
                (["--kv-cache-keys", "f32", "Once"],
                 tiny + ["-p", "Once", "--kv-cache-keys", "f32"]),
                (["-n5", "Once"], tiny + ["-p", "Once", "-n5"]),
                (["--max-tokens=5", "Once"], tiny + ["-p", "Once", "--max-tokens=5"]),
                (["-p", ""], tiny + ["-p", ""]),
                (["--file", "x"], tiny + ["--file", "x"]),
                (["-m", "f.gguf", "-p", "a  b"], ["-m", "f.gguf", "-p", "a  b"]),
                (["--model=f.gguf", "Once"], ["-p", "Once", "--model=f.gguf"]),
                (["-m", "f.gguf", "Once"], ["-p", "Once", "-m", "f.gguf"]),
                (["-hf", "a/b", "Once"], ["-p", "Once", "-hf", "a/b"]),
                (["f.gguf", "-p", "Once"], ["f.gguf", "-p", "Once"]),
                (["-p", "Once", "f.gguf"], ["-p", "Once", "f.gguf"]),
                (["-fx", "f.gguf"], ["-fx", "f.gguf"]),
                (["-n", "3", "--", "-dash"], tiny + ["-p", "-dash", "-n", "3", "--"]),
                (["-p", "Once", "--", "-model"], ["-p", "Once", "--", "-model"]),
                (["Once", "--"], tiny + ["-p", "Once", "--"])):
            self.check_args(given, expected)

    def test_run_two_words(self):
        for args in (["a", "b"], ["a", "-n", "3", "b"], ["a", "--", "b"], ["--", "a", "b"],
                     ["-m", "x", "a", "b", "c"]):
            done = self.start(*args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
            self.assertEqual(done.stderr.splitlines()[:2],
                             ["cera: error: unexpected argument b",
                              "  why: the prompt is one argument, and a is it"])

    def test_run_model_of_the_environment(self):
        done = self.start("Once", CERA_MODEL="f.gguf")
        self.assertEqual(done.stdout.split("\n")[:-1], ["run", "-p", "Once"])

    def test_run_failed_build(self):
        done = self.start("Once", NINJA_STATUS_CODE="3")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("run: failed: ninja", done.stderr)

    def count(self, log, status):
        self.write("build/x/Testing/Temporary/LastTest.log", log)
        done = subprocess.run(
            [sys.executable, os.path.join(self.root, "scripts/count-tests"),
             os.path.join(self.root, "build/x"), status],
            capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.split("\n")[:-1]

    def test_count(self):
        status, lines = self.count(LOG, "8")
        self.assertEqual(status, 1)
        self.assertEqual(lines, [
            "failed: unit/test_a: two",
            "failed: unit/test_dies: died, ran out of time or gave a non-zero exit status",
            "failed: examples/batch: died, ran out of time or gave a non-zero exit status",
            "skipped: unit/test_a/three: no model",
            "skipped: cli/test_b/test_y: not today",
            "2 skipped",
            "7 passed, 3 failed"])

    def test_count_nothing(self):
        self.assertEqual(self.count("", "0"), (1, ["0 passed, 0 failed"]))
        self.assertEqual(self.count("", "8"),
                         (1, ["failed: ctest: exit status 8", "0 passed, 1 failed"]))


if __name__ == "__main__":
    unittest.main()
