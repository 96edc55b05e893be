"""bench/peers with engines that are shell scripts: what it runs, computes and says, and how it builds
llama.cpp where the first build does not work. No network, no compiler, no measuring."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from program import ROOT, TINY_FILE, environment

PEERS = os.path.join(ROOT, "bench", "peers")

# Each call prints the next of the speeds; the calls are recorded.
CERA = """#!/bin/sh
echo "cera $*" >> "$LOG"
n=$(grep -c '^cera' "$LOG")
[ "$n" != 2 ] || echo 'cera: warning: the machine is busy: x' >&2
echo '[{"cera_version":"9.9.9","cpu_tier":"scalar","avg_ts":'$((n * 100))'}]'
"""
LLAMA = """#!/bin/sh
echo "llama $*" >> "$LOG"
case "$*" in *bad.gguf*) echo 'no such model' >&2; exit 1 ;; esac
echo '[{"build_commit":"abc","avg_ts":50}]'
"""
LLAMA_BATCHED = """#!/bin/sh
echo "batched $*" >> "$LOG"
echo 'some line'
echo '{"speed_pp": 400.0, "speed_tg": 40.0}'
"""
RUST = """#!/bin/sh
echo "rust $CERA_THREADS $*" >> "$LOG"
echo 'run 1/1: prefill=25.0 decode=40.0 tok/s ttft=1 ms' >&2
"""
# Makes a llama-bench that dies when it was told to build for the processor it finds.
CMAKE = """#!/bin/sh
echo "cmake $*" >> "$LOG"
[ "$1" = --build ] && exit
mkdir -p "$4/bin"
case "$*" in
    *GGML_NATIVE=ON*) printf '#!/bin/sh\\nkill -ILL $$\\n' > "$4/bin/llama-bench" ;;
    *) cp "$LLAMA_BENCH" "$4/bin/llama-bench" ;;
