/* cera_convert: the parts that read a stranger's bytes, and what failures leave behind. What comes
 * out for each architecture is in cli/test_convert.py. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "convert/folder.h"
#include "convert/hf_arch.h"
#include "convert/safetensors.h"
#include "support/fault_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static cr_host host;
static cr_arena arena;

static int make_arena(void **state)
{
    (void)state;
    cr_arena_init(&arena, &host, CR_MEM_OBJECT);
    return cr_host_set(&host, NULL, NULL) == CERA_OK ? 0 : -1;
}

static int drop_arena(void **state)
{
    (void)state;
    cr_arena_done(&arena);
    return cr_host_live(&host) == 0 ? 0 : -1;
}

/* ---- safetensors ----------------------------------------------------------------------------- */

/* A file of this header and n bytes of data, counting up. */
static cera_status parse(const char *header, size_t n, cr_safetensors *out, cera_error *err)
{
    static uint8_t bytes[4096];
    size_t n_header = strlen(header);
    memset(bytes, 0, 8);
    bytes[0] = (uint8_t)n_header;
    bytes[1] = (uint8_t)(n_header >> 8);
    memcpy(bytes + 8, header, n_header);
    for (size_t i = 0; i < n; i++)
        bytes[8 + n_header + i] = (uint8_t)i;
    *out = (cr_safetensors){ .n_tensors = 0 };
    return cr_safetensors_parse(out, &arena, bytes, 8 + n_header + n, "f", err);
}

static void tensors_are_ranges_of_the_file(void **state)
{
    (void)state;
    cr_safetensors f;
    assert_int_equal(parse("{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
                           "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                           "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,36]}}",
                           36, &f, NULL),
                     CERA_OK);
    assert_int_equal(f.n_tensors, 3);
    const cr_tensor *a = &f.tensors[0], *b = &f.tensors[1];
    assert_string_equal(a->name.data, "a");
    assert_int_equal(a->n_dims, 2);
    assert_true(a->shape[0] == 3 && a->shape[1] == 2); /* turned round */
    assert_int_equal(a->size, 24);
    assert_int_equal(a->data[0], 4);
    assert_true(b->type == CR_TYPE_BF16 && b->size == 4 && b->data[3] == 3);
    assert_true(f.tensors[2].type == CR_TYPE_COUNT && f.tensors[2].data == NULL);
}

static void wrong_headers_are_refused_by_name(void **state)
{
    (void)state;
#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"w\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    const struct {
        const char *header, *words;
    } cases[] = {
        { ENTRY("F32", "[4]", "[0,17]"), "w: data_offsets" },
        { ENTRY("F32", "[4]", "[8,4]"), "w: data_offsets" },
        { ENTRY("F32", "[4]", "[-4,12]"), "w: data_offsets" },
        { ENTRY("F32", "[4]", "[0]"), "w: data_offsets" },
        { ENTRY("F32", "[3]", "[0,16]"), "w: expected 12 bytes" },
        { ENTRY("F32", "[576460752303423488,4]", "[0,16]"), "w: dimension 1" },
        { ENTRY("F32", "[0]", "[0,0]"), "w: dimension 0" },
        { ENTRY("F32", "[1.5]", "[0,4]"), "w: dimension 0" },
        { ENTRY("F32", "[1,1,1,1,1]", "[0,4]"), "at most 4" },
        { ENTRY("F99", "[4]", "[0,16]"), "known dtype" },
        { "{\"w\":3}", "known dtype" },
        { "{\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[4,16]}}",
          "w: data_offsets: expected to begin at 8" },
        { ENTRY("F32", "[3]", "[4,16]"), "w: data_offsets: expected to begin at 0" },
        { ENTRY("F32", "[3]", "[0,12]"), "expected 12 bytes of tensors, found 16" },
        { "[1]", "JSON object" },
        { "{\"w\":{},\"w\":{}}", "each key once" },
        { "{\"w\"", "line 1" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cr_safetensors f;
        cera_error err = { 0 };
        assert_int_equal(parse(cases[i].header, 16, &f, &err), CERA_E_FORMAT);
        if (strstr(err.message, cases[i].words) == NULL)
            fail_msg("expected \"%s\" in \"%s\"", cases[i].words, err.message);
    }
    cr_safetensors f = { .n_tensors = 0 };
    const uint8_t huge[16] = { 9 };
    assert_int_equal(cr_safetensors_parse(&f, &arena, huge, 16, "f", NULL), CERA_E_FORMAT);
    assert_int_equal(cr_safetensors_parse(&f, &arena, huge, 7, "f", NULL), CERA_E_FORMAT);
}

