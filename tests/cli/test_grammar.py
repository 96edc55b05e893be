"""Grammars and schemas: run under them, and the command grammar."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from program import BIN, ROOT, TINY, cera

PERSON = json.dumps({"type": "object", "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 12}, "age": {"type": "integer", "minimum": 0,
                                                                        "maximum": 130}},
    "required": ["name", "age"]})


class Sample(unittest.TestCase):
    def test_a_reader_that_leaves_ends_it(self):
        done = subprocess.run('"%s" grammar sample --grammar \'root ::= [a-z]{40}\' -n 1000000 | head -n 1'
                              % BIN, shell=True, capture_output=True, timeout=60, check=False)
        self.assertRegex(done.stdout, b"^[a-z]{40}\n$")
        self.assertEqual(done.stderr, b"")


class Run(unittest.TestCase):
    def test_text_is_of_the_schema(self):
        for seed in range(8):
            r = cera("run", "-m", TINY, "-p", "Once upon a time", "-j", PERSON, "--seed", str(seed),
                     "--temperature", "2")
            self.assertEqual(r.code, 0, r)
            value = json.loads(r.out)
            self.assertEqual(list(value), ["name", "age"])
            self.assertTrue(0 <= value["age"] <= 130 and 1 <= len(value["name"]) <= 12, value)

    def test_a_grammar_that_cannot_be_met(self):
        bans = [word for i in range(1024) for word in ("--logit-bias", "%d=-inf" % i) if i != 300]
        result = cera("run", TINY, "-p", "x", "--grammar", 'root ::= "zq"', *bans)
        self.assertEqual((result.code, result.out), (7, ""), result)
        self.assertIn("is not banned", result.err)

    def test_grammar_from_everywhere(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.gbnf")
            with open(path, "w", encoding="utf-8") as f:
                f.write('root ::= "yes!" # so\n')
            for args in (["--grammar", 'root ::= "yes!"'], ["--grammar", "@" + path],
                         ["--grammar-file", path], ["--json-schema", '{"const":"yes!"}']):
                r = cera("run", "-m", TINY, "-p", "Hello", *args)
                self.assertEqual((r.code, r.out.strip('"')), (0, "yes!"), r)
            self.assertEqual(cera("run", "-m", TINY, "-p", "x", "--grammar-file", path + "x").code, 1)

    def test_says_when_it_is_cut(self):
        args = ["run", "-m", TINY, "-p", "Hello", "-j", PERSON, "-n", "3", "--temperature", "0"]
        r = cera(*args)
        self.assertEqual(r.code, 0)
        self.assertIn("not a whole one of the schema", r.err)
        r = cera(*args, "--format", "json")
        self.assertEqual((r.json["finish_reason"], r.json["unfinished"]), ("length", True))
        r = cera(*args[:-4], "--format", "json", "-n", "200", "--temperature", "0")
        self.assertEqual((r.json["finish_reason"], r.json["unfinished"]), ("stop", False))
        self.assertNotIn("unfinished", cera("run", "-m", TINY, "-p", "Hello", "-n", "1", "--format",
                                            "json").json)

    def test_json_is_a_word_for_its_form(self):
        args = ["grammar", "check", "--grammar", 'root ::= "yes"', "yes"]
        self.assertEqual(cera(*args, "--json").json, {"schema": "cera.grammar/1", "text": "yes",
                                                      "accepted": True, "result": "accepted"})
        self.assertEqual(cera(*args, "--json").out, cera(*args, "--format", "json").out)

    def test_what_cannot_be_compiled_ends_with_7(self):
        for args, why in ((["--grammar", 'root ::= "a'], "line 1, column 12"),
                          (["-j", '{"not":{"multipleOf":3}}'], "#/not/multipleOf"),
                          (["-j", "{"], "line 1, column 2"),
                          (["-j", '{"type":"string","pattern":"(?=x)"}'], "#/pattern")):
            r = cera("run", "-m", TINY, "-p", "Hello", *args)
            self.assertEqual((r.code, r.out), (7, ""), r)
            self.assertIn(why, r.err)
        r = cera("run", "-m", TINY, "-p", "Hello", "-j",
                 '{"type":"integer","not":{"multipleOf":3}}', "--schema-lenient")
        self.assertEqual(r.code, 0)
        self.assertIn("not enforced", r.err)
        int(r.out)
        r = cera("run", "-m", TINY, "-p", "x", "--grammar", 'root ::= "a"', "-j", "{}")
        self.assertEqual(r.code, 2)


class Command(unittest.TestCase):
    def test_check(self):
        r = cera("grammar", "check", "--grammar", 'root ::= "a"+', "a", "aaa")
        self.assertEqual((r.code, r.out), (0, '"a": accepted\n"aaa": accepted\n'))
        r = cera("grammar", "check", "--grammar", 'root ::= "a"+ "!"', "a", "b")
        self.assertEqual(r.code, 7)
        self.assertIn('"a": unfinished', r.out)
        self.assertIn("at byte 0", r.out)
        r = cera("grammar", "check", "--grammar", 'root ::= root')
        self.assertEqual(r.code, 7)
        self.assertIn("left recursion", r.err)
        r = cera("grammar", "check", "--grammar", 'root ::= "a"\nx ::= "b"', "a")
        self.assertEqual(r.code, 0)
        self.assertIn("nothing uses it", r.err)
        self.assertEqual(cera("grammar", "check").code, 2)
        self.assertEqual(cera("grammar", "look", "-j", "{}").code, 2)
        # A token by its text needs a vocabulary.
        token = ["grammar", "check", "--grammar", "root ::= <|im_end|>"]
        self.assertEqual(cera(*token).code, 7)
        self.assertEqual(cera(*token, "-m", TINY, "").code, 7)
        self.assertIn("unfinished", cera(*token, "-m", TINY, "").out)

    def test_check_reads_standard_input(self):
        """Without a text, and for -; a file's last line feed belongs to it only where it is wanted."""
        number = ["grammar", "check", "-j", '{"type":"integer"}']
        for stdin, code, result in ((b"12\n", 0, "accepted"), (b"12", 0, "accepted"),
                                    (b'{"a":1}\n', 7, "at byte 0"), (b"-\n", 7, "unfinished")):
            for args in ([], ["-"]):
                r = cera(*number, *args, stdin=stdin)
                self.assertEqual((r.code, r.out.count("\n")), (code, 1), r)
                self.assertTrue(r.out.startswith("standard input: ") and result in r.out, r)
        r = cera(*number, "7", "-", "x", stdin=b"8")
        self.assertEqual((r.code, len(r.out.splitlines())), (7, 3), r)
        line = ["grammar", "check", "--grammar", 'root ::= "a\\n"']
        self.assertEqual(cera(*line, stdin=b"a\n").code, 0)
        self.assertEqual(cera(*line, stdin=b"a").code, 7)
        r = cera(*number, "--json", stdin=b"12\n").json
        self.assertEqual((r["text"], r["accepted"]), ("12", True))
        for args in ([], ["-"]):
            r = cera(*number, *args)
            self.assertEqual((r.code, r.out), (2, ""), r)
            self.assertIn("no text to check", r.err)

    def test_sample(self):
        for model in ([], ["-m", TINY]):
            args = ["grammar", "sample", "-j", PERSON, "-n", "20", "--seed", "5", "--format", "jsonl",
                    *model]
            r = cera(*args)
            self.assertEqual(r.code, 0, r)
            lines = r.out.split("\n")[:-1]
            self.assertEqual(len(lines), 20)
            for line in lines:
                value = json.loads(json.loads(line)["text"])
                self.assertTrue(0 <= value["age"] <= 130 and 1 <= len(value["name"]) <= 12, value)
            self.assertEqual(cera(*args).out, r.out)

    def test_a_sample_finds_its_end(self):
        """Also where chance would not: behind 400 bytes it takes the shortest way."""
        schemas = ['{"type": "string", "pattern": "b$"}', '{"type": "string", "pattern": "^a.*xyzzy$"}',
                   '{"type": "string", "pattern": "^[a-c]*(ab){30}c$"}',
                   '{"type": "array", "minItems": 300, "items": {"type": "boolean"}}']
        for schema in schemas:
            for model in ([], ["-m", TINY]):
                r = cera("grammar", "sample", "-j", schema, "-n", "5", "--seed", "3", "--json", *model)
                self.assertEqual(r.code, 0, r)
                texts = [json.loads(line)["text"] for line in r.out.split("\n")[:-1]]
                self.assertLess(max(map(len, texts)), 6000)
                self.assertEqual(cera("grammar", "check", "-j", schema, *texts).code, 0)

    def test_to_gbnf_is_the_same_language(self):
        r = cera("grammar", "to-gbnf", "-j", PERSON)
        self.assertIn("root ::= ", r.out)
        good, bad = '{"name": "é", "age": 130}', '{"name": "x", "age": 131}'
        r = cera("grammar", "check", "--grammar", r.out, good, bad)
        self.assertNotIn("nothing uses", r.err)
        self.assertIn("accepted", r.out.split("\n")[0])
        self.assertIn("at byte", r.out.split("\n")[1])

    def test_samples_are_valid(self):
        """With jsonschema: a few hundred, all 10,000 at night."""
        python = os.environ.get("CERA_ORACLE_PYTHON") or sys.executable
        if shutil.which(python) is None or subprocess.run(
                [python, "-c", "import jsonschema"], capture_output=True, check=False).returncode:
            self.skipTest("no jsonschema (scripts/check-schema-samples needs it)")
        n = "10000" if os.environ.get("CERA_NIGHTLY") else "300"
        script = os.path.join(ROOT, "scripts", "check-schema-samples")
        r = subprocess.run([python, script, BIN, n], capture_output=True, text=True, check=False)
        self.assertEqual(r.stdout.strip().split("\n")[-1], "%s of %s valid" % (n, n), r.stdout[-2000:])


if __name__ == "__main__":
    unittest.main()
