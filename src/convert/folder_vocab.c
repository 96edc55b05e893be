/* The vocabulary: tokenizer.json (byte-level BPE) or tokenizer.model (sentencepiece), and the rules of
 * tokenizer_config.json. */
#include "convert/folder.h"

#include "file/view.h"

#include <stdio.h>

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 };
enum { MAX_VOCAB = 1 << 24, MAX_MODEL = 64 << 20 };

typedef struct vocab {
    cr_folder *folder;
    cr_piece *tokens; /* [n] */
    size_t n;
    const char *path; /* of the file that lists them */
} vocab;

/* ---- the list -------------------------------------------------------------------------------- */

/* Ids that nothing stands for: rows of the embedding that pad it to a round number. */
static cera_status fill_unused(vocab *v, size_t n, float score, cera_error *err)
{
    if (n == 0 || n > MAX_VOCAB)
        return cr_fail(err, CERA_E_LIMIT, "%s: expected 1 to %d tokens, found %zu", v->path,
                       MAX_VOCAB, n);
    v->n = n;
    v->tokens = cr_arena_array(&v->folder->arena, n, sizeof *v->tokens);
    char *names = cr_arena_array(&v->folder->arena, n, 16);
    if (v->tokens == NULL || names == NULL)
        return cr_fail_nomem(err, n * sizeof *v->tokens, "the vocabulary");
    for (size_t i = 0; i < n; i++) {
        int size = snprintf(names + 16 * i, 16, "[PAD%zu]", i);
        v->tokens[i] = (cr_piece){ { names + 16 * i, (size_t)size }, score, UNUSED };
    }
    return CERA_OK;
}

static cera_status check_id(const vocab *v, json_int_t id, cr_str text, cera_error *err)
{
    if (id >= 0 && (uint64_t)id < v->n)
        return CERA_OK;
    return cr_fail(err, CERA_E_FORMAT, "%s: token \"%.*s\": expected an id below %zu, found %lld",
                   v->path, (int)CR_MIN(text.size, (size_t)40), text.data, v->n, (long long)id);
}

