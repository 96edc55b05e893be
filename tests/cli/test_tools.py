"""Tools: calls come back as data, and are what the schemas allow where that is asked for."""
import json
import os
import tempfile
import unittest

from program import TINY, TINY_FILE, Terminal, cera

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
FORMATS = ("hermes", "lfm2", "mistral", "granite", "llama3")
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
            for seed in range(6):
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
                result = run("--tool-format", form, "--tool-choice", name, "-n", "200", "--seed", "1")
                self.assertEqual(result.code, 0, result)
                self.assertEqual([c["name"] for c in json.loads(result.out)], [name])
        wrong = run("--tool-format", "hermes", "--tool-choice", "pong")
        self.assertEqual((wrong.code, wrong.out), (2, ""), wrong)

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
            (7, ["--tool-choice", "required", "--tool-format", "xml"], TOOLS, "cannot be constrained"),
            (7, ["--constrain-tools", "--tool-format", "hermes"], TOOLS, "one token"),
            (7, ["--tool-choice", "required", "--tool-format", "lfm2"],
             '[{"name": "a-b"}]', "name as Python"),
            (7, ["--tool-choice", "required", "--tool-format", "hermes"],
             '[{"name": "f", "parameters": {"type": "object", "properties": '
             '{"x": {"not": {}}}}}]', "tool f: "),
            (2, ["--tool-choice", "required", "--tool-format", "hermes"], "[]", "at least one"),
            (2, ["--tool-choice", "required", "--tool-format", "hermes"], "[{}]", "a name in each"),
            (2, ["--tool-choice", "required", "--tool-format", "hermes", "--grammar", 'root ::= "x"'],
             TOOLS, "two constraints"),
            (2, [], "{}", "no list"), (2, [], "[", "no list"),
            (2, ["--logprobs", "1", "--format", "json"], TOOLS, "--logprobs"),
            (2, ["--token-ids", "1"], TOOLS, "--token-ids"))
        for code, args, tools, text in cases:
            result = run(*args, tools=tools)
            self.assertEqual((result.code, result.out), (code, ""), result)
            self.assertIn(text, result.err)
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
        t.send("\x04")
        self.assertEqual(t.end(), 0)


if __name__ == "__main__":
    unittest.main()