/* ---- sentencepiece --------------------------------------------------------------------------- */

/* Two pieces, the second one without a score and a type, unknown fields, and a normalizer. */
static const uint8_t spm_bytes[] = {
    0x0a, 14, 0x0a, 5, '<', 'u',  'n',  'k',  '>',  0x15, 0, 0, 0xa0, 0xbf, 0x18, 2, /* -1.25, 2 */
    0x0a, 3,  0x0a, 1, 'a', 0x12, 2,    0x08, 0x01, /* a trainer spec */
    0x1a, 6,  0x0a, 2, 'x', 'y',  0x18, 0,          /* no prefix */
};

static void pieces_are_read(void **state)
{
    (void)state;
    cr_spm spm;
    assert_int_equal(cr_spm_parse(spm_bytes, sizeof spm_bytes, "m", &arena, &spm, NULL), CERA_OK);
    assert_int_equal(spm.n, 2);
    assert_true(cr_str_is(spm.pieces[0].text, "<unk>") && spm.pieces[0].type == 2);
    assert_true(spm.pieces[0].score == -1.25f);
    assert_true(cr_str_is(spm.pieces[1].text, "a") && spm.pieces[1].type == 1);
    assert_false(spm.add_dummy_prefix);
}

static void cut_models_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof spm_bytes; n++) {
        uint8_t *exact = malloc(n + 1);
        cr_spm spm;
        assert_non_null(exact);
        memcpy(exact, spm_bytes, n);
        cera_status status = cr_spm_parse(exact, n, "m", &arena, &spm, NULL);
        /* Where a whole field ends, the rest is not missed. */
        bool is_whole = n == 16 || n == 21 || n == 25;
        assert_int_equal(status, is_whole ? CERA_OK : CERA_E_FORMAT);
        free(exact);
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static void names_follow_the_architecture(void **state)
{
    (void)state;
    const struct {
        const char *arch, *hf, *gguf;
        cr_hf_change change;
        int expert;
    } want[] = {
        { "LlamaForCausalLM", "model.embed_tokens.weight", "token_embd.weight", CR_HF_AS_IS, -1 },
        { "LlamaForCausalLM", "model.layers.12.self_attn.q_proj.weight", "blk.12.attn_q.weight",
          CR_HF_PAIRS_Q, -1 },
        { "Qwen2ForCausalLM", "model.layers.0.self_attn.k_proj.bias", "blk.0.attn_k.bias",
          CR_HF_AS_IS, -1 },
        { "LlamaForCausalLM", "model.layers.0.post_attention_layernorm.weight",
          "blk.0.ffn_norm.weight", CR_HF_AS_IS, -1 },
        { "Gemma2ForCausalLM", "model.layers.0.post_attention_layernorm.weight",
          "blk.0.post_attention_norm.weight", CR_HF_PLUS_ONE, -1 },
        { "Gemma3ForCausalLM", "model.layers.0.self_attn.q_norm.weight", "blk.0.attn_q_norm.weight",
          CR_HF_PLUS_ONE, -1 },
        { "Lfm2ForCausalLM", "model.layers.3.conv.conv.weight", "blk.3.shortconv.conv.weight",
          CR_HF_SQUEEZE, -1 },
        { "Lfm2ForCausalLM", "model.embedding_norm.weight", "token_embd_norm.weight", CR_HF_AS_IS,
          -1 },
        { "Phi3ForCausalLM", "model.layers.3.mlp.gate_up_proj.weight", "blk.3.ffn_up.weight",
          CR_HF_AS_IS, -1 },
        { "Qwen3MoeForCausalLM", "model.layers.3.mlp.experts.17.down_proj.weight",
          "blk.3.ffn_down_exps.weight", CR_HF_AS_IS, 17 },
        { "Lfm2MoeForCausalLM", "model.layers.3.feed_forward.expert_bias", "blk.3.exp_probs_b.bias",
          CR_HF_AS_IS, -1 },
        { "Mamba2ForCausalLM", "backbone.norm_f.weight", "output_norm.weight", CR_HF_AS_IS, -1 },
        { "Mamba2ForCausalLM", "backbone.layers.3.norm.weight", "blk.3.attn_norm.weight",
          CR_HF_AS_IS, -1 },
        { "Mamba2ForCausalLM", "backbone.layers.3.mixer.A_log", "blk.3.ssm_a", CR_HF_NEG_EXP, -1 },
        { "Mamba2ForCausalLM", "backbone.layers.3.mixer.dt_bias", "blk.3.ssm_dt.bias", CR_HF_AS_IS,
          -1 },
        { "GraniteMoeHybridForCausalLM", "model.layers.3.mamba.norm.weight",
          "blk.3.ssm_norm.weight", CR_HF_GROUPS, -1 },
        { "GraniteMoeHybridForCausalLM", "model.layers.3.mamba.conv1d.bias",
          "blk.3.ssm_conv1d.bias", CR_HF_AS_IS, -1 },
        { "GraniteMoeHybridForCausalLM", "model.layers.3.shared_mlp.output_linear.weight",
          "blk.3.ffn_down.weight", CR_HF_AS_IS, -1 },
    };
    cr_hf_target got[2];
    for (size_t i = 0; i < CR_COUNT(want); i++) {
        const cr_hf_arch *arch = cr_hf_find(cr_str_from(want[i].arch), NULL);
        assert_non_null(arch);
        assert_int_equal(cr_hf_targets(arch, cr_str_from(want[i].hf), got), 1);
        assert_string_equal(got[0].name, want[i].gguf);
        assert_int_equal(got[0].change, want[i].change);
        assert_int_equal(got[0].expert, want[i].expert);
    }
    const cr_hf_arch *llama = cr_hf_find(cr_str_from("LlamaForCausalLM"), NULL);
    cr_str inv_freq = cr_str_from("model.layers.0.self_attn.rotary_emb.inv_freq");
    assert_int_equal(cr_hf_targets(llama, inv_freq, got), 1);
    assert_string_equal(got[0].name, ""); /* no place in a GGUF file */
    /* Gate and up in one are two tensors. */
    const cr_hf_arch *granite = cr_hf_find(cr_str_from("GraniteMoeForCausalLM"), NULL);
    cr_str both = cr_str_from("model.layers.1.block_sparse_moe.input_linear.weight");
    assert_int_equal(cr_hf_targets(granite, both, got), 2);
    assert_string_equal(got[0].name, "blk.1.ffn_gate_exps.weight");
    assert_string_equal(got[1].name, "blk.1.ffn_up_exps.weight");
    assert_true(got[0].change == CR_HF_HALF_0 && got[1].change == CR_HF_HALF_1);
    const char *const unknown[] = { "model.layers.0.what.weight",
                                    "model.layers.x.mlp.up_proj.weight",
                                    "model.layers.0.mlp.up_proj",
                                    "model.layers.0.mlp.experts.x.up_proj.weight",
                                    "model.layers.0.mlp.experts.1.what.weight",
                                    "model.layers.",
                                    "weight" };
    for (size_t i = 0; i < CR_COUNT(unknown); i++)
        assert_int_equal(cr_hf_targets(llama, cr_str_from(unknown[i]), got), 0);
    const cr_hf_arch *mamba2 = cr_hf_find(cr_str_from("Mamba2ForCausalLM"), NULL);
    cr_str bias = cr_str_from("backbone.layers.0.mixer.in_proj.bias");
    assert_int_equal(cr_hf_targets(mamba2, bias, got), 0);
    assert_null(cr_hf_find(cr_str_from("BertModel"), NULL));
}

/* ---- failures -------------------------------------------------------------------------------- */

static char folder[] = "/tmp/cera-convert-XXXXXX";

static const char *at(const char *name)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put_file(const char *name, const void *data, size_t n)
{
    FILE *file = fopen(at(name), "wb");
    assert_non_null(file);
    fwrite(data, 1, n, file);
    fclose(file);
}

static void write_folder(void)
{
    static const char config[] =
        "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":1,\"hidden_size\":8,"
        "\"intermediate_size\":8,\"num_attention_heads\":2,\"max_position_embeddings\":16,"
        "\"vocab_size\":2,\"rms_norm_eps\":1e-5,\"rope_theta\":10000,\"rope_scaling\":"
        "{\"rope_type\":\"llama3\",\"factor\":8}}";
    static const struct {
        const char *name;
        size_t n_rows, n_cols;
    } tensors[] = {
        { "embed_tokens", 2, 8 },
        { "norm", 8, 1 },
        { "layers.0.input_layernorm", 8, 1 },
        { "layers.0.post_attention_layernorm", 8, 1 },
        { "layers.0.self_attn.q_proj", 8, 8 },
        { "layers.0.self_attn.k_proj", 8, 8 },
        { "layers.0.self_attn.v_proj", 8, 8 },
        { "layers.0.self_attn.o_proj", 8, 8 },
        { "layers.0.mlp.gate_proj", 8, 8 },
        { "layers.0.mlp.up_proj", 8, 8 },
        { "layers.0.mlp.down_proj", 8, 8 },
    };
    static uint8_t bytes[8192];
    char *header = (char *)bytes + 8;
    size_t n = 0, end = 0;
    for (size_t i = 0; i < CR_COUNT(tensors); i++) {
        size_t begin = end, rows = tensors[i].n_rows, cols = tensors[i].n_cols;
        end += rows * cols * sizeof(float);
        char shape[16];
        snprintf(shape, sizeof shape, "%zu%s", rows, cols > 1 ? ",8" : "");
        n += (size_t)snprintf(header + n, sizeof bytes / 2 - n,
                              "%c\"model.%s.weight\":{\"dtype\":\"F32\",\"shape\":[%s],"
                              "\"data_offsets\":[%zu,%zu]}",
                              i > 0 ? ',' : '{', tensors[i].name, shape, begin, end);
    }
    header[n++] = '}';
    bytes[0] = (uint8_t)n;
    bytes[1] = (uint8_t)(n >> 8);
    put_file("config.json", config, strlen(config));
    put_file("model.safetensors", bytes, 8 + n + end);
    put_file("tokenizer.model", spm_bytes, sizeof spm_bytes);
}

static void no_failure_leaves_anything(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    write_folder();
    const fault_call calls[] = { FAULT_ALLOC,  FAULT_OPEN,  FAULT_STAT, FAULT_MAP,
                                 FAULT_CREATE, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME };
    char out[96];
    snprintf(out, sizeof out, "%s", at("out.gguf"));
    for (size_t c = 0; c < CR_COUNT(calls); c++) {
        for (size_t i = 1;; i++) {
            fault_host f;
            fault_init(&f);
            fault_os(&f, calls[c], i, FAULT_ONCE, calls[c] == FAULT_ALLOC ? ENOMEM : EIO);
            cera_convert_options o;
            cera_convert_options_init(&o);
            o.host = &f.host;
            o.n_threads = 1;
            cera_error err = { 0 };
            unlink(out);
            cera_status status = cera_convert(folder, out, "F16", &o, NULL, &err);
            assert_null(fault_check(&f));
            bool reached = fault_hits(&f) > 0;
            fault_done(&f);
            assert_int_equal(access(out, F_OK) == 0, status == CERA_OK);
            if (!reached) {
                if (status != CERA_OK)
                    fail_msg("%s", err.message);
                break;
            }
            assert_int_equal(status, calls[c] == FAULT_ALLOC ? CERA_E_NOMEM : CERA_E_IO);
        }
    }
    const char *const names[] = { "out.gguf", "config.json", "model.safetensors",
                                  "tokenizer.model" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        unlink(at(names[i]));
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_are_ranges_of_the_file, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(wrong_headers_are_refused_by_name, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(pieces_are_read, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(cut_models_are_refused, make_arena, drop_arena),
        cmocka_unit_test(names_follow_the_architecture),
        cmocka_unit_test(no_failure_leaves_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