/* Some tokenizers forget to call their control tokens special. */
static bool looks_special(cr_str text)
{
    static const char *const names[] = { "<pad>", "<mask>", "<2mass>", "[@BOS@]" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (cr_str_is(text, names[i]))
            return true;
    const char *t = text.data;
    size_t n = text.size;
    return n >= 4 && ((t[0] == '<' && t[1] == '|' && t[n - 2] == '|' && t[n - 1] == '>') ||
                      (n >= 15 && memcmp(t, "<unused", 7) == 0 && t[n - 1] == '>'));
}

/* A token that is cut out of the text before the others apply. */
static cera_status add_token(vocab *v, json_int_t id, cr_str text, bool special, float score,
                             cera_error *err)
{
    CR_TRY(check_id(v, id, text, err));
    cr_piece *token = &v->tokens[id];
    token->text = text;
    token->score = score;
    token->type = special || looks_special(text) ? CONTROL : USER_DEFINED;
    return CERA_OK;
}

/* ---- byte-level BPE -------------------------------------------------------------------------- */

#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SHORT "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"

/* The regular expressions of tokenizer.json files, and the name under which GGUF knows the rule. */
static const struct {
    const char *regex, *pre;
} split_names[] = {
    { SHORT "\\p{N}{1,3}" TAIL, "llama-bpe" },
    { SHORT "\\p{N}" TAIL, "qwen2" },
    { "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
      "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "tekken" },
};

/* The steps of a pre-tokenizer: [step] or a sequence of them. */
static const json_t *step_of(const json_t *pre, size_t i)
{
    const json_t *list = json_object_get(pre, "pretokenizers");
    return list != NULL ? json_array_get(list, i) : i == 0 ? pre : NULL;
}

static const char *find_pre(const json_t *tokenizer)
{
    const json_t *pre = json_object_get(tokenizer, "pre_tokenizer"), *step;
    bool digits = false, byte_level = false, regex = false;
    const char *found = NULL;
    for (size_t i = 0; (step = step_of(pre, i)) != NULL; i++) {
        cr_str type = cr_json_str(step, "type");
        if (cr_str_is(type, "Split")) {
            cr_str text = cr_json_str(json_object_get(step, "pattern"), "Regex");
            for (size_t k = 0; k < CR_COUNT(split_names) && found == NULL; k++)
                found = cr_str_is(text, split_names[k].regex) ? split_names[k].pre : NULL;
            if (found == NULL)
                return NULL;
        } else if (cr_str_is(type, "Digits")) {
            digits = cr_json_bool(step, "individual_digits", false);
        } else if (cr_str_is(type, "ByteLevel")) {
            byte_level = true;
            regex = cr_json_bool(step, "use_regex", true);
        } else {
            return NULL;
        }
    }
    if (!byte_level)
        return NULL;
    if (found != NULL)
        return !regex && !digits ? found : NULL;
    return !regex ? NULL : digits ? "smollm" : "gpt-2";
}

/* "a b", or ["a", "b"] as newer files have it; a blank within a part is written as byte-level BPE
 * writes it. */
static cera_status put_merge(vocab *v, const json_t *merge, cr_gguf_writer *w, cera_error *err)
{
    cr_str text = cr_json_text(merge);
    if (json_is_array(merge)) {
        cr_str a = cr_json_text(json_array_get(merge, 0)),
               b = cr_json_text(json_array_get(merge, 1));
        size_t room = 2 * (a.size + b.size) + 1;
        char *joined = cr_arena_alloc(&v->folder->arena, room);
        if (joined == NULL)
            return cr_fail_nomem(err, room, "the merges");
        size_t n = 0;
        for (size_t i = 0; i < a.size + b.size; i++) {
            char c = i < a.size ? a.data[i] : b.data[i - a.size];
            if (i == a.size)
                joined[n++] = ' ';
            if (c == ' ') {
                memcpy(joined + n, "\xc4\xa0", 2); /* U+0120 */
                n += 2;
            } else {
                joined[n++] = c;
            }
        }
        text = (cr_str){ joined, n };
    }
    if (text.size == 0)
        return cr_fail(err, CERA_E_FORMAT, "%s: a merge is neither a text nor a pair of texts",
                       v->path);
    cr_gguf_put_element(
        w, &(cera_value){ .type = CERA_VALUE_STRING, .as.s = { text.data, text.size } });
    return CERA_OK;
}

static cera_status read_bpe(vocab *v, uint32_t n_vocab, cera_error *err)
{
    const json_t *model = json_object_get(v->folder->tokenizer, "model");
    json_t *list = json_object_get(model, "vocab"), *id;
    if (!cr_str_is(cr_json_str(model, "type"), "BPE") || !json_is_object(list))
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: expected a model of type BPE, found \"%s\"",
                       v->path, cr_json_str(model, "type").data);
    const json_t *added = json_object_get(v->folder->tokenizer, "added_tokens");
    CR_TRY(fill_unused(v, n_vocab > 0 ? n_vocab : json_object_size(list), 0, err));
    void *at = json_object_iter(list);
    for (; at != NULL; at = json_object_iter_next(list, at)) {
        cr_str text = { json_object_iter_key(at), json_object_iter_key_len(at) };
        id = json_object_iter_value(at);
        CR_TRY(check_id(v, json_is_integer(id) ? json_integer_value(id) : -1, text, err));
        v->tokens[json_integer_value(id)] = (cr_piece){ text, 0, NORMAL };
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        CR_TRY(add_token(v, json_integer_value(json_object_get(token, "id")),
                         cr_json_str(token, "content"), cr_json_bool(token, "special", false), 0,
                         err));
    }
    return CERA_OK;
}

static cera_status put_bpe(vocab *v, cr_gguf_writer *w, cera_error *err)
{
    const json_t *model = json_object_get(v->folder->tokenizer, "model");
    const json_t *merges = json_object_get(model, "merges");
    cr_gguf_put_array(w, "tokenizer.ggml.merges", CERA_VALUE_STRING, json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges); i++)
        CR_TRY(put_merge(v, json_array_get(merges, i), w, err));
    return CERA_OK;
}

/* ---- sentencepiece --------------------------------------------------------------------------- */

/* Later layers of additions stand over earlier ones; all of them weigh as little. */
static cera_status read_added(vocab *v, cera_error *err)
{
    const float score = -1000;
    json_t *file;
    CR_TRY(cr_folder_json(v->folder, "added_tokens.json", false, &file, err));
    cera_status status = CERA_OK;
    for (void *at = json_object_iter(file); at != NULL && status == CERA_OK;
         at = json_object_iter_next(file, at)) {
        size_t n = json_object_iter_key_len(at);
        const char *copy = cr_arena_copy(&v->folder->arena, json_object_iter_key(at), n);
        if (copy == NULL)
            status = cr_fail_nomem(err, n, "the vocabulary");
        else
            status = add_token(v, json_integer_value(json_object_iter_value(at)),
                               (cr_str){ copy, n }, false, score, err);
    }
    json_decref(file);
    if (status != CERA_OK)
        return status;
    json_t *list = json_object_get(v->folder->tok_config, "added_tokens_decoder");
    for (void *at = json_object_iter(list); at != NULL; at = json_object_iter_next(list, at)) {
        const json_t *token = json_object_iter_value(at);
        int64_t id = -1;
        (void)cr_parse_i64(cr_str_from(json_object_iter_key(at)), &id);
        cr_str text = cr_json_str(token, "content");
        CR_TRY(check_id(v, id, text, err));
        /* One that the model knows by the same text, and as a control token, is as it should be. */
        if (v->tokens[id].type == UNUSED || v->tokens[id].type == NORMAL)
            CR_TRY(add_token(v, id, text, cr_json_bool(token, "special", false), score, err));
    }
    return CERA_OK;
}

