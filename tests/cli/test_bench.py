"""cera bench: the rows, the forms they are printed in, and what they must agree about."""
import csv
import filecmp
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import statistics
import tempfile
import time
import unittest

from program import TINY, TINY_FILE, cera, on_terminal, start

# Those of llama-bench that scripts compare, and ours. llama.cpp's compare-llama-bench.py reads no
# file without those from gpu_info to fit_min_ctx.
LLAMA_KEYS = ["build_commit", "cpu_info", "model_filename", "model_type", "model_size",
              "model_n_params", "n_batch", "n_ubatch", "n_threads", "type_k", "type_v", "n_prompt",
              "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
              "samples_ns", "samples_ts",
              "gpu_info", "backends", "n_gpu_layers", "n_cpu_moe", "tensor_buft_overrides",
              "embeddings", "cpu_mask", "cpu_strict", "poll", "load_mode", "no_kv_offload",
              "split_mode", "main_gpu", "tensor_split", "flash_attn", "fit_target", "fit_min_ctx",
              "build_number", "no_op_offload"]
KEYS = LLAMA_KEYS + ["schema", "p10_ts", "p50_ts", "p90_ts", "ttft_ns", "itl_ns"]
BUSY = "cera: warning: the machine is busy: "


def bench(*args, **keywords):
    return cera("bench", TINY, "-q", *args, **keywords)


