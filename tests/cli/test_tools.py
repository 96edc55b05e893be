"""Tools: calls come back as data, and are what the schemas allow where that is asked for."""
import json
import os
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

from program import DATA, TINY, TINY_FILE, Terminal, cera

TOOLS = json.dumps([
    {"type": "function", "function": {
        "name": "get_weather", "description": "the weather of a place",
        "parameters": {"type": "object", "required": ["city", "unit"], "properties": {
            "city": {"type": "string", "maxLength": 8},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "unit": {"enum": ["C", "F"]},
            "at": {"$ref": "#/$defs/place"}},
            "$defs": {"place": {"type": "object", "required": ["x"], "additionalProperties": False,
                                "properties": {"x": {"type": "boolean"}}}}}}},
    {"name": "ping", "parameters": {"type": "object", "properties": {}}}])
# A format, the marks that text cannot have, what is between a mark and a call and behind one.
PING = '{"name": "ping", "arguments": {}}'
XML = "<function=ping>\n</function>"
DS = "<\uff5ctool\u2581%s\uff5c>"
DSML = "\uff5cDSML\uff5c"
FORMATS = {
    "hermes": (["<tool_call>"], "\n" + PING + "\n</tool_call>"),
    "lfm2": (["<|tool_call_start|>"], "[ping()]<|tool_call_end|>"),
    "mistral": (["[TOOL_CALLS]"], "[" + PING + "]"),
    "granite": (["<|tool_call|>"], "[" + PING + "]"),
    "phi4": (["<|tool_call|>"], "[" + PING + "]<|/tool_call|>"),
    "nemotron": (["<TOOLCALL>"], "[" + PING + "]</TOOLCALL>"),
    "cohere": (["<|START_ACTION|>"], '[\n    {"tool_call_id": "0", "tool_name": "ping", "parameters": {}}\n]'
               "<|END_ACTION|>"),
    "llama3": (["<|python_tag|>"], '{"name": "ping", "parameters": {}}'),
    "functionary": (["<function="], "ping>{}</function>"),
    "functionary-3.2": ([">>>"], "ping\n{}"),
    "xml": (["<tool_call>", "<function="], "\n" + XML + "\n</tool_call>"),
    "seed": (["<seed:tool_call>", "<function="], "\n" + XML + "\n</seed:tool_call>"),
    "glm": (["<tool_call>"], "ping\n</tool_call>"),
    "minimax": (["<minimax:tool_call>", '<invoke name="'],
                '\n<invoke name="ping">\n</invoke>\n</minimax:tool_call>'),
    "dsml": (["<" + DSML + "function_calls>", "<" + DSML + "invoke"],
             "\n<" + DSML + 'invoke name="ping">\n</' + DSML + "invoke>\n</" + DSML + "function_calls>"),
    "deepseek": ([DS % "calls\u2581begin", DS % "call\u2581begin"],
                 DS % "call\u2581begin" + "ping" + DS % "sep" + "{}" + DS % "call\u2581end"
                 + DS % "calls\u2581end"),
    "deepseek-r1": ([DS % "calls\u2581begin", DS % "call\u2581begin"],
                    DS % "call\u2581begin" + "function" + DS % "sep" + "ping\n```json\n{}\n```"
                    + DS % "call\u2581end" + DS % "calls\u2581end"),
    "kimi": (["<|tool_calls_section_begin|>", "<|tool_call_begin|>"],
             "<|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
             "<|tool_calls_section_end|>"),
    "dsml-v4": (["<" + DSML + "tool_calls>", "<" + DSML + "invoke"],
                "\n<" + DSML + 'invoke name="ping">\n</' + DSML + "invoke>\n</" + DSML + "tool_calls>"),
    "harmony": (["<|channel|>commentary to=", "<|start|>assistant to=", " to=functions.",
                 "<|channel|>analysis to="], "functions.ping <|constrain|>json<|message|>{}"),
    "minicpm": (['<function name="'], 'ping"></function>'),
    "hy3": (["<tool_calls:opensource>", "<tool_call:opensource>"],
            "\n<tool_call:opensource>ping<tool_sep:opensource>\n</tool_call:opensource>\n"
            "</tool_calls:opensource>"),
    "apertus": (["<|tools_prefix|>"], '[{"ping": {}}]<|tools_suffix|>'),
    "apriel": (["<tool_calls>"], "[" + PING + "]</tool_calls>"),
    "gigachat": (["<|function_call|>", "function call<|role_sep|>"], PING),
    "command-r": (["Action: ```json", "Action:```json"],
                  '\n[\n    {"tool_name": "ping", "parameters": {}}\n]\n```'),
    "solar": (["<|tool_calls|>", "<|tool_call:begin|>"],
              "<|tool_call:begin|>c0<|tool_call:name|>ping<|tool_call:args|>{}<|tool_call:end|><|calls|>"),
}
# A template of a model that has no marks of its own in this test's vocabulary.
PLAIN = "{{ tools | tojson }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def run(*args, tools=TOOLS, prompt="Hello"):
    return cera("run", TINY, "-p", prompt, "--tools", tools, *args)