static cera_status read_spm(vocab *v, const cr_view *view, uint32_t n_vocab, bool *dummy_prefix,
                            cera_error *err)
{
    cr_spm spm;
    CR_TRY(cr_spm_parse(view->bytes, view->n_bytes, v->path, &v->folder->arena, &spm, err));
    CR_TRY(fill_unused(v, CR_MAX((size_t)n_vocab, spm.n), -10000, err));
    memcpy(v->tokens, spm.pieces, spm.n * sizeof *spm.pieces);
    *dummy_prefix = spm.add_dummy_prefix;
    return read_added(v, err);
}

/* ---- what both have -------------------------------------------------------------------------- */

static void put_tokens(const vocab *v, bool scores, cr_gguf_writer *w)
{
    cr_gguf_put_array(w, "tokenizer.ggml.tokens", CERA_VALUE_STRING, v->n);
    for (size_t i = 0; i < v->n; i++)
        cr_gguf_put_element(
            w, &(cera_value){ .type = CERA_VALUE_STRING,
                              .as.s = { v->tokens[i].text.data, v->tokens[i].text.size } });
    if (scores)
        cr_gguf_put_array(w, "tokenizer.ggml.scores", CERA_VALUE_F32, v->n);
    for (size_t i = 0; i < v->n && scores; i++)
        cr_gguf_put_element(
            w, &(cera_value){ .type = CERA_VALUE_F32, .as.f = (double)v->tokens[i].score });
    cr_gguf_put_array(w, "tokenizer.ggml.token_type", CERA_VALUE_I32, v->n);
    for (size_t i = 0; i < v->n; i++)
        cr_gguf_put_element(w, &(cera_value){ .type = CERA_VALUE_I32, .as.i = v->tokens[i].type });
}

static const struct {
    const char *token, *id, *key;
} special_ids[] = {
    { "bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id" },
    { "eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id" },
    { "unk_token", "unk_token_id", "tokenizer.ggml.unknown_token_id" },
    { "sep_token", "sep_token_id", "tokenizer.ggml.seperator_token_id" },
    { "pad_token", "pad_token_id", "tokenizer.ggml.padding_token_id" },
};

/* The text of a token that tokenizer_config.json names: a text, or an object with one. */
static cr_str special_text(const vocab *v, const char *name)
{
    const json_t *token = json_object_get(v->folder->tok_config, name);
    return json_is_object(token) ? cr_json_str(token, "content") : cr_json_text(token);
}

/* By name among the added tokens, else by number in config.json (the first of several). */
static bool find_special(const vocab *v, size_t k, uint32_t *id)
{
    cr_str text = special_text(v, special_ids[k].token);
    const json_t *added = json_object_get(v->folder->tokenizer, "added_tokens");
    for (size_t i = 0; i < json_array_size(added) && text.size > 0; i++) {
        const json_t *token = json_array_get(added, i);
        cr_str content = cr_json_str(token, "content");
        if (content.size == text.size && memcmp(content.data, text.data, text.size) == 0)
            return cr_json_u32(token, "id", id) && *id < v->n;
    }
    const json_t *number = json_object_get(v->folder->config, special_ids[k].id);
    if (json_is_array(number))
        number = json_array_get(number, 0);
    json_int_t value = json_integer_value(number);
    if (!json_is_integer(number) || value < 0 || (uint64_t)value >= v->n)
        return false;
    *id = (uint32_t)value;
    return true;
}

/* Whether the template of tokenizer.json puts this text at one end of an input: 1, 0, -1 unknown. */
static int template_has(const vocab *v, cr_str text, bool at_end)
{
    const json_t *post = json_object_get(v->folder->tokenizer, "post_processor");
    const json_t *parts = json_object_get(post, "processors");
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (cr_str_is(cr_json_str(json_array_get(parts, i), "type"), "TemplateProcessing"))
            post = json_array_get(parts, i);
    const json_t *single = json_object_get(post, "single");
    size_t n = json_array_size(single);
    if (n == 0)
        return -1;
    const json_t *end = json_object_get(json_array_get(single, at_end ? n - 1 : 0), "SpecialToken");
    cr_str id = cr_json_str(end, "id");
    return text.size > 0 && id.size == text.size && memcmp(id.data, text.data, id.size) == 0;
}