class BenchTest(unittest.TestCase):
    def assert_error(self, result, code, *parts):
        self.assertEqual((result.code, result.out), (code, ""), result)
        lines = [l for l in result.err.splitlines() if not l.startswith(BUSY)]
        self.assertRegex(lines[0], r"^cera: error: \S", result)
        for part in parts:
            self.assertIn(part, result.err)

    # ---- values ----

    def test_rows_agree_with_themselves(self):
        result = bench("-p", "32", "-n", "8", "-r", "4", "-t", "1", "-o", "json")
        self.assertEqual((result.code, result.err), (0, ""), result)
        prompt, generation = result.json
        for row, n in ((prompt, 32), (generation, 8)):
            self.assertEqual(sorted(set(KEYS) - set(row)), [])
            ns, ts = row["samples_ns"], row["samples_ts"]
            self.assertEqual((len(ns), len(ts)), (4, 4))
            for a, b in zip(ns, ts):
                self.assertGreater(a, 0)
                self.assertAlmostEqual(b, n * 1e9 / a, delta=b * 1e-6)
            self.assertAlmostEqual(row["avg_ns"], statistics.mean(ns), delta=1)
            self.assertAlmostEqual(row["stddev_ns"], statistics.stdev(ns), delta=1)
            self.assertAlmostEqual(row["avg_ts"], statistics.mean(ts), delta=row["avg_ts"] * 1e-6)
            self.assertAlmostEqual(row["stddev_ts"], statistics.stdev(ts),
                                   delta=row["avg_ts"] * 1e-6)
            # The deciles of four values, by the rule that interpolates from end to end.
            deciles = statistics.quantiles(ts, n=10, method="inclusive")
            for key, value in (("p10_ts", deciles[0]), ("p50_ts", deciles[4]),
                               ("p90_ts", deciles[8])):
                self.assertAlmostEqual(row[key], value, delta=value * 1e-6)
            first = row["ttft_ns"]
            self.assertLessEqual(first["p50"], first["p90"])
            self.assertLessEqual(first["p90"], first["p99"])
        self.assertEqual((prompt["n_prompt"], prompt["n_gen"]), (32, 0))
        self.assertEqual((generation["n_prompt"], generation["n_gen"]), (0, 8))
        # A prompt has no second token; its first comes after all of it.
        self.assertEqual(prompt["itl_ns"], {"p50": None, "p90": None, "p99": None})
        self.assertGreaterEqual(prompt["ttft_ns"]["p50"], statistics.median(prompt["samples_ns"]))
        # Of a generation, one token is a part.
        self.assertLess(generation["ttft_ns"]["p50"], max(generation["samples_ns"]))
        self.assertLess(0, generation["itl_ns"]["p50"])
        self.assertLessEqual(generation["itl_ns"]["p50"], generation["itl_ns"]["p99"])

    def test_what_a_row_says_of_the_model(self):
        facts = cera("inspect", TINY_FILE, "--json").json
        row = cera("bench", TINY_FILE, "-q", "-p", "8", "-n", "0", "-r1", "-t2", "--json").json[0]
        self.assertEqual(row["schema"], "cera.bench/1")
        self.assertEqual(row["model_filename"], TINY_FILE)
        self.assertEqual(row["model_n_params"], facts["params"])
        self.assertEqual(row["model_size"], sum(t["size"] for t in facts["tensors"]))
        self.assertEqual(row["model_type"], "lfm2 1.8M Q8_0")
        self.assertEqual((row["n_threads"], row["n_ubatch"], row["type_k"]), (2, 512, "f16"))
        self.assertEqual((row["stddev_ns"], row["stddev_ts"]), (0, 0))
        self.assertTrue(row["cpu_info"])
        self.assertEqual((row["load_mode"], row["n_gpu_layers"]), ("mmap", 0))
        at = time.strptime(row["test_time"], "%Y-%m-%dT%H:%M:%SZ")
        self.assertLess(abs(time.mktime(at) - time.mktime(time.gmtime())), 600)
        row = bench("-p", "8", "-n", "0", "-r1", "--ubatch-size", "4", "--kv-type", "f32",
                    "--no-mmap", "--json", env={"CERA_CPU_TIER": "scalar"}).json[0]
        self.assertEqual((row["n_ubatch"], row["n_batch"], row["load_mode"]), (4, 4, "none"))
        self.assertEqual((row["type_k"], row["type_v"], row["cpu_tier"]), ("f32", "f32", "scalar"))

    def test_more_work_takes_longer(self):
        short, long = bench("-p", "16,400", "-n", "0", "-r", "5", "-t1", "-o", "json").json
        self.assertLess(4 * min(short["samples_ns"]), min(long["samples_ns"]))

    # ---- lists ----

    def test_lists_make_tests_in_order(self):
        result = bench("-p", "4,0,8", "-n", "2", "-d", "0,16", "-t", "1,2", "-r", "1", "-o", "jsonl")
        self.assertEqual(result.code, 0, result)
        rows = [json.loads(line) for line in result.out.splitlines()]
        found = [(r["n_threads"], r["n_depth"], r["n_prompt"], r["n_gen"]) for r in rows]
        self.assertEqual(found, [(t, d, p, n) for t in (1, 2) for d in (0, 16)
                                 for p, n in ((4, 0), (8, 0), (0, 2))])

    def test_sessions_at_the_same_time(self):
        args = ["-p", "8", "-n", "6", "-r", "3", "-t", "1", "--parallel", "1,20,3"]
        result = bench(*args, "-d", "0,5", "-o", "json")
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertEqual([(r["n_parallel"], r["n_depth"], r["n_prompt"]) for r in result.json],
                         [(b, d, p) for b in (1, 20, 3) for d in (0, 5) for p in (8, 0)])
        for row in result.json:
            n = row["n_parallel"] * (row["n_prompt"] + row["n_gen"])
            for ns, ts in zip(row["samples_ns"], row["samples_ts"], strict=True):
                self.assertAlmostEqual(ts, n * 1e9 / ns, delta=ts * 1e-6)
            # Of a generation, every session's last token comes within the run, and one at its end.
            longest = max(row["samples_ns"])
            if row["n_gen"]:
                self.assertLess(row["ttft_ns"]["p99"], longest)
                self.assertLess(row["itl_ns"]["p99"], longest)
        lines = bench(*args).out.splitlines()
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines[:8]]
        self.assertEqual(cells[0][5:], ["n_parallel", "test", "t/s"])
        self.assertEqual([c[5:7] for c in cells[2:]],
                         [[b, t] for b in ("1", "20", "3") for t in ("pp8", "tg6")])
        self.assertEqual(len({len(line) for line in lines[:8]}), 1, lines)
        self.assertEqual(bench("-p", "4", "-n0", "-r1", "--json").json[0]["n_parallel"], 1)

    def test_names_of_the_rust_engine(self):
        a = bench("--prompt-tokens", "8", "--max-tokens", "0", "--runs", "2", "--warmup", "0",
                  "--json")
        b = bench("--n-prompt=8", "--n-gen=0", "--repetitions=2", "--no-warmup", "--format", "json")
        for result in (a, b):
            self.assertEqual((result.code, len(result.json)), (0, 1), result)
            self.assertEqual((result.json[0]["n_prompt"], len(result.json[0]["samples_ns"])), (8, 2))

    def test_text(self):
        n = len(cera("tokenize", TINY, "-t", "Once upon a time", "--json").json["ids"])
        args = ["--prompt-text", "Once upon a time", "-n", "0", "-r", "1", "--json"]
        self.assertEqual(bench(*args).json[0]["n_prompt"], n)
        self.assertEqual([r["n_prompt"] for r in bench(*args, "-p", "2,40").json], [2, 40])
        self.assert_error(bench("-p", "Once upon a time"), 2, "--prompt-text")

    def test_defaults(self):
        result = bench("-r", "1", "--no-warmup")
        self.assertEqual(re.findall(r"(?:pp|tg)\d+", result.out), ["pp512", "tg128"])
        self.assertEqual(len(bench("-p4", "-n0", "--json").json[0]["samples_ns"]), 5)

    # ---- forms ----

    def test_markdown(self):
        result = bench("-p", "8", "-n", "4", "-d", "0,16", "-r", "2", "-t", "1")
        lines = result.out.splitlines()
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines[:6]]
        self.assertEqual(cells[0], ["model", "size", "params", "backend", "threads", "test", "t/s"])
        self.assertTrue(all(set(c) <= set("-:") and len(c) > 6 for c in cells[1]), result)
        self.assertEqual([c.endswith(":") for c in cells[1]], [False, True, True, False, True, True,
                                                               True])
        self.assertEqual(len({len(line) for line in lines[:6]}), 1, result)
        self.assertEqual([c[5] for c in cells[2:]], ["pp8", "tg4", "pp8 @ d16", "tg4 @ d16"])
        for c in cells[2:]:
            self.assertEqual(c[:5], ["lfm2 1.8M Q8_0", "1.83 MiB", "1.79 M", "CPU", "1"])
            self.assertRegex(c[6], "^[0-9]+\\.[0-9]{2} \u00b1 [0-9]+\\.[0-9]{2}$")
        self.assertEqual(lines[6], "")
        self.assertRegex(lines[7], r"^build: cera \d+\.\d+\.\d+ \(\w+\)$")
        self.assertEqual(len(lines), 8)
        self.assertIn("n_ubatch", bench("-p8", "-n0", "-r1", "--ubatch-size", "4").out)
        for kv_type in ("f32", "q8_0"):
            lines = bench("-p8", "-n0", "-r1", "--kv-type", kv_type).out.splitlines()
            cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
            self.assertEqual((cells[0][5:7], cells[2][5:7]), (["type_k", "type_v"], [kv_type] * 2))

    def test_csv(self):
        result = bench("-p", "8", "-n", "4", "-r", "2", "-o", "csv")
        rows = list(csv.DictReader(io.StringIO(result.out)))
        self.assertEqual([(r["n_prompt"], r["n_gen"]) for r in rows], [("8", "0"), ("0", "4")])
        for key in KEYS:
            if key in ("ttft_ns", "itl_ns"):
                key += "_p90"
            self.assertEqual(key in rows[0], not key.startswith("samples_"), key)
        self.assertGreater(float(rows[0]["avg_ts"]), 0)
        self.assertEqual((rows[0]["itl_ns_p50"], rows[0]["embeddings"]), ("", "0"))
        self.assertGreater(int(rows[1]["itl_ns_p50"]), 0)

    def test_sql(self):
        args = ["-p", "8", "-n", "4", "-r", "2", "-o", "sql"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "it's\na \"model\".gguf")
            shutil.copy(TINY_FILE, path)
            base = sqlite3.connect(":memory:")
            for result in (bench(*args), cera("bench", path, "-q", *args)):
                self.assertEqual((result.code, result.err), (0, ""), result)
                base.executescript(result.out)
        base.row_factory = sqlite3.Row
        rows = [dict(row) for row in base.execute("SELECT * FROM llama_bench")]
        self.assertEqual([(r["model_filename"], r["n_prompt"], r["n_gen"]) for r in rows],
                         [(m, p, n) for m in (TINY, path) for p, n in ((8, 0), (0, 4))])
        columns = next(csv.DictReader(io.StringIO(bench(*args[:-1], "csv").out)))
        self.assertEqual(list(columns), list(rows[0]))
        self.assertEqual((rows[0]["itl_ns_p50"], rows[0]["embeddings"]), (None, 0))
        self.assertAlmostEqual(rows[0]["avg_ts"], rows[0]["p50_ts"], delta=rows[0]["avg_ts"] * 1e-6)

    def test_streams(self):
        result = cera("bench", TINY, "-p", "8", "-n", "0", "-r", "2", "-v", "--json")
        self.assertEqual(len(result.json), 1)
        self.assertIn("pp8, ", result.err)
        self.assertIn("run 2 of 2: ", result.err)
        quiet = [l for l in cera("bench", TINY, "-p8", "-n0", "-r1").err.splitlines()
                 if not l.startswith(BUSY)]
        self.assertEqual(quiet, [])
        result = cera("bench", TINY, "-p8", "-n4", "-r2", "--progress", "json", "-q")
        self.assertEqual(result.err, "")
        events = [json.loads(l) for l in
                  cera("bench", TINY, "-p8", "-n400", "-r2", "--progress", "json").err.splitlines()
                  if not l.startswith(BUSY)]
        self.assertEqual((events[-1]["file"], events[-1]["done"]), ("bench", events[-1]["total"]))
        code, _, out, _ = on_terminal("bench", TINY, "-p8", "-n0", "-r1", streams=("stdin", "stderr"))
        self.assertEqual((code, out[:8]), (0, b"| model "))

    # ---- mistakes ----

    def test_wrong_lists(self):
        for letter in ("-p", "-n", "-d", "-t"):
            for text in ("", ",", "1,,2", "1,", "x", "-1", "1 2", "4x", "2147483648", "1,-2"):
                self.assert_error(bench(letter, text), 2, "separated by commas")
        for option in ("-t", "--parallel"):
            self.assert_error(bench(option, "1,257"), 2, "from 0 to 256")
        self.assert_error(bench("-ngl", "99"), 2, '-n has a value that it does not take: "gl"')
        self.assert_error(bench("--parallel", "0"), 2, "nothing to measure")
        self.assert_error(bench("-p", "0", "-n", "0,0"), 2, "nothing to measure")
        for args in (["-r", "0"], ["-r", "x"], ["--warmup", "-1"], ["-o", "xml"], ["-o"],
                     ["--temperature", "1"], ["--prompt-text", "", "--no-bos"], ["more"]):
            self.assert_error(bench(*args), 2)

    def test_no_model(self):
        self.assert_error(cera("bench", "-p", "8"), 2, "no model is named", "cera bench")
        self.assert_error(cera("bench", "/nowhere.gguf"), 3, "/nowhere.gguf")
        error = json.loads(cera("bench", "/nowhere.gguf", "--format", "json").err)["error"]
        self.assertEqual(error["exit"], 3)

    def test_context_too_small(self):
        for args in (["-p", "1025"], ["-n", "1024", "-p", "0"], ["-d", "1000"],
                     ["-p", "2147483647", "-d", "2147483647"]):
            self.assert_error(bench(*args), 6, "the model has room for 1024")
        self.assert_error(bench("-p", "65", "-n", "0", "-c", "64"), 6, "the context has room for 64",
                          "a larger --context-size")
        self.assert_error(bench("-p", "1025", "-c", "64"), 6, "the model has room for 1024")
        for args in (["-p", "1024", "-n", "0"], ["-p", "64", "-n", "0", "-c", "64"],
                     ["-p", "0", "-n", "3", "-d", "60", "-c", "64"]):
            self.assertEqual(bench(*args, "-r", "1", "--no-warmup").code, 0)

    # ---- interrupts ----

    def test_roofline(self):
        rows = bench("-p", "8", "-n", "4", "-r", "2", "-t", "1", "--roofline", "--json").json
        self.assertEqual([r["bound"] for r in rows], ["multiply", "read"])
        for row in rows:
            self.assertGreater(row["bound_rate"], 1e6)
            self.assertGreater(row["bound_share"], 0)
        lines = bench("-p", "8", "-n", "0", "-r", "1", "--roofline").out.splitlines()
        self.assertTrue(lines[0].rstrip(" |").endswith("of the bound"))
        self.assertRegex(lines[2], r"\d+ % of \d+\.\d GMAC/s \|$")
        self.assertNotIn("bound", bench("-p8", "-n0", "-r1", "-o", "csv").out)

    def test_tune(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tuning.json")
            self.assertEqual(bench("--tune", path, "-t", "1").code, 0)
            with open(path) as file:
                tuning = json.load(file)
            self.assertEqual(tuning["version"], 1)
            self.assertEqual(bench("-p4", "-n0", "-r1", "--tuning", path).code, 0)
            tuning["cpu"] = "Z80"
            with open(path, "w") as file:
                json.dump(tuning, file)
            refused = bench("-p4", "-n0", "-r1", "--tuning", path)
            self.assertNotEqual(refused.code, 0)
            self.assertIn("measured on another processor, Z80", refused.err)

    def test_tune_leaves_what_is_there(self):
        """No part of a file where one cannot be, and the one that is there until there is another."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tuning.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write("before")
            process = start("bench", TINY, "--tune", path, "-t", "1")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            if process.returncode != 0:
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), "before")
            for name, why in ((folder, "expected a regular file"), (path + "/x", "not a directory")):
                refused = bench("--tune", name)
                self.assertEqual(refused.code, 1, refused)
                self.assertIn("cannot tune\n  why: %s: " % name, refused.err)
                self.assertIn(why, refused.err)
            refused = cera("bench", "/nowhere.gguf", "--tune", path)
            self.assertEqual((refused.code, BUSY in refused.err), (3, False), refused)
            self.assertEqual(os.listdir(folder), ["tuning.json"])

    def test_tuning_is_to_blame(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tuning.json")
            for text, why in (("", "line 1, column 1: expected a value of JSON"),
                              ("[]", "expected a tuning file of version 1"),
                              ('{"version": 1, "cpu": 5}', "cpu: expected the name of a proc"),
                              (" " * 5000, "expected at most 4096 bytes, found 5000"),
                              (None, "cannot open: no such file")):
                if text is None:
                    os.unlink(path)
                else:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                refused = bench("-p4", "-n0", "-r1", "--tuning", path)
                self.assertEqual(refused.code, 1, refused)
                self.assertIn("cannot use the tuning %s\n  why: %s" % (path, why), refused.err)
                self.assertIn("--tune", refused.err)

    def test_tune_does_not_replace_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            model, symlink = (os.path.join(folder, n) for n in ("m.gguf", "link"))
            shutil.copy(TINY_FILE, model)
            os.symlink(model, symlink)
            for path in (model, symlink):
                refused = cera("bench", model, "--tune", path)
                self.assertEqual(refused.code, 2, refused)
                self.assertIn("--tune names the model: " + path, refused.err)
            self.assertTrue(filecmp.cmp(TINY_FILE, model, shallow=False))

    def test_interrupt_keeps_what_was_measured(self):
        process = start("bench", TINY, "-q", "-p", "4", "-n", "1000", "-r", "2000", "-v", "-o",
                        "json", "-t", "1")
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (130, b""))
        if out:  # on a slow machine not even the first test may have ended
            self.assertEqual([r["n_prompt"] for r in json.loads(out)], [4])

    def test_interrupt_between_engines_keeps_what_was_measured(self):
        process = start("bench", TINY, "-v", "-p", "4", "-n", "0", "-r", "1", "--roofline", "-o",
                        "json", "-t", ",".join(["1"] * 1000))
        while b"run 1 of 1" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        time.sleep(0.05)  # measuring the machine takes longer
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, b"error" in err), (143, False), err)
        self.assertEqual({r["n_prompt"] for r in json.loads(out)}, {4})

    def test_interrupt_ends_all_sessions(self):
        process = start("bench", TINY, "-q", "-p", "0", "-n", "1000", "-r", "2000", "-t", "1",
                        "--parallel", "5")
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.communicate(timeout=60)[1], process.returncode), (b"", 130))

    def test_reader_that_leaves(self):
        process = start("bench", TINY, "-q", "-p", "4,4,4,4", "-n", "0", "-r", "3", "-o", "jsonl")
        process.stdout.close()
        self.assertEqual((process.wait(timeout=60), process.stderr.read()), (0, b""))
        process.stderr.close()


if __name__ == "__main__":
    unittest.main()