def is_weather(arguments):
    return (set(arguments) <= {"city", "days", "unit", "at"} and {"city", "unit"} <= set(arguments)
            and isinstance(arguments["city"], str) and len(arguments["city"]) <= 8
            and arguments["unit"] in ("C", "F") and arguments.get("days", 1) in range(1, 8)
            and arguments.get("at", {"x": True}) in ({"x": True}, {"x": False}))


def is_allowed(call):
    return is_weather(call["arguments"]) if call["name"] == "get_weather" else (
        call["name"] == "ping" and call["arguments"] == {})


class ToolTest(unittest.TestCase):
    def test_required(self):
        """Whatever a model of stories would say: a call, of every format, valid to the last level."""
        names = set()
        for form in FORMATS:
            for seed in range(3):
                result = run("--tool-format", form, "--tool-choice", "required", "--seed", str(seed),
                             "--temperature", "2", "-n", "800", "-q")
                self.assertIn(result.code, (0, 1), result)  # 1: cut within a later call
                calls = json.loads(result.out)
                self.assertEqual(len(result.out.splitlines()), 1)
                self.assertTrue(calls, result)
                for call in calls:
                    self.assertTrue(is_allowed(call), (form, call))
                    names.add(call["name"])
        self.assertEqual(names, {"get_weather", "ping"})

    def test_named(self):
        """SRV-09: the named one, once; a name that there is not is refused."""
        for form in FORMATS:
            for name in ("get_weather", "ping"):
                result = run("--tool-format", form, "--tool-choice", name, "-n", "600", "--seed", "1")
                self.assertEqual(result.code, 0, result)
                self.assertEqual([c["name"] for c in json.loads(result.out)], [name])
        wrong = run("--tool-format", "hermes", "--tool-choice", "pong")
        self.assertEqual((wrong.code, wrong.out), (2, ""), wrong)

    def test_no_format_to_constrain(self):
        result = run("--tool-format", "none", "--tool-choice", "required", "-n", "3")
        self.assertEqual((result.code, result.out), (7, ""), result)
        self.assertIn("format none", result.err)
        self.assertIn("try: --tool-format\n", result.err)

    def test_a_call_that_is_missing(self):
        """Cut in a mark or in a call: the same code, whatever the format."""
        for n in ("1", "5", "20"):
            for form in ("text", "json"):
                result = run("--tool-format", "hermes", "--tool-choice", "ping", "-n", n, "--seed", "1",
                             "--format", form)
                self.assertEqual(result.code, 1, result)
                self.assertIn("there is no tool call", result.err)
                calls = result.json.get("tool_calls", []) if form == "json" else result.json
                self.assertEqual(calls, [])

    def test_json(self):
        root = run("--tool-format", "hermes", "--tool-choice", "ping", "--format", "json",
                   "--seed", "1").json
        self.assertEqual(root["schema"], "cera.run/1")
        self.assertEqual(root["finish_reason"], "tool_calls")
        self.assertEqual(root["text"], "")
        call = root["tool_calls"][0]
        self.assertEqual(call["type"], "function")
        self.assertEqual(len(call["id"]), 9)
        self.assertEqual(call["function"], {"name": "ping", "arguments": "{}"})
        self.assertEqual(root["seed"], 1)

    def test_text_goes_to_standard_error(self):
        """Nothing was called: the list is empty, and the text is a remark."""
        result = run("--temperature", "0", "-n", "6", "--tool-format", "hermes")
        self.assertEqual((result.code, result.out), (0, "[]\n"), result)
        self.assertTrue(result.err.startswith("Hello!"), result)
        chosen = run("--temperature", "0", "-n", "6", "--tool-choice", "none")
        self.assertEqual((chosen.code, chosen.out), (0, "[]\n"), chosen)
        self.assertNotIn("does not show how", run("-n", "1").err)  # its architecture tells
        self.assertIn("does not show how", run("-n", "1", "--tool-format", "none").err)

    def test_tools_are_rendered(self):
        def tokens(*args):
            return run("--chat-template", PLAIN, "-n", "1", "--format", "json",
                       *args).json["usage"]["prompt_tokens"]
        self.assertGreater(tokens(), tokens("--tool-choice", "none") + 50)

    def test_marks_of_several_tokens(self):
        """Text is free, with halves of marks in it; a whole mark is followed by a call, and then text
        is free again. What would be read as a call and is none cannot be."""
        for form, (marks, call) in FORMATS.items():
            mark = marks[0]
            half = mark[:-1] if mark != ">>>" else ""  # >> and >>> are >>> and >>
            good = ["", "text", "a < b [1] {x} \n", mark[:-1], "a %s b" % mark[:-1], half + mark + call,
                    "Sure. " + mark + call, mark + call + "\nmore " + mark[:min(5, len(mark) - 1)],
                    "x" + (mark + call) * 3]
            bad = [mark + "x", "a " + mark + mark, mark + call[:-1] + "~", mark + call + mark + "?"]
            bad += ["a %s b" % other for other in marks[1:]]
            cut = ["a " + mark, mark + call[:-2], mark + call + " " + mark]
            for model in ([], ["-m", TINY]):
                result = cera("grammar", "check", "--tools", TOOLS, "--tool-format", form, "--tool-choice",
                              "auto", "--format", "jsonl", *model, *good, *bad, *cut)
                found = [json.loads(line) for line in result.out.splitlines()]
                self.assertEqual(len(found), len(good) + len(bad) + len(cut), result)
                for line in found[:len(good)]:
                    self.assertTrue(line["accepted"], (form, line))
                for line in found[len(good):-len(cut)]:
                    self.assertFalse(line["accepted"], (form, line))
                    self.assertNotEqual(line["result"], "unfinished", (form, line))
                for line in found[-len(cut):]:
                    self.assertEqual(line["result"], "unfinished", (form, line))

    def test_bare_calls(self):
        """Where a reply that is a call needs no mark, one that begins like a call is one."""
        cases = (("llama3", ['{"name": "ping", "parameters": {}}', ' \n{"name": "ping", "parameters": {}}',
                             "x {", "{x}", "{", ""], ['{"name": "pong"', '{"x": 1}', "{ }"]),
                 ("lfm2", ["[ping()]", "\n[ping(), ping()]", "[1] see", "[", "x [ping"],
                  ["[pong()]", "[ping(a=1)]", "[ {"]))
        for form, good, bad in cases:
            result = cera("grammar", "check", "--tools", TOOLS, "--tool-format", form, "--tool-choice",
                          "auto", "--format", "jsonl", *good, *bad)
            found = [json.loads(line)["accepted"] for line in result.out.splitlines()]
            self.assertEqual(found, [True] * len(good) + [False] * len(bad), result)

    def test_samples(self):
        """Texts made at random in every format: calls of the tools, which satisfy the schemas."""
        with open(os.path.join(DATA, "tool_schemas.json"), encoding="utf-8") as f:
            schemas = json.load(f)
        named = [{"name": "f%d" % i, "parameters": s} for i, s in enumerate(schemas)]
        n_calls = 0
        for form in FORMATS:
            for part, model in enumerate(([], ["-m", TINY], [])):
                tools = json.dumps(named[part::3])
                result = cera("grammar", "sample", "-n", "4", "--seed", "5", "--tools", tools, "--tool-format",
                              form, "--format", "jsonl", *model)
                self.assertEqual(result.code, 0, result)
                for line in result.out.split("\n")[:-1]:
                    found = json.loads(line)
                    self.assertNotIn("error", found)
                    self.assertEqual(found["content"], "")
                    self.assertTrue(found["tool_calls"], found)
                    for call in found["tool_calls"]:
                        n_calls += 1
                        schema = schemas[int(call["name"][1:])]
                        arguments = json.loads(call["arguments"])
                        self.assertLessEqual(set(schema.get("required", [])), set(arguments), call)
                        if jsonschema is not None:
                            jsonschema.validate(arguments, schema)
        self.assertGreaterEqual(n_calls, 12 * len(FORMATS))

    def test_names(self):
        """Names that a format writes between quotes are any; where it writes them bare, others than
        names are refused."""
        odd = ['say "hi"', "a b", "line\nfeed", "\\", "\u00fcber", "</tool_call>", "'", "n" * 256, "{", "x.y-z"]
        for form in FORMATS:
            quoted = 'name": "ping"' in FORMATS[form][1] or form == "apertus"
            for name in odd:
                result = cera("grammar", "sample", "-n", "1", "--tools", json.dumps([{"name": name}]),
                              "--tool-format", form, "--format", "jsonl")
                bare = name == "x.y-z" and form != "lfm2"
                if quoted or bare:
                    self.assertEqual(result.code, 0, (form, result))
                    found = json.loads(result.out)
                    self.assertEqual([c["name"] for c in found["tool_calls"]][0], name, found)
                    self.assertNotIn("error", found)
                else:
                    self.assertEqual(result.code, 7, (form, result))
                    self.assertIn("expected a name", result.err)

    def test_samples_of_text_and_calls(self):
        for form in FORMATS:
            result = cera("grammar", "sample", "-n", "3", "--seed", "9", "--tools", TOOLS, "--tool-format",
                          form, "--tool-choice", "auto", "--format", "jsonl", "-m", TINY)
            self.assertEqual(result.code, 0, result)
            for line in result.out.split("\n")[:-1]:
                found = json.loads(line)
                self.assertNotIn("error", found)
                for call in found["tool_calls"]:
                    self.assertTrue(is_allowed({"name": call["name"],
                                                "arguments": json.loads(call["arguments"])}), call)

    def test_auto(self):
        """With a mark that is one token: text is free up to it, and what follows is a call."""
        with open(TINY_FILE, "rb") as f:
            data = f.read()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "marked.gguf")
            with open(path, "wb") as f:
                f.write(data.replace(b"<|im_start|>", b"[TOOL_CALLS]"))
            args = ["run", path, "-p", "Once upon a time", "--tools", TOOLS, "--chat-template",
                    "{{ messages[0].content }}", "--tool-format", "mistral", "--constrain-tools",
                    "--seed", "7", "--format", "json", "-n", "60"]
            text = cera(*args, "--logit-bias", "3=-inf").json
            self.assertNotIn("tool_calls", text)
            self.assertGreater(len(text["text"]), 100)
            n_calls = 0
            for seed in range(4):
                found = cera(*args, "-n", "300", "--seed", str(seed), "--logit-bias", "3=25").json
                for call in found.get("tool_calls", []):
                    n_calls += 1
                    self.assertTrue(is_allowed({
                        "name": call["function"]["name"],
                        "arguments": json.loads(call["function"]["arguments"])}), call)
            self.assertGreater(n_calls, 3)

    def test_refusals(self):
        cases = (
            (7, ["--tool-choice", "required", "--tool-format", "none"], TOOLS, "cannot be constrained"),
            (7, ["--tool-choice", "required", "--tool-format", "xml"],
             '[{"name": "a b"}]', "a name of letters"),
            (7, ["--tool-choice", "required", "--tool-format", "glm"],
             '[{"name": "f", "parameters": {"properties": {"a>": {}}}}]', "argument a>"),
            (7, ["--tool-choice", "required", "--tool-format", "xml"],
             '[{"name": "f", "parameters": {"required": ["x"]}}]', '"x"'),
            (7, ["--tool-choice", "required", "--tool-format", "xml"],
             '[{"name": "f", "parameters": {"anyOf": [{}]}}]', '"anyOf"'),
            (7, ["--tool-choice", "required", "--tool-format", "lfm2"],
             '[{"name": "f", "parameters": {"minProperties": 1}}]', '"minProperties"'),
            (7, ["--tool-choice", "required", "--tool-format", "lfm2"],
             '[{"name": "a-b"}]', "name as Python"),
            (7, ["--tool-choice", "required", "--tool-format", "hermes"],
             '[{"name": "f", "parameters": {"type": "object", "properties": '
             '{"x": {"contains": {}}}}}]', "tool f: "),
            (2, ["--tool-choice", "required", "--tool-format", "hermes"], "[]", "at least one"),
            (2, ["--tool-choice", "required", "--tool-format", "hermes"], "[{}]", "a name in each"),
            (2, ["--tool-choice", "required", "--tool-format", "hermes", "--grammar", 'root ::= "x"'],
             TOOLS, "two constraints"),
            (7, ["--tool-choice", "required", "--tool-format", "hermes"],
             '[{"name": "%s"}]' % ("n" * 257), "at most 256 bytes"),
            (2, [], "{}", "no list"), (2, [], "[", "no list"), (2, [], "[1]", "a name in each"),
            (2, [], '[{"name": "f"}, {"function": {"name": "f"}}]', 'found two of "f"'),
            (1, [], "@/no/file", "cannot open /no/file\n"),
            (2, ["--logprobs", "1", "--format", "json"], TOOLS, "--logprobs"),
            (2, ["--token-ids", "1"], TOOLS, "--token-ids"))
        for code, args, tools, text in cases:
            result = run(*args, tools=tools)
            self.assertEqual((result.code, result.out), (code, ""), result)
            self.assertIn(text, result.err)
        twice = cera("grammar", "check", "--tools", '[{"name": "f"}, {"name": "f"}]', "--tool-format",
                     "hermes", "x")
        self.assertEqual((twice.code, twice.out), (2, ""), twice)
        self.assertIn('found two of "f"', twice.err)
        alone = cera("run", TINY, "-p", "x", "--tool-choice", "required")
        self.assertEqual(alone.code, 2, alone)

    def test_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            f.write(TOOLS)
            f.flush()
            result = run("--tool-format", "hermes", "--tool-choice", "ping", tools="@" + f.name)
            self.assertEqual(json.loads(result.out)[0]["name"], "ping")

    def test_system_message(self):
        result = cera("run", TINY, "--system", "Be kind", "-p", "Hello", "--temperature", "0", "-n",
                      "9")
        chat = cera("chat", TINY, "--system", "Be kind", "-p", "Hello", "--temperature", "0", "-n",
                    "9")
        self.assertEqual((result.code, result.out + "\n"), (0, chat.out), result)

    # ---- chat ----

    def test_a_conversation_with_results(self):
        """A call, its result, and then an answer in words; what is saved is OpenAI's shape."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            result = cera("chat", TINY, "--tools", TOOLS, "--tool-format", "hermes",
                          "--tool-choice", "ping", "--temperature", "0", "-n", "200", "--format",
                          "jsonl",
                          stdin=b"Hello\n/result pong\n/save %s\n/result again\n" % path.encode())
            self.assertEqual(result.code, 2, result)  # no call waits any more
            first, second = [json.loads(line) for line in result.out.splitlines()]
            self.assertEqual(first["finish_reason"], "tool_calls")
            self.assertNotIn("tool_calls", second["message"])
            with open(path, encoding="utf-8") as f:
                saved = json.load(f)["messages"]
            self.assertEqual([m["role"] for m in saved], ["user", "assistant", "tool", "assistant"])
            self.assertEqual(saved[2]["tool_call_id"], saved[1]["tool_calls"][0]["id"])
            self.assertEqual((saved[2]["name"], saved[2]["content"]), ("ping", "pong"))

    def test_calls_are_told(self):
        t = Terminal("chat", TINY, "--tools", TOOLS, "--tool-format", "hermes", "--tool-choice",
                     "ping", "-n", "90", "--temperature", "0")
        t.until("> ")
        t.send("Hello\n")
        shown = t.until("\n> ")
        self.assertIn("call: ping({})", shown)
        self.assertIn("/result", shown)
        t.send_end()
        self.assertEqual(t.end(), 0)


if __name__ == "__main__":
    unittest.main()