static void put_add(const vocab *v, const char *name, const char *token, bool at_end,
                    const char *key, cr_gguf_writer *w)
{
    int by_template = template_has(v, special_text(v, token), at_end);
    const json_t *flag = json_object_get(v->folder->tok_config, name);
    if (by_template == 1 || json_is_boolean(flag))
        cr_gguf_put_bool(w, key, by_template == 1 || json_is_true(flag));
}

/* The chat template: in tokenizer_config.json, or in a file of its own. */
static cera_status put_template(vocab *v, cr_gguf_writer *w, cera_error *err)
{
    cr_str text = cr_json_str(v->folder->tok_config, "chat_template");
    if (text.size > 0) {
        cr_gguf_put_str(w, "tokenizer.chat_template", text);
        return CERA_OK;
    }
    const char *path = cr_folder_path(v->folder, "chat_template.jinja");
    cr_view view;
    if (path == NULL)
        return cr_fail_nomem(err, 0, "a path");
    if (cr_folder_lacks(v->folder, path))
        return CERA_OK;
    CR_TRY(cr_view_open(&view, v->folder->host, path, CR_GGUF_MAX_STRING, err));
    if (view.n_bytes > 0)
        cr_gguf_put_str(w, "tokenizer.chat_template",
                        (cr_str){ (const char *)view.bytes, view.n_bytes });
    cr_view_done(&view);
    return CERA_OK;
}

static cera_status put_rules(vocab *v, cr_gguf_writer *w, cera_error *err)
{
    for (size_t k = 0; k < CR_COUNT(special_ids); k++) {
        uint32_t id;
        if (find_special(v, k, &id))
            cr_gguf_put_u32(w, special_ids[k].key, id);
    }
    put_add(v, "add_bos_token", "bos_token", false, "tokenizer.ggml.add_bos_token", w);
    put_add(v, "add_eos_token", "eos_token", true, "tokenizer.ggml.add_eos_token", w);
    return put_template(v, w, err);
}

static cera_status put_spm_vocab(vocab *v, const cr_view *view, uint32_t n_vocab,
                                 bool no_space_prefix, cr_gguf_writer *w, cera_error *err)
{
    bool dummy_prefix;
    CR_TRY(read_spm(v, view, n_vocab, &dummy_prefix, err));
    cr_gguf_put_str(w, "tokenizer.ggml.model", cr_str_from("llama"));
    cr_gguf_put_str(w, "tokenizer.ggml.pre", cr_str_from("default"));
    put_tokens(v, true, w);
    if (no_space_prefix || !dummy_prefix)
        cr_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    return put_rules(v, w, err);
}

static cera_status put_bpe_vocab(vocab *v, uint32_t n_vocab, cr_gguf_writer *w, cera_error *err)
{
    const char *pre = v->folder->pre != NULL ? v->folder->pre : find_pre(v->folder->tokenizer);
    if (pre == NULL)
        return cr_fail(
            err, CERA_E_UNSUPPORTED,
            "%s: pre_tokenizer: expected one that is known, found another; its name has to "
            "be given",
            v->path);
    CR_TRY(read_bpe(v, n_vocab, err));
    cr_gguf_put_str(w, "tokenizer.ggml.model", cr_str_from("gpt2"));
    cr_gguf_put_str(w, "tokenizer.ggml.pre", cr_str_from(pre));
    put_tokens(v, false, w);
    CR_TRY(put_bpe(v, w, err));
    return put_rules(v, w, err);
}

cera_status cr_folder_put_vocab(cr_folder *folder, uint32_t n_vocab, bool no_space_prefix,
                                cr_gguf_writer *w, cera_error *err)
{
    vocab v = { .folder = folder, .path = cr_folder_path(folder, "tokenizer.model") };
    const char *json = cr_folder_path(folder, "tokenizer.json");
    if (v.path == NULL || json == NULL)
        return cr_fail_nomem(err, 0, "a path");
    if (folder->tokenizer != NULL && cr_folder_lacks(folder, v.path)) {
        v.path = json;
        return put_bpe_vocab(&v, n_vocab, w, err);
    }
    cr_view view;
    CR_TRY(cr_view_open(&view, folder->host, v.path, MAX_MODEL, err));
    cera_status status = put_spm_vocab(&v, &view, n_vocab, no_space_prefix, w, err);
    cr_view_done(&view);
    return status;
}
