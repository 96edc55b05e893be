"""cera convert: a folder written here by hand, against what each value should become."""
import json
import math
import os
import struct
import tempfile
import unittest

from program import DATA, cera

N_EMBD, N_HEAD, N_HEAD_KV, HEAD, N_FF, N_VOCAB = 8, 2, 1, 4, 12, 1024


def counting(n, begin=0):
    """Numbers that bfloat16 and half precision hold exactly."""
    return [float((begin + i) % 64) / 8 for i in range(n)]


def bf16(values):
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def f32(values):
    return struct.pack("<%df" % len(values), *values)


class Folder:
    """What Hugging Face would save: tensors in the order given, one file each when `split`."""

    def __init__(self, path, architecture, tensors, config=None, split=False):
        self.path, self.tensors = path, tensors
        os.makedirs(path, exist_ok=True)
        full = {"architectures": [architecture], "num_hidden_layers": 1, "hidden_size": N_EMBD,
                "intermediate_size": N_FF, "num_attention_heads": N_HEAD,
                "num_key_value_heads": N_HEAD_KV, "max_position_embeddings": 64,
                "vocab_size": N_VOCAB, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                "bos_token_id": 1, "eos_token_id": [2, 4]}
        full.update(config or {})
        self.write("config.json", full)
        with open(os.path.join(DATA, "tiny.tokenizer.json"), encoding="utf-8") as f:
            self.write("tokenizer.json", json.load(f))
        self.write("tokenizer_config.json", {"add_bos_token": True, "chat_template": "{{x}}",
                                             "model_max_length": 10**30,
                                             "pad_token": "<|pad|>"})
        if split:
            files = {name: "part-%d.safetensors" % i for i, name in enumerate(tensors)}
            for name, file in files.items():
                self.save(file, {name: tensors[name]})
            self.write("model.safetensors.index.json", {"weight_map": files})
        else:
            self.save("model.safetensors", tensors)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="utf-8") as f:
            json.dump(value, f)

    def save(self, file, tensors):
        header, data = {"__metadata__": {"format": "pt"}}, b""
        for name, (dtype, shape, values) in tensors.items():
            raw = (bf16 if dtype == "BF16" else f32)(values)
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        with open(os.path.join(self.path, file), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)


