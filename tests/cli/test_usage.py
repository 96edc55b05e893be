"""The command line itself: help, versions, mistakes, exit codes, the shape of errors."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from program import ROOT, TIERS, TINY, TINY_FILE, cera, on_terminal

COMMANDS = ["run", "chat", "inspect", "tokenize", "template", "logits", "embed", "perplexity",
            "cpu", "bench", "quantize", "convert", "completion", "help", "version"]


class UsageTest(unittest.TestCase):
    def assert_error(self, result, code, *parts):
        """One error in the documented form, nothing on standard output."""
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.out, "", result)
        lines = result.err.splitlines()
        self.assertRegex(lines[0], r"^cera: error: \S", result)
        self.assertEqual(sum(l.startswith("cera: error:") for l in lines), 1, result)
        for line in lines[1:3]:
            self.assertRegex(line, r"^(  why: |  try: |usage: |       )\S", result)
        for part in parts:
            self.assertIn(part, result.err)

    # ---- help ----

    def test_help_lists_what_there_is(self):
        for args in (["help"], ["--help"], ["-h"]):
            result = cera(*args)
            self.assertEqual((result.code, result.err), (0, ""), result)
            listed = re.findall(r"^  ([a-z]+) +\S", result.out, re.M)
            self.assertEqual([c for c in listed if c in COMMANDS], COMMANDS)
            for future in ("serve", "download"):
                self.assertNotIn("  " + future + " ", result.out)

    def test_help_of_each_command(self):
        for command in COMMANDS:
            texts = [cera("help", command), cera(command, "--help"), cera(command, "-h")]
            for result in texts:
                self.assertEqual((result.code, result.err), (0, ""), result)
                self.assertTrue(result.out.startswith("usage: cera %s" % command), result)
                self.assertEqual(result.out, texts[0].out)
                self.assertLessEqual(max(map(len, result.out.splitlines())), 100)

    def test_a_letter_depends_on_the_command(self):
        self.assertIn("-t, --threads", cera("help", "run").out)
        self.assertIn("-t, --text", cera("help", "tokenize").out)
        self.assertIn("-p, --prompt", cera("help", "run").out)
        self.assertIn("-p, --n-prompt", cera("help", "bench").out)

    def test_hidden_aliases(self):
        text = cera("help", "run").out
        for alias in ("--temp ", "--n-predict", "--ctx-size", "--cpu-tier"):
            self.assertNotIn(alias, text)
        result = cera("run", TINY, "-p", "Once", "--temp", "0", "--n-predict", "2", "--ctx-size",
                      "64")
        self.assertEqual(result.code, 0, result)

    def test_version(self):
        for args in (["version"], ["--version"], ["-V"], ["run", "-V"]):
            self.assertRegex(cera(*args).out, r"^cera \d+\.\d+\.\d+\n$")
        result = cera("version", "--features", "--format", "json")
        self.assertEqual(result.json["schema"], "cera.version/1")
        self.assertIn("builtin_model", result.json["features"])
        # OpenBLAS in a build with CERA_BLAS, else nothing.
        self.assertRegex(str(result.json["features"]["blas"]), r"^(None|OpenBLAS [0-9.]+.*)$")

    def test_manual_and_completions_are_up_to_date(self):
        def stored(*path):
            with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
                return f.read()
        self.assertEqual(stored("docs", "cera.1"), cera("help", "--man").out)
        for shell in ("bash", "zsh", "fish"):
            self.assertEqual(stored("completions", "cera." + shell), cera("completion", shell).out)

    def test_bash_completion_works(self):
        script = """source /dev/stdin
            complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cera;
            echo "${COMPREPLY[*]}"; }
            complete_line cera tok; complete_line cera run --max; complete_line cera run --format j
            complete_line cera completion z"""
        done = subprocess.run(["bash", "-c", script], input=cera("completion", "bash").out,
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split("\n")[:4],
                         ["tokenize", "--max-tokens", "json jsonl", "zsh"])

    # ---- mistakes ----

    def test_no_command(self):
        self.assert_error(cera(), 2, "cera run -m builtin:tiny")
        result = cera("--format", "json")
        self.assertEqual((result.code, result.out), (2, ""), result)
        self.assertEqual(json.loads(result.err)["error"]["message"], "no command is named")

    def test_unknown_command(self):
        self.assert_error(cera("rnu"), 2, "unknown command rnu", "did you mean run?")
        self.assert_error(cera("tokenise"), 2, "did you mean tokenize?")
        self.assert_error(cera("help", "inspct"), 2, "did you mean inspect?")
        self.assert_error(cera("qqqqqq"), 2, "cera help")

    def test_unknown_option(self):
        self.assert_error(cera("run", "--max-token", "3"), 2, "--max-token",
                          "did you mean --max-tokens?")
        self.assert_error(cera("run", "--tmeperature=0"), 2, "did you mean --temperature?")
        self.assert_error(cera("--wat"), 2, "unknown option --wat")
        self.assert_error(cera("run", "-Z"), 2, "unknown option -Z")
        self.assert_error(cera("run", "--json"), 2, "did you mean --format json?")
        self.assert_error(cera("cpu", "--seed", "3"), 2, "unknown option --seed")

    def test_features_that_are_not_built_are_refused(self):
        for option in ("--image", "--audio-in"):
            self.assert_error(cera("run", TINY, "-p", "x", option, "y"), 2, option)
        for args in (["-hf", "org/repo"], ["--hf", "org/repo"], ["--bundle-id", "x"]):
            for result in (cera("run", *args), cera(*args, "run")):
                self.assert_error(result, 2, "downloads are not part of this build",
                                  "unknown option %s\n" % args[0])

    def test_values(self):
        for args, expected in [
                (["--top-p", "2"], "from 0 to 1"), (["--min-p=-1"], "from 0 to 1"),
                (["--top-k", "-1"], "from 0 to 2147483647"),
                (["--top-k", "4x"], "from 0 to 2147483647"),
                (["-n", "-3"], "from -1 to 2147483647"), (["-n", ""], "whole number"),
                (["-n", "99999999999999999999"], "whole number"),
                (["--temperature", "nan"], "finite"), (["--temperature", "inf"], "finite"),
                (["--temperature", "0x10"], "finite"), (["--temperature", " 1"], "finite"),
                (["--repetition-penalty", "0"], "from 1.17549435e-38 to 3.40282347e+38"),
                (["--repetition-penalty", "1e-40"], "from 1.17549435e-38 to 3.40282347e+38"),
                (["--temperature", "1e39"], "from -3.40282347e+38 to 3.40282347e+38"),
                (["-t", "-2"], "0 to 256"), (["-c", "67108865"], "from 0 to 67108864"),
                (["--seed", "-1"], "whole number"),
                (["--seed", "18446744073709551616"], "18446744073709551615"),
                (["--logprobs", "21"], "0 to 20"), (["-t", "257"], "0 to 256"),
                (["--kv-type", "tq3"], "f16, f32, q8_0"), (["--kv-cache-keys", "x"], "f16, f32, q8_0"),
                (["--format", "xml"], "text, json, jsonl"),
                (["--color", "red"], "auto, always, never"),
                (["--logit-bias", "5"], "ID=B"), (["--logit-bias", "5=nan"], "ID=B"),
                (["--logit-bias", "x=1"], "ID=B"), (["--token-ids", "1,,2"], "whole numbers"),
                (["--token-ids", "-1"], "whole numbers"), (["--token-ids", ""], "whole numbers")]:
            with self.subTest(args=args):
                prompt = [] if args[0] == "--token-ids" else ["-p", "x"]
                result = cera("run", TINY, *prompt, *args)
                self.assert_error(result, 2, expected)
                self.assertTrue(result.err.startswith("cera: error: %s has a value that it does "
                                                      "not take" % args[0].split("=")[0]), result)

    def test_bounds_can_be_typed_as_they_are_shown(self):
        for args in (["--repetition-penalty", "1.17549435e-38"],
                     ["--repetition-penalty", "3.40282347e+38"],
                     ["--temperature", "-3.40282347e+38"], ["-c", "67108864"],
                     ["--top-k", "2147483647"]):
            result = cera("run", TINY, "-p", "x", "-n1", *args)
            self.assertEqual(result.code, 0, result)

    def test_values_of_other_programs(self):
        args = ["run", TINY, "-p", "Once", "--seed", "3", "-c", "24", "--ignore-eos", "-q"]
        self.assertEqual(cera(*args, "-n", "-2").out, cera(*args, "-n", "-1").out)
        shown = [cera("run", TINY, "-p", "x", "-n1", "-v", "-t", n).err for n in ("-1", "0")]
        threads = [re.search(r"(\d+) threads", err).group(1) for err in shown]
        self.assertEqual(threads[0], threads[1])
        self.assert_error(cera("bench", TINY, "-t", "-1"), 2, "-t has a value")

    def test_errors_name_the_option_as_it_was_typed(self):
        for args, name, expected in [
                (["--ctx-size", "99999999"], "--ctx-size", "from 0 to 67108864"),
                (["--context-size=99999999"], "--context-size", "from 0 to 67108864"),
                (["--n-predict", "x"], "--n-predict", "whole number"),
                (["--temp", "x"], "--temp", "finite"),
                (["--stop", ""], "--stop", "1 to 256 bytes, found 0"),
                (["--stop", "x" * 257], "--stop", "1 to 256 bytes, found 257"),
                (["--stop=x"] * 17, "--stop", "at most 16"),
                (["--logit-bias=1=1"] * 1025, "--logit-bias", "at most 1024"),
                (["--logit-bias", "5=1", "--logit-bias", "1024=1"], "--logit-bias",
                 "from 0 to 1023")]:
            with self.subTest(name=name, expected=expected):
                result = cera("run", TINY, "-p", "x", *args)
                self.assert_error(result, 2, expected)
                self.assertTrue(result.err.startswith("cera: error: %s " % name), result)
        self.assert_error(cera("bench", TINY, "--prompt-tokens", "x"), 2,
                          "error: --prompt-tokens has")
        result = cera("run", TINY, "-p", "x", env={"CERA_TOKEN_IDS": "1,x"})
        self.assertEqual(result.code, 0, result)
        self.assert_error(cera("run", TINY, env={"CERA_TOKEN_IDS": "1,x"}), 2,
                          "error: CERA_TOKEN_IDS has")
        self.assert_error(cera("run", TINY, env={"CERA_TOKEN_IDS": "1,1024"}), 2,
                          "error: CERA_TOKEN_IDS names")

    def test_option_before_the_command(self):
        for args, hint in [(["-m", "X", "run", "-p", "hi"], "cera run -m PATH"),
                           (["--top-k=3", "logits"], "cera logits --top-k K"),
                           (["--no-mmap", "inspect"], "cera inspect --no-mmap"),
                           (["-p", "hi"], "cera run -p TEXT")]:
            self.assert_error(cera(*args), 2, "option %s stands before the command"
                              % args[0].split("=")[0], "  try: %s\n" % hint)

    def test_forms_of_options(self):
        want = cera("run", TINY, "-p", "Once", "-n", "3", "--temperature", "0").out
        for args in (["-m", TINY, "-pOnce", "-n3", "--temperature=0"],
                     ["-m" + TINY, "--prompt=Once", "--max-tokens=3", "--temperature", "-1"],
                     ["-qpOnce", "-n", "3", "--top-k=1", "--", TINY],
                     ["-n", "7", "-n", "3", "--top-k", "1", "-p", "Once", TINY]):
            result = cera("run", *args)
            self.assertEqual((result.code, result.out), (0, want), result)
        self.assertEqual(cera("-q", "run", TINY, "-p", "Once", "-n3", "--top-k", "1").out, want)
        self.assert_error(cera("run", "--no-mmap=1"), 2, "takes no value")
        self.assert_error(cera("run", "-p"), 2, "-p needs a value")
        self.assert_error(cera("run", "--seed"), 2, "--seed needs a value")

    def test_model_is_named_once(self):
        for command in ("run", "logits", "embed", "tokenize", "inspect"):
            text = [] if command == "inspect" else ["-t" if command == "tokenize" else "-p", "x"]
            self.assert_error(cera(command, *text), 2, "no model is named", "cera %s" % command,
                              "builtin:tiny")
            self.assert_error(cera(command, TINY, "-m", TINY, *text), 2, "two models")
            self.assert_error(cera(command, TINY, "more", *text), 2, "unexpected argument more")
        for command, why in (("run", "; a text goes behind --prompt\n"), ("inspect", "\n"),
                             ("tokenize", "; a text goes behind --text\n"),
                             ("bench", "; a text goes behind --prompt-text\n")):
            self.assert_error(cera(command, TINY, "more"), 2, "why: one model is expected" + why)

    def test_missing_model(self):
        for command in ("run", "logits", "embed", "tokenize", "inspect"):
            text = [] if command == "inspect" else ["-t" if command == "tokenize" else "-p", "x"]
            self.assert_error(cera(command, "-m", "/nowhere/model.gguf", *text), 3,
                              "/nowhere/model.gguf", "try: ")
            self.assert_error(cera(command, "-m", ROOT, *text), 3)
            self.assert_error(cera(command, "-m", "builtin:huge", *text), 3)

    def test_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            def link(name):
                os.symlink(TINY_FILE, os.path.join(folder, name))
            commands = [("inspect",), ("tokenize", "-t", "x"), ("run", "-p", "x", "-n1", "-q")]
            for command in commands:
                self.assert_error(cera(*command, folder), 3, folder, "found nothing")
            for name in ("notes.txt", ".hidden.gguf"):
                link(name)
            for command in commands:
                self.assert_error(cera(*command, "-m", folder), 3, "found notes.txt\n")
            link("b.gguf")
            for command in commands:
                for path in (folder, folder + "/"):
                    result = cera(*command, "-m", path)
                    self.assertEqual(result.code, 0, result)
            answer = cera("run", folder, "-p", "x", "-n1", "--format", "json").json
            self.assertEqual(answer["model"], os.path.join(folder, "b.gguf"))
            link("a.GGUF")
            for command in commands:
                self.assert_error(cera(*command, folder), 2, "found a.GGUF, b.gguf\n",
                                  "  try: -m %s/a.GGUF" % folder)
            for i in range(20):
                link("m%02d.gguf" % i)
            self.assert_error(cera("inspect", folder), 2, "m07.gguf and 12 more\n")

    def test_path_is_shown_once(self):
        path = "/nowhere/\x1b[31m\"\\\u009b\n.gguf"
        for command in ("run", "tokenize", "inspect"):
            text = [] if command == "inspect" else ["-t" if command == "tokenize" else "-p", "x"]
            result = cera(command, path, *text)
            self.assert_error(result, 3, "no such file")
            self.assertEqual(result.err.count("nowhere"), 1, result)
            result = cera(command, path, *text, "--format", "json")
            message = json.loads(result.err)["error"]["message"]
            self.assertEqual(message.count("nowhere"), 1)
            self.assertIn(path, message)

    def test_not_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            for content in (b"", b"GGU", b"hello world" * 100):
                path = os.path.join(folder, "bad\x1b[31m\n.gguf")
                with open(path, "wb") as f:
                    f.write(content)
                for command in ("inspect", "run"):
                    result = cera(command, path, *(["-p", "x"] if command == "run" else []))
                    self.assertEqual(result.code, 3, result)
                    self.assertNotIn("\x1b", result.err)
                    self.assertLessEqual(len(result.err.splitlines()), 3)

    def test_json_errors(self):
        for args, code, exit_code in [(["run", "--format", "json", "--bad"], "usage", 2),
                                      (["run", "--bad", "--format=jsonl"], "usage", 2),
                                      (["run", "-m", "/nowhere", "-p", "x", "--format", "json"],
                                       "model", 3)]:
            result = cera(*args)
            self.assertEqual((result.code, result.out), (exit_code, ""), result)
            error = json.loads(result.err)["error"]
            self.assertEqual((error["code"], error["exit"]), (code, exit_code))
            self.assertTrue(error["message"])
            self.assertIn("hint", error)

    # ---- environment ----

    def test_environment(self):
        args = ["run", TINY, "-p", "Once", "--temperature", "0"]
        three = cera(*args, "-n", "3").out
        self.assertEqual(cera(*args, env={"CERA_MAX_TOKENS": "3"}).out, three)
        self.assertEqual(cera(*args, "-n", "3", env={"CERA_MAX_TOKENS": "9"}).out, three)
        self.assertEqual(cera("run", "-n3", "--top-k=1",
                              env={"CERA_MODEL": TINY, "CERA_PROMPT": "Once"}).out, three)
        self.assertEqual(cera(*args, "-n3", env={"CERA_MODEL": "/nowhere"}).out, three)
        self.assertEqual(cera(*args, "-n3", env={"CERA_PROMPT_FILE": "/nowhere"}).out, three)
        self.assertEqual(cera(*args, "-n3", env={"CERA_THREADS": "", "CERA_VERSION": "9",
                                                "CERA_HELP": "1"}).out, three)
        self.assertEqual(cera(*args, "-n3", env={"CERA_QUIET": "1"}).err, "")
        self.assert_error(cera(*args, env={"CERA_THREADS": "many"}), 2, "CERA_THREADS")
        self.assert_error(cera(*args, env={"CERA_QUIET": "maybe"}), 2, "CERA_QUIET")
        for command in (args, ["logits", *args[1:4]], ["embed", *args[1:4]], ["bench", TINY],
                        ["cpu"], ["inspect", TINY]):
            self.assert_error(cera(*command, env={"CERA_CPU_TIER": "quantum"}), 2, "CERA_CPU_TIER",
                              "quantum", ", ".join(TIERS))
        self.assertEqual(cera(*args, "-n3", env={"CERA_CPU_TIER": "scalar"}).out, three)

    def test_variables_without_effect(self):
        names = ["CERA_DECODE_THREADS", "CERA_PREFILL_THREADS", "CERA_PIN"]
        args = ["run", TINY, "-p", "Once", "-n3", "--top-k=1"]
        for name in names:
            result = cera(*args, env={name: "1"})
            self.assertEqual(result.code, 0, result)
            self.assertEqual(result.err.count("cera: warning: %s has no effect" % name), 1, result)
        result = cera(*args, env=dict.fromkeys(names, "1"))
        self.assertEqual(result.err.count("cera: warning: "), 3, result)
        self.assertEqual(cera(*args, "-q", env=dict.fromkeys(names, "1")).err, "")
        self.assertEqual(cera("cpu", env=dict.fromkeys(names, "1")).err, "")
        self.assertNotIn("warning", cera(*args, env={"CERA_PIN": ""}).err)

    # ---- colour ----

    def test_colour(self):
        plain, red = "cera: error:", "\x1b["
        self.assertIn(plain, cera("--wat").err)
        self.assertIn(red, cera("--wat", "--color", "always").err
                      or cera("--color", "always", "--wat").err)
        self.assertIn(red, cera("--wat", env={"CLICOLOR_FORCE": "1"}).err)
        self.assertNotIn(red, cera("--color", "never", "--wat", env={"CLICOLOR_FORCE": "1"}).err)
        term = {"TERM": "xterm"}
        self.assertIn(red, on_terminal("--wat", env=term)[1])
        self.assertNotIn(red, on_terminal("--wat", env={"TERM": "dumb"})[1])
        self.assertNotIn(red, on_terminal("--wat", env={"NO_COLOR": "1", **term})[1])
        self.assertIn(red, on_terminal("--wat", env={"NO_COLOR": "", **term})[1])

    # ---- remarks ----

    def test_log_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            result = cera("run", TINY_FILE, "-p", "Once", "-n2", "-q", "--log-file", path)
            self.assertEqual((result.code, result.err), (0, ""))
            with open(path, encoding="utf-8") as f:
                self.assertIn("Generated tokens: 2", f.read())
            self.assert_error(cera("run", TINY, "-p", "x", "--log-file", folder), 1, folder)

    def test_log_file_is_not_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            model, link, symlink = (os.path.join(folder, n) for n in ("m.gguf", "a", "b"))
            with open(TINY_FILE, "rb") as f:
                content = f.read()
            with open(model, "wb") as f:
                f.write(content)
            os.link(model, link)
            os.symlink(model, symlink)
            for named in (model, folder):
                for log in (model, link, symlink):
                    for args in (["run", "-p", "x"], ["inspect"], ["tokenize", "-t", "x"]):
                        result = cera(*args, "-m", named, "--log-file", log)
                        self.assert_error(result, 2, "--log-file names the model: " + log)
                        result = cera(*args, named, env={"CERA_LOG_FILE": log})
                        self.assert_error(result, 2, "CERA_LOG_FILE names the model: " + log)
            with open(model, "rb") as f:
                self.assertEqual(f.read(), content)


if __name__ == "__main__":
    unittest.main()