esac
echo > "$4/bin/llama-batched-bench"
printf '#!/bin/sh\\necho "quantize $*" >> "$LOG"; echo > "$3"\\n' > "$4/bin/llama-quantize"
chmod +x "$4/bin"/*
"""


class PeersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.log = os.path.join(self.folder, "log")
        for name, text in (("cera", CERA), ("bin/llama-bench", LLAMA), ("rust", RUST),
                           ("bin/llama-batched-bench", LLAMA_BATCHED), ("path/cmake", CMAKE)):
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            os.chmod(path, 0o755)
        for name in ("m.gguf", "a.gguf", "good.gguf", "bad.gguf", "m-f16.gguf", "x/m-f16.gguf"):
            self.write(name, "")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def peers(self, *args, built=True, **env):
        where = ["--llama-bin", os.path.join(self.folder, "bin")] if built else []
        done = subprocess.run(
            [sys.executable, PEERS, "--cera", os.path.join(self.folder, "cera"), *where, *args],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=self.folder,
            env=environment(LOG=self.log, **env))
        calls = []
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as f:
                calls = f.read().splitlines()
        return done, calls

    def test_rounds_alternate_and_ratios_pair(self):
        done, calls = self.peers("-p", "512", "-n", "0", "-t", "2", "--json", "m.gguf")
        self.assertEqual(done.returncode, 0, done)
        result = json.loads(done.stdout)
        row, = result["rows"]
        self.assertEqual(row["cera_ts"], [100, 200, 300, 400, 500])
        self.assertEqual(row["ratios"], [2, 4, 6, 8, 10])
        self.assertEqual(row["ratio"], {"median": 6, "min": 2, "max": 10})
        self.assertEqual((row["test"], row["n_threads"], row["peer"]), ("pp512", 2, "llama.cpp"))
        self.assertEqual((result["n_runs"], result["n_busy"]), (5, 1))
        self.assertEqual(result["versions"], {"cera": "9.9.9 (scalar)", "llama.cpp": "abc"})
        # The first call is the trial of the build.
        self.assertEqual([c.split()[0] for c in calls[1:]],
                         ["cera", "llama", "llama", "cera", "cera", "llama", "llama", "cera", "cera",
                          "llama"])
        self.assertEqual(calls[1], "cera bench m.gguf -t 2 -p 512 -n 0 -d 0 -r 1 -o json")
        self.assertEqual(calls[2], "llama -m m.gguf -t 2 -p 512 -n 0 -d 0 -r 1 -o json")

    def test_table(self):
        done, _ = self.peers("-p", "8", "-n", "4", "-d", "0,16", "--rounds", "1", "a.gguf",
                             "--llama-args", "", "--llama-args", "-fa on", "--rust-bin",
                             os.path.join(self.folder, "rust"))
        lines = done.stdout.splitlines()
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
        self.assertEqual(cells[0], ["model", "test", "threads", "peer", "cera t/s", "peer t/s",
                                    "ratio", "min", "max"])
        self.assertEqual([c[1:4] for c in cells[2:8]],
                         [[t, "1", p] for t in ("pp8", "tg4")
                          for p in ("llama.cpp", "llama.cpp -fa on", "cera-cli (Rust)")])
        self.assertEqual(cells[4][4:], ["100.00", "25.00", "4.00", "4.00", "4.00"])
        self.assertEqual(cells[7][4:], ["200.00", "40.00", "5.00", "5.00", "5.00"])
        self.assertEqual(len(cells), 2 + 2 * 4 * 3 + 3)
        self.assertIn("busy with other work before 1 of the runs", lines[-1])
        # The Rust engine has no prompt at a depth.
        self.assertEqual(cells[10][3:5], ["cera-cli (Rust)", "cera-cli (Rust) failed"])
        self.assertEqual(done.returncode, 1)

    def test_many_texts(self):
        done, calls = self.peers("-p", "64", "-n", "32", "-d", "0,16", "-t", "2", "--parallel",
                                 "1,8", "--rounds", "1", "--json", "m.gguf", "--rust-bin",
                                 os.path.join(self.folder, "rust"))
        rows = {(r["test"], r["peer"]): r for r in json.loads(done.stdout)["rows"]}
        self.assertEqual(rows["pp64 x 8", "llama.cpp"]["peer_ts"], [400])
        self.assertEqual(rows["tg32 @ d16 x 8", "llama.cpp"]["peer_ts"], [40])
        self.assertEqual(rows["tg32 x 1", "llama.cpp"]["n_parallel"], 1)
        self.assertEqual(rows["tg32 x 1", "cera-cli (Rust)"]["peer_ts"], [40])
        for key in (("pp64 @ d16 x 8", "llama.cpp"), ("tg32 x 8", "cera-cli (Rust)")):
            self.assertEqual(rows[key]["failed"], key[1])
        self.assertEqual((done.returncode, len(rows)), (1, 16), done)
        self.assertIn("cera bench m.gguf -t 2 -p 0 -n 32 -d 16 --parallel 8 -r 1 -o json", calls)
        self.assertIn("batched -m m.gguf -t 2 -tb 2 -npp 16 -ntg 32 -npl 8 -c 384 --output-format "
                      "jsonl", calls)
        self.assertIn("batched -m m.gguf -t 2 -tb 2 -npp 64 -ntg 1 -npl 8 -c 520 --output-format "
                      "jsonl", calls)

    def test_few_tokens_of_many_texts(self):
        done, calls = self.peers("-p", "0", "-n", "4", "-t", "2", "--parallel", "1", "--rounds", "1",
                                 "m.gguf")
        self.assertIn("-npp 1 -ntg 4 -npl 1 -c 16 --output-format", calls[-1])
        self.assertIn("llama.cpp unknown.", done.stdout)

    def test_threads_of_the_rust_engine(self):
        _, calls = self.peers("-p", "0", "-n", "4", "-t", "2", "--rounds", "1", "a.gguf",
                              "--rust-bin", os.path.join(self.folder, "rust"))
        self.assertTrue(calls[-1].startswith("rust 2 bench -m a.gguf --device cpu --no-cache"), calls)

    def test_a_peer_that_fails(self):
        done, calls = self.peers("-n", "0", "-t", "1", "good.gguf", "bad.gguf")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such model", done.stderr)
        self.assertIn("llama.cpp failed", done.stdout)
        self.assertEqual(sum("llama -m bad" in c for c in calls), 1)
        done, _ = self.peers("bad.gguf")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("does not work here", done.stderr)

    def test_builds_again_without_amx(self):
        source = os.path.join(self.folder, "peers", "llama_cpp_python-0.3.36", "vendor",
                              "llama.cpp")
        os.makedirs(source)
        with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8"):
            pass
        env = {"PATH": os.path.join(self.folder, "path") + ":" + os.environ["PATH"],
               "LLAMA_BENCH": os.path.join(self.folder, "bin", "llama-bench"),
               "CERA_CACHE": self.folder}
        args = ["-n", "0", "-t", "1", "--rounds", "1", "--quant", "Q4_0,Q8_0", "m-f16.gguf"]
        done, calls = self.peers(*args, built=False, **env)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("died of SIGILL", done.stderr)
        configured = [c for c in calls if c.startswith("cmake -S")]
        self.assertEqual(len(configured), 2)
        self.assertIn("-DGGML_NATIVE=ON", configured[0])
        self.assertIn("-DGGML_NATIVE=OFF", configured[1])
        self.assertNotIn("AMX", configured[1])
        models = os.path.join(self.folder, "peers", "models")
        of_model, = os.listdir(models)
        self.assertEqual(sorted(os.listdir(os.path.join(models, of_model))),
                         ["m-f16-Q4_0.gguf", "m-f16-Q8_0.gguf"])
        self.assertEqual([l.split()[1] for l in done.stdout.splitlines()[2:4]],
                         ["m-f16-Q4_0.gguf", "m-f16-Q8_0.gguf"])
        # What is built stays built, and what is quantised quantised.
        os.remove(self.log)
        done, calls = self.peers(*args, built=False, **env)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual([c for c in calls if c.startswith(("cmake", "quantize"))], [])
        # Another model of that name is not taken for it, nor is the file when it has changed.
        args[-1] = "x/m-f16.gguf"
        for text in (None, "changed"):
            if text:
                self.write(args[-1], text)
            _, calls = self.peers(*args, built=False, **env)
            self.assertEqual(sum(c.startswith("quantize") for c in calls), 2, calls)
            os.remove(self.log)
        # A build that was interrupted goes on.
        os.remove(os.path.join(self.folder, "peers", "llama-0.3.36-explicit", "bin",
                               "llama-batched-bench"))
        _, calls = self.peers(*args, built=False, **env)
        self.assertEqual(sum(c.startswith("cmake -S") for c in calls), 1, calls)

    def test_shapes_are_made_once(self):
        args = ["-n", "0", "-p", "8", "-t", "1", "--rounds", "1", "--dir", self.folder, "--shape",
                "SmolLM2-135M", "--quant", "Q4_0", "--json"]
        done, calls = self.peers(*args)
        self.assertEqual(done.returncode, 0, done)
        path = os.path.join(self.folder, "models", "SmolLM2-135M-random-Q4_0.gguf")
        self.assertEqual([row["model"] for row in json.loads(done.stdout)["rows"]], [path])
        self.assertIn("cera bench %s -t 1" % path, calls[1])
        made = os.stat(path)
        done, _ = self.peers(*args)
        self.assertEqual(os.stat(path).st_mtime_ns, made.st_mtime_ns)
        done, _ = self.peers("--dir", self.folder, "--shape", "SmolLM3-1T")
        self.assertEqual(done.returncode, 1)
        self.assertIn("invalid choice: 'SmolLM3-1T'", done.stderr)

    def test_interrupt_prints_what_is_finished(self):
        process = subprocess.Popen(
            [sys.executable, PEERS, "--cera", os.path.join(self.folder, "cera"), "--llama-bin",
             os.path.join(self.folder, "bin"), "-n", "0", "-p", ",".join(["8"] * 1000), "--json",
             "m.gguf"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env=environment(LOG=self.log))
        n_rounds = 0
        while n_rounds < 6:  # the first test is finished
            n_rounds += "round" in process.stderr.readline()
        process.terminate()
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn(len(json.loads(out)["rows"]), range(1, 1000))

    def test_mistakes(self):
        for args in ([], ["-p", "x", "m.gguf"], ["-t", "0", "m.gguf"], ["--rounds", "0", "m.gguf"],
                     ["--parallel", "-1", "m.gguf"], ["-p", "0", "-n", "0", "m.gguf"],
                     ["--jobs", "0", "m.gguf"], ["--quant", "Q4_0,", "m.gguf"], ["--shape", ""],
                     ["--llama-args", "'", "m.gguf"]):
            done, calls = self.peers(*args)
            self.assertEqual((done.returncode, done.stdout, calls), (2, "", []), done)

    def test_what_is_missing(self):
        """It is named before anything is built or run."""
        for args, why in ((["nowhere.gguf"], "no file at nowhere.gguf"),
                          (["--cera", "nowhere", "m.gguf"], "no program at nowhere: build it"),
                          (["--rust-bin", "nowhere", "-p", "8", "m.gguf"], "No such file")):
            done, _ = self.peers(*args)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done)
            self.assertIn(why, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        done, _ = self.peers("m.gguf", built=False, PATH="/nowhere", CERA_CACHE="/dev/null")
        self.assertEqual(done.returncode, 1)
        self.assertIn("peers: error: [Errno 20] Not a directory: '/dev/null/peers'", done.stderr)
        os.makedirs(os.path.join(self.folder, "peers", "llama_cpp_python-0.3.36"))
        done, _ = self.peers("m.gguf", built=False, PATH="/nowhere", CERA_CACHE=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("peers: error: cmake: No such file or directory", done.stderr)

    def test_output_that_is_no_figures(self):
        for text in ("", "[]", "{}", "[5]", '[{"avg_ts": 1}]', '[{"build_commit": "x", "avg_ts": 0}]',
                     '[{"build_commit": "x", "avg_ts": NaN}]', '[{"build_commit": "x", "avg_ts": {}}]'):
            self.write("bin/llama-bench", "#!/bin/sh\necho '%s'\n" % text)
            done, _ = self.peers("-n", "0", "-t", "1", "--rounds", "1", "--json", "m.gguf")
            self.assertEqual(done.returncode, 1, done)
            self.assertEqual([r["failed"] for r in json.loads(done.stdout)["rows"]], ["llama.cpp"])

    def test_a_reader_that_leaves(self):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, PEERS, "--cera", os.path.join(self.folder, "cera"), "--llama-bin",
             os.path.join(self.folder, "bin"), "--rounds", "1", "m.gguf"], stdout=write,
            stderr=subprocess.PIPE, text=True, check=False, cwd=self.folder,
            env=environment(LOG=self.log))
        os.close(write)
        self.assertEqual(done.returncode, 0, done)
        self.assertNotIn("Broken", done.stderr)

    def test_the_real_program(self):
        done = subprocess.run(
            [sys.executable, PEERS, "--llama-bin", os.path.join(self.folder, "bin"), "-p", "8", "-n",
             "4", "-t", "1", "--rounds", "2", "--json", TINY_FILE,
             *(["--cera", os.environ["CERA_BIN"]] if "CERA_BIN" in os.environ else [])],
            capture_output=True, text=True, check=False, env=environment(LOG=self.log))
        self.assertEqual(done.returncode, 0, done)
        for row in json.loads(done.stdout)["rows"]:
            self.assertGreater(min(row["cera_ts"]), 0)


if __name__ == "__main__":
    unittest.main()