def llama(dtype="F32"):
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": [N_VOCAB, N_EMBD], "model.norm.weight": [N_EMBD],
              layer + "input_layernorm.weight": [N_EMBD],
              layer + "post_attention_layernorm.weight": [N_EMBD],
              layer + "self_attn.q_proj.weight": [N_HEAD * HEAD, N_EMBD],
              layer + "self_attn.k_proj.weight": [N_HEAD_KV * HEAD, N_EMBD],
              layer + "self_attn.v_proj.weight": [N_HEAD_KV * HEAD, N_EMBD],
              layer + "self_attn.o_proj.weight": [N_EMBD, N_HEAD * HEAD],
              layer + "mlp.gate_proj.weight": [N_FF, N_EMBD],
              layer + "mlp.up_proj.weight": [N_FF, N_EMBD],
              layer + "mlp.down_proj.weight": [N_EMBD, N_FF]}
    out = {}
    for k, (name, shape) in enumerate(shapes.items()):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        out[name] = (dtype, shape, counting(n, k))
    return out


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.path = os.path.join(self.root, "My Model")
        self.out = os.path.join(self.root, "out.gguf")

    def convert(self, *args):
        result = cera("convert", self.path, self.out, *args)
        self.assertEqual(result.code, 0, result)
        return cera("inspect", self.out, "--json").json

    def values(self, info, name):
        """The floats of an F32 tensor."""
        tensor = next(t for t in info["tensors"] if t["name"] == name)
        self.assertEqual(tensor["type"], "F32")
        n = 1
        for d in tensor["shape"]:
            n *= d
        with open(self.out, "rb") as f:
            f.seek(tensor["offset"])
            return list(struct.unpack("<%df" % n, f.read(4 * n)))

    def test_llama(self):
        tensors = llama()
        Folder(self.path, "LlamaForCausalLM", tensors)
        info = self.convert("F32")
        meta = info["meta"]
        for key, value in {"general.architecture": "llama", "general.name": "My Model",
                           "llama.block_count": 1, "llama.context_length": 64,
                           "llama.embedding_length": 8, "llama.feed_forward_length": 12,
                           "llama.attention.head_count": 2, "llama.attention.head_count_kv": 1,
                           "llama.rope.dimension_count": 4, "llama.rope.freq_base": 10000,
                           "llama.vocab_size": 1024, "tokenizer.ggml.model": "gpt2",
                           "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.bos_token_id": 1,
                           "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.padding_token_id": 0,
                           "tokenizer.ggml.add_bos_token": True,
                           "tokenizer.chat_template": "{{x}}"}.items():
            self.assertEqual(meta.get(key), value, key)
        shape = next(t["shape"] for t in info["tensors"] if t["name"] == "blk.0.ffn_down.weight")
        self.assertEqual(shape, [N_FF, N_EMBD])
        self.assertEqual(self.values(info, "blk.0.attn_v.weight"),
                         tensors["model.layers.0.self_attn.v_proj.weight"][2])
        # Heads of four rows: halves (0, 1 and 2, 3) become pairs (0, 2 and 1, 3).
        q = tensors["model.layers.0.self_attn.q_proj.weight"][2]
        rows = [q[i:i + N_EMBD] for i in range(0, len(q), N_EMBD)]
        expected = [rows[i] for i in (0, 2, 1, 3, 4, 6, 5, 7)]
        self.assertEqual(self.values(info, "blk.0.attn_q.weight"), sum(expected, []))
        self.assertEqual(len(self.values(info, "output_norm.weight")), N_EMBD)

    def test_the_result_runs_and_splits_make_no_difference(self):
        Folder(self.path, "LlamaForCausalLM", llama("BF16"))
        self.convert("F16")
        with open(self.out, "rb") as f:
            whole = f.read()
        result = cera("logits", self.out, "-p", "Hello", "--json")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(len(result.json), N_VOCAB)
        Folder(self.path, "LlamaForCausalLM", llama("BF16"), split=True)
        os.remove(os.path.join(self.path, "model.safetensors"))
        self.convert("F16")
        with open(self.out, "rb") as f:
            self.assertEqual(f.read(), whole)

    def test_tokens_are_those_of_the_tokenizer(self):
        Folder(self.path, "LlamaForCausalLM", llama())
        self.convert("F32")
        text = "Once upon a time, there were 1234 caf\u00e9s.  \n\n"
        ids = cera("tokenize", self.out, "-t", text, "--no-bos").out
        self.assertEqual(ids, cera("tokenize", "builtin:tiny", "-t", text, "--no-bos").out)

    def mixtral(self, n_expert=3):
        tensors = {k: v for k, v in llama().items() if "mlp" not in k}
        moe = "model.layers.0.block_sparse_moe."
        tensors[moe + "gate.weight"] = ("BF16", [n_expert, N_EMBD], counting(n_expert * N_EMBD))
        # The last expert first: what counts is the number in the name.
        for x in reversed(range(n_expert)):
            for w, shape in ("w1", [N_FF, N_EMBD]), ("w2", [N_EMBD, N_FF]), ("w3", [N_FF, N_EMBD]):
                tensors["%sexperts.%d.%s.weight" % (moe, x, w)] = (
                    "BF16", shape, counting(N_FF * N_EMBD, 7 * x + int(w[1])))
        return tensors

    def test_experts_are_stacked(self):
        tensors = self.mixtral()
        config = {"num_local_experts": 3, "num_experts_per_tok": 2}
        Folder(self.path, "MixtralForCausalLM", tensors, config)
        info = self.convert("F32")
        shapes = {t["name"]: t["shape"] for t in info["tensors"]}
        for name, w, shape in [("gate", "w1", [N_EMBD, N_FF]), ("up", "w3", [N_EMBD, N_FF]),
                               ("down", "w2", [N_FF, N_EMBD])]:
            name = "blk.0.ffn_%s_exps.weight" % name
            self.assertEqual(shapes[name], shape + [3])
            part = "model.layers.0.block_sparse_moe.experts.%d." + w + ".weight"
            self.assertEqual(self.values(info, name),
                             sum((tensors[part % x][2] for x in range(3)), []))
        for key, value in {"llama.expert_count": 3, "llama.expert_used_count": 2,
                           "general.size_label": "3x8.7K"}.items():
            self.assertEqual(info["meta"].get(key), value, key)
        self.assertEqual(cera("logits", self.out, "-p", "Hello", "--json").code, 0)
        # What chooses experts stays exact.
        info = self.convert("F16")
        types = {t["name"]: t["type"] for t in info["tensors"]}
        self.assertEqual((types["blk.0.ffn_gate_inp.weight"], types["blk.0.ffn_up_exps.weight"]),
                         ("F32", "F16"))
        for change in ("missing", "beyond", "shape", "type"):
            wrong, name = dict(tensors), "model.layers.0.block_sparse_moe.experts.%d.w2.weight"
            dtype, shape, values = wrong.pop(name % 1)
            if change == "beyond":
                wrong[name % 3] = (dtype, shape, values)
            elif change == "shape":
                wrong[name % 1] = (dtype, shape[::-1], values)
            elif change == "type":
                wrong[name % 1] = ("F32", shape, values)
            Folder(self.path, "MixtralForCausalLM", wrong, config)
            result = cera("convert", self.path, self.out, "F32")
            self.assertEqual(result.code, 3, change)
            self.assertIn("blk.0.ffn_down_exps.weight: expected 3 experts of one shape", result.err)

    def test_halves_of_experts(self):
        """Gate and up of an expert stand above each other in one matrix."""
        tensors = {k: v for k, v in llama().items() if "mlp" not in k}
        moe, rows, n = "model.layers.0.block_sparse_moe.", N_FF * N_EMBD, 2
        tensors[moe + "router.layer.weight"] = ("F32", [n, N_EMBD], counting(n * N_EMBD))
        both = counting(2 * n * rows, 3)
        tensors[moe + "input_linear.weight"] = ("F32", [n, 2 * N_FF, N_EMBD], both)
        tensors[moe + "output_linear.weight"] = ("F32", [n, N_EMBD, N_FF], counting(n * rows, 5))
        Folder(self.path, "GraniteMoeForCausalLM", tensors,
               {"num_local_experts": n, "num_experts_per_tok": 1, "attention_multiplier": 0.5,
                "embedding_multiplier": 2.0, "residual_multiplier": 0.5, "logits_scaling": 4.0})
        info = self.convert("F32")
        self.assertEqual(self.values(info, "blk.0.ffn_gate_exps.weight"),
                         both[:rows] + both[2 * rows:3 * rows])
        self.assertEqual(self.values(info, "blk.0.ffn_up_exps.weight"),
                         both[rows:2 * rows] + both[3 * rows:])
        self.assertEqual(cera("logits", self.out, "-p", "Hello", "--json").code, 0)

    def state_space(self, prefix, n_head=2, n_group=2, n_state=4, expand=2, taps=3):
        """Tensors of a layer's state space, and what is expected of those that change."""
        inner = expand * N_EMBD
        conv = inner + 2 * n_group * n_state
        shapes = {"in_proj.weight": [inner + conv + n_head, N_EMBD],
                  "conv1d.weight": [conv, 1, taps], "conv1d.bias": [conv], "dt_bias": [n_head],
                  "A_log": [n_head], "D": [n_head], "norm.weight": [inner],
                  "out_proj.weight": [N_EMBD, inner]}
        return {prefix + name: ("F32", shape, counting(math.prod(shape), k))
                for k, (name, shape) in enumerate(shapes.items())}

    def check_state_space(self, info, tensors, prefix):
        shapes = {t["name"]: t["shape"] for t in info["tensors"]}
        for name, hf, shape in [("ssm_in.weight", "in_proj.weight", [N_EMBD, 50]),
                                ("ssm_conv1d.weight", "conv1d.weight", [3, 32]),
                                ("ssm_conv1d.bias", "conv1d.bias", [32]),
                                ("ssm_dt.bias", "dt_bias", [2]), ("ssm_d", "D", [1, 2]),
                                ("ssm_norm.weight", "norm.weight", [8, 2]),
                                ("ssm_out.weight", "out_proj.weight", [16, N_EMBD])]:
            self.assertEqual(shapes["blk.0." + name], shape, name)
            self.assertEqual(self.values(info, "blk.0." + name), tensors[prefix + hf][2], name)
        self.assertEqual(shapes["blk.0.ssm_a"], [1, 2])
        for a, log in zip(self.values(info, "blk.0.ssm_a"), tensors[prefix + "A_log"][2]):
            self.assertAlmostEqual(a, -math.exp(log), places=6)
        self.assertEqual(cera("logits", self.out, "-p", "Hello", "--json").code, 0)
        # The recurrence's own numbers stay exact.
        types = {t["name"]: t["type"] for t in self.convert("F16")["tensors"]}
        for name in ("ssm_a", "ssm_d", "ssm_conv1d.weight", "ssm_norm.weight"):
            self.assertEqual(types["blk.0." + name], "F32", name)
        self.assertEqual(types["blk.0.ssm_in.weight"], "F16")

    def test_mamba2(self):
        prefix = "backbone.layers.0.mixer."
        tensors = {"backbone.embeddings.weight": ("F32", [N_VOCAB, N_EMBD],
                                                  counting(N_VOCAB * N_EMBD)),
                   "backbone.norm_f.weight": ("F32", [N_EMBD], counting(N_EMBD, 1)),
                   "backbone.layers.0.norm.weight": ("F32", [N_EMBD], counting(N_EMBD, 2))}
        tensors.update(self.state_space(prefix))
        # Published files say nothing about attention, and write infinity bare.
        config = {"num_attention_heads": None, "num_key_value_heads": None, "rms_norm_eps": None,
                  "max_position_embeddings": None, "intermediate_size": None, "rope_theta": None,
                  "layer_norm_epsilon": 1e-5, "conv_kernel": 3, "state_size": 4, "num_heads": 2,
                  "head_dim": 8, "n_groups": 2, "expand": 2,
                  "time_step_limit": [0.0, float("inf")]}
        Folder(self.path, "Mamba2ForCausalLM", tensors, config)
        info = self.convert("F32")
        got = {k: v for k, v in info["meta"].items() if k.startswith("mamba2.")}
        self.assertAlmostEqual(got.pop("mamba2.attention.layer_norm_rms_epsilon"), 1e-5)
        self.assertEqual(got, {"mamba2." + k: v for k, v in {
            "block_count": 1, "context_length": 2 ** 20, "embedding_length": N_EMBD,
            "attention.head_count": 0, "feed_forward_length": 0, "ssm.conv_kernel": 3,
            "ssm.inner_size": 16, "ssm.state_size": 4, "ssm.time_step_rank": 2,
            "ssm.group_count": 2}.items()})
        self.check_state_space(info, tensors, prefix)
        os.remove(self.out)
        Folder(self.path, "Mamba2ForCausalLM", tensors, {**config, "time_step_limit": [0.0, 0.5]})
        self.refused(3, "time_step_limit")
        Folder(self.path, "Mamba2ForCausalLM", tensors, {**config, "n_groups": 3})
        self.refused(3, "ssm_norm.weight: expected a vector of 3 equal parts")

    def test_granite_hybrids(self):
        """Dense and with experts; without state spaces it is plain granite."""
        mamba, shared = "model.layers.0.mamba.", "model.layers.0.shared_mlp."
        both = counting(2 * N_FF * N_EMBD, 3)
        tensors = {k: v for k, v in llama().items() if "mlp" not in k}
        attention = {k: v for k, v in tensors.items() if "self_attn" in k}
        tensors[shared + "input_linear.weight"] = ("F32", [2 * N_FF, N_EMBD], both)
        tensors[shared + "output_linear.weight"] = ("F32", [N_EMBD, N_FF],
                                                    counting(N_FF * N_EMBD, 5))
        hybrid = {k: v for k, v in tensors.items() if k not in attention}
        hybrid.update(self.state_space(mamba))
        for name in ("input_layernorm", "post_attention_layernorm"):
            hybrid["model.layers.1.%s.weight" % name] = ("F32", [N_EMBD], counting(N_EMBD))
        for name in [k for k in tensors if "self_attn" in k or "shared_mlp" in k]:
            hybrid[name.replace(".0.", ".1.")] = tensors[name]
        config = {"num_hidden_layers": 2, "layer_types": ["mamba", "attention"],
                  "num_local_experts": 0, "num_experts_per_tok": 0, "intermediate_size": 99,
                  "shared_intermediate_size": N_FF, "position_embedding_type": "nope",
                  "mamba_n_groups": 2, "mamba_n_heads": 2, "mamba_d_state": 4, "mamba_d_conv": 3,
                  "mamba_expand": 2, "attention_multiplier": 0.5, "embedding_multiplier": 2.0,
                  "residual_multiplier": 0.5, "logits_scaling": 4.0}
        Folder(self.path, "GraniteMoeHybridForCausalLM", hybrid, config)
        info = self.convert("F32")
        for key, value in {"attention.head_count_kv": [0, 1], "rope.scaling.finetuned": False,
                           "context_length": 2 ** 20, "feed_forward_length": N_FF,
                           "ssm.inner_size": 16, "logit_scale": 4}.items():
            self.assertEqual(info["meta"].get("granitehybrid." + key), value, key)
        self.assertEqual(self.values(info, "blk.0.ffn_gate.weight"), both[:N_FF * N_EMBD])
        self.assertEqual(self.values(info, "blk.0.ffn_up.weight"), both[N_FF * N_EMBD:])
        self.check_state_space(info, hybrid, mamba)

        rows, moe = N_FF * N_EMBD, dict(hybrid)
        for i in range(2):
            part = "model.layers.%d.block_sparse_moe." % i
            moe[part + "router.layer.weight"] = ("F32", [2, N_EMBD], counting(2 * N_EMBD))
            moe[part + "input_linear.weight"] = ("F32", [2, 2 * N_FF, N_EMBD],
                                                 counting(4 * rows, 3))
            moe[part + "output_linear.weight"] = ("F32", [2, N_EMBD, N_FF], counting(2 * rows))
        routed = {**config, "num_local_experts": 2, "num_experts_per_tok": 1,
                  "intermediate_size": N_FF, "layer_types": ["linear_attention", "full_attention"]}
        Folder(self.path, "GraniteMoeHybridForCausalLM", moe, routed)
        info = self.convert("F32")
        self.assertEqual(info["meta"]["granitehybrid.attention.head_count_kv"], [0, 1])
        self.assertEqual(self.values(info, "blk.0.ffn_gate_shexp.weight"), both[:rows])
        self.assertEqual(self.values(info, "blk.1.ffn_up_shexp.weight"), both[rows:])
        self.check_state_space(info, moe, mamba)

        plain = {**config, "num_hidden_layers": 1, "layer_types": ["attention"]}
        os.remove(self.out)
        Folder(self.path, "GraniteMoeHybridForCausalLM", tensors, plain)
        self.refused(3, "position_embedding_type")
        plain["position_embedding_type"] = "rope"
        Folder(self.path, "GraniteMoeHybridForCausalLM", tensors, plain)
        meta = self.convert("F32")["meta"]
        self.assertEqual((meta["general.architecture"], meta["granite.context_length"],
                          meta["granite.feed_forward_length"]), ("granite", 64, N_FF))
        self.assertEqual(cera("logits", self.out, "-p", "Hello", "--json").code, 0)

    def test_recommended_sampling_and_yarn(self):
        folder = Folder(self.path, "LlamaForCausalLM", llama(),
                        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16,
                                          "beta_slow": 2.0, "attention_factor": 1.25,
                                          "original_max_position_embeddings": 16}})
        folder.write("generation_config.json", {"temperature": 0.5, "top_k": 20, "top_p": None,
                                                "repetition_penalty": 1.25, "do_sample": True})
        meta = self.convert("F32")["meta"]
        got = {k: v for k, v in meta.items() if "sampling" in k or "yarn" in k}
        self.assertEqual(got, {"general.sampling.temp": 0.5, "general.sampling.top_k": 20,
                               "general.sampling.penalty_repeat": 1.25,
                               "llama.rope.scaling.yarn_attn_factor": 1.25,
                               "llama.rope.scaling.yarn_beta_fast": 16,
                               "llama.rope.scaling.yarn_beta_slow": 2})
        self.assertEqual(meta["general.size_label"], "8.7K")

    def test_pre_tokenizers_are_recognised(self):
        """By the expressions of the models' own files, all of them and in their order."""
        end = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
        word = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
        short = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        gpt4o = (r"[^\r\n\p{L}\p{N}]?" + upper + "*" + lower + "+" + short + r"[^\r\n\p{L}\p{N}]?" +
                 upper + "+" + lower + "*" + short + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + end)
        deepseek = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
                    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
        seed = word + r"\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + end
        folder = Folder(self.path, "LlamaForCausalLM", llama())
        with open(os.path.join(self.path, "tokenizer.json"), encoding="utf-8") as f:
            tokenizer = json.load(f)
        for pre, steps, change in [
                ("qwen2", [word + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + end], {}),
                ("seed-coder", [seed], {}),
                ("seed-coder", [seed.replace(r"\r\n", "\r\n")], {}), ("gpt-4o", [gpt4o], {}),
                ("tiny_aya", [r"\d{1,3}(?=(?:\d{3})*\b)", gpt4o], {}),
                ("deepseek-v3", deepseek, {}), (None, deepseek[::-1], {}),
                (None, deepseek[:2], {}), (None, deepseek + [seed], {}),
                (None, [seed], {"behavior": "MergedWithPrevious"}), (None, [seed[:-1]], {}),
                ("gpt-4o", [gpt4o], {"behavior": "Removed", "invert": True})]:
            split = {"type": "Split", "behavior": "Isolated", "invert": False}
            tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
                dict(split, pattern={"Regex": step}) | change for step in steps] + [
                    {"type": "ByteLevel", "use_regex": False}]}
            folder.write("tokenizer.json", tokenizer)
            if pre is None:
                result = cera("convert", self.path, self.out, "F32")
                self.assertEqual(result.code, 3, steps)
                self.assertIn("pre_tokenizer", result.err)
            else:
                self.assertEqual(self.convert("F32")["meta"]["tokenizer.ggml.pre"], pre)

    def test_gemma_norms_and_pre(self):
        tensors = llama()
        for name in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
            tensors["model.layers.0.%s.weight" % name] = ("F32", [N_EMBD], counting(N_EMBD))
        Folder(self.path, "Gemma2ForCausalLM", tensors,
               {"head_dim": 4, "sliding_window": 16, "attn_logit_softcapping": 50,
                "final_logit_softcapping": 30.0})
        info = self.convert("F32", "--pre", "gpt-2")
        self.assertEqual(info["meta"]["tokenizer.ggml.pre"], "gpt-2")
        self.assertEqual(info["meta"]["gemma2.attn_logit_softcapping"], 50)
        self.assertEqual(info["meta"]["gemma2.attention.key_length"], 4)
        self.assertEqual(self.values(info, "output_norm.weight"),
                         [v + 1 for v in tensors["model.norm.weight"][2]])

    def test_exaone_norms_and_windows(self):
        tensors = llama()
        first, last = ("model.layers.0.%s_layernorm.weight" % name for name in ("input", "post_feedforward"))
        tensors[last] = tensors.pop(first)
        for name in ("q_norm", "k_norm"):
            tensors["model.layers.0.self_attn.%s.weight" % name] = ("F32", [HEAD], counting(HEAD))
        Folder(self.path, "Exaone4ForCausalLM", tensors, {"sliding_window": None})
        info = self.convert("F32")
        self.assertNotIn("exaone4.attention.sliding_window", info["meta"])
        self.assertEqual(self.values(info, "blk.0.post_attention_norm.weight"),
                         tensors["model.layers.0.post_attention_layernorm.weight"][2])
        config = {"sliding_window": 16, "layer_types": ["sliding_attention"]}
        Folder(self.path, "Exaone4ForCausalLM", tensors, config)
        meta = self.convert("F32")["meta"]
        self.assertEqual(meta["exaone4.attention.sliding_window"], 16)
        self.assertEqual(meta["exaone4.attention.sliding_window_pattern"], [True])
        config["layer_types"] = ["full_attention"] * 2
        Folder(self.path, "Exaone4ForCausalLM", tensors, config)
        result = cera("convert", self.path, self.out, "F32")
        self.assertEqual(result.code, 3)
        self.assertIn("layer_types: expected 1, found 2", result.err)

    def test_scaled_rotations(self):
        """The factors of Llama 3.1, as its paper's code has them."""
        tensors = llama()
        for name in ("k_proj", "v_proj"):
            tensors["model.layers.0.self_attn.%s.weight" % name] = ("F32", [8, 8], counting(64))
        Folder(self.path, "LlamaForCausalLM", tensors,
               {"head_dim": 8, "num_attention_heads": 1,
                "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                 "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})
        info = self.convert("F32")
        expected = []
        for i in range(4):
            wavelength = 2 * 3.141592653589793 * 10000.0 ** (i / 4)
            blend = (64 / wavelength - 1) / 3
            expected.append(1 if 64 / wavelength > 4 else 8 if 64 / wavelength < 1 else
                            1 / ((1 - blend) / 8 + blend))
        found = self.values(info, "rope_freqs.weight")
        self.assertEqual(len(found), 4)
        for a, b in zip(found, expected):
            self.assertAlmostEqual(a, b, places=6)

    def refused(self, code, *words):
        result = cera("convert", self.path, self.out, "F16")
        self.assertEqual(result.code, code, result)
        for word in words:
            self.assertIn(word, result.err)
        self.assertEqual(sorted(os.listdir(self.root)), ["My Model"])

    def test_refusals(self):
        Folder(self.path, "BertModel", llama())
        self.refused(3, 'found "BertModel"')
        Folder(self.path, "LlamaForCausalLM", {**llama(), "model.layers.0.extra.weight": ("F32", [1], [1.0])})
        self.refused(3, "model.layers.0.extra.weight")
        Folder(self.path, "LlamaForCausalLM", llama(), {"num_hidden_layers": None})
        self.refused(3, "num_hidden_layers")
        Folder(self.path, "LlamaForCausalLM", llama(), {"rope_scaling": {"type": "odd"}})
        self.refused(3, 'found "odd"')
        Folder(self.path, "LlamaForCausalLM", llama(), {"num_attention_heads": 3})
        self.refused(3, "attn_q.weight")
        folder = Folder(self.path, "LlamaForCausalLM", llama())
        folder.write("model.safetensors.index.json", {"weight_map": {"a": "../model.safetensors"}})
        self.refused(3, "expected the name of a file")
        os.remove(os.path.join(self.path, "model.safetensors.index.json"))
        with open(os.path.join(self.path, "tokenizer.json"), encoding="utf-8") as f:
            tokenizer = json.load(f)
        tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "x"
        folder.write("tokenizer.json", tokenizer)
        self.refused(3, "pre_tokenizer", "--pre NAME")
        with open(os.path.join(self.path, "model.safetensors"), "r+b") as f:
            f.truncate(3000)
        self.refused(3, "data_offsets")
        os.remove(os.path.join(self.path, "model.safetensors"))
        self.refused(3, "no such file")

    def test_models_that_would_not_open(self):
        """Each tensor is well formed; together they are no model. No file is made of them."""
        up = "model.layers.0.mlp.up_proj.weight"
        tensors = llama()
        del tensors[up]
        Folder(self.path, "LlamaForCausalLM", tensors)
        self.refused(3, "the new file: blk.0.ffn_up.weight: the tensor is missing")
        tensors = llama()
        tensors[up] = ("F32", [N_EMBD, N_FF], tensors[up][2])
        Folder(self.path, "LlamaForCausalLM", tensors)
        self.refused(3, "blk.0.ffn_up.weight: expected [8, 12], file has [12, 8]")
        Folder(self.path, "LlamaForCausalLM", llama(), {"num_hidden_layers": 2})
        self.refused(3, "blk.1.attn_norm.weight: the tensor is missing")
        Folder(self.path, "LlamaForCausalLM", llama(), {"rms_norm_eps": None})
        self.refused(3, "layer_norm_rms_epsilon")

    def test_members_of_another_type_are_not_absent(self):
        for member, value in [("rope_theta", "10000"), ("rope_theta", -1), ("head_dim", []),
                              ("num_key_value_heads", True), ("num_key_value_heads", -1),
                              ("rope_scaling", {"rope_type": "linear", "factor": "2"})]:
            Folder(self.path, "LlamaForCausalLM", llama(), {member: value})
            name = "factor" if member == "rope_scaling" else member
            self.refused(3, "config.json: %s: expected a number above 0" % name)

    def test_damaged_tokenizers(self):
        folder = Folder(self.path, "LlamaForCausalLM", llama())
        with open(os.path.join(self.path, "tokenizer.json"), encoding="utf-8") as f:
            text = f.read()

        def change(words, change_it):
            tokenizer = json.loads(text)
            change_it(tokenizer)
            folder.write("tokenizer.json", tokenizer)
            self.refused(3, words)
        change("merges: expected a list", lambda t: t["model"].update(merges="a b"))
        change("neither a text nor a pair", lambda t: t["model"].update(merges=[["a", "b", "c"]]))
        change("is not a token", lambda t: t["model"].update(merges=["a qqq"]))
        change("vocab: expected an object", lambda t: t["model"].update(vocab=[["a", 0]]))
        change("have the same id", lambda t: t["model"]["vocab"].update(qqq=500))
        change("added_tokens: expected a list", lambda t: t.update(added_tokens=3))
        for name in ("tokenizer.json", "tokenizer.model"):
            folder.write("tokenizer.json", json.loads(text))
            open(os.path.join(self.path, name), "w").close()
            self.refused(3, name)

    def test_files_of_the_folder_are_no_targets(self):
        Folder(self.path, "LlamaForCausalLM", llama())
        weights = os.path.join(self.path, "model.safetensors")
        with open(weights, "rb") as f:
            before = f.read()
        link = os.path.join(self.root, "link")
        os.symlink(weights, link)
        for target in (weights, link, os.path.join(self.path, "config.json")):
            result = cera("convert", self.path, target, "F16")
            self.assertEqual(result.code, 2, result)
            self.assertIn("one of the folder's own", result.err)
        with open(weights, "rb") as f:
            self.assertEqual(f.read(), before)
        # A model in the folder is another matter: it may be made anew.
        for _ in range(2):
            self.assertEqual(cera("convert", self.path, os.path.join(self.path, "m.gguf"),
                                  "F16").code, 0)
        result = cera("convert", self.path, os.path.join(self.path, "no", "m.gguf"), "F16")
        self.assertEqual(result.code, 1, result)

    def test_usage(self):
        Folder(self.path, "LlamaForCausalLM", llama())
        result = cera("convert", self.path, self.out, "Q4_K_M")
        self.assertEqual(result.code, 2, result)
        self.assertIn("expected F32, F16, BF16 or Q8_0", result.err)
        self.assertEqual(cera("convert", self.path).code, 2)


if __name__ == "__main__":
    unittest.main()
