/* The vocabulary: tokenizer.json (byte-level BPE) or tokenizer.model (sentencepiece), and the rules
 * of tokenizer_config.json. */
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

static cera_status check_id(const vocab *v, int64_t id, cr_str text, cera_error *err)
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
static cera_status add_token(vocab *v, int64_t id, cr_str text, bool special, float score,
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

#define BLANKS "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BLANKS
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SHORT CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(contraction, digits)                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" contraction "|[^\\r\\n\\p{L}\\p{N}]?" UPPER       \
    "+" LOWER "*" contraction "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BLANKS

/* The regular expressions of tokenizer.json files, one after the other, and the name under which
 * GGUF knows the rule. Line ends stand in some files as they are; here they are escapes. */
enum { SPLIT_STEPS = 3 };
static const struct {
    const char *pre, *regex[SPLIT_STEPS];
} split_names[] = {
    { "llama-bpe", { SHORT "\\p{N}{1,3}" TAIL } },
    { "qwen2", { SHORT "\\p{N}" TAIL } },
    { "qwen35",
      { CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"
                    "[\\r\\n]*" BLANKS } },
    { "seed-coder", { SHORT "\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" BLANKS } },
    { "bailingmoe",
      { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
        "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" } },
    { "exaone-moe",
      { CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" } },
    { "jais-2",
      { SHORT "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)"
              "|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)"
              "|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}" } },
    { "tekken", { CASED("", "\\p{N}") } },
    { "gpt-4o", { CASED(CONTRACTION "?", "\\p{N}{1,3}") } },
    { "tiny_aya", { "\\d{1,3}(?=(?:\\d{3})*\\b)", CASED(CONTRACTION "?", "\\p{N}{1,3}") } },
    { "minicpm5", { "\\p{N}{1,3}", SHORT "\\p{N}+" TAIL } },
    { "deepseek-v3",
      { "\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
        "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" BLANKS } },
};

/* Whether a file's expression is this one, which has escapes for line ends. */
static bool is_regex(cr_str text, const char *regex)
{
    size_t i = 0;
    for (; i < text.size && *regex != '\0'; i++, regex++) {
        char c = text.data[i], escape = c == '\n' ? 'n' : c == '\r' ? 'r' : '\0';
        if (escape != '\0' ? regex[0] != '\\' || regex[1] != escape : *regex != c)
            return false;
        regex += escape != '\0';
    }
    return i == text.size && *regex == '\0';
}

/* The steps of a pre-tokenizer: [step] or a sequence of them. */
static const cr_json *step_of(const cr_json *pre, size_t i)
{
    const cr_json *list = cr_json_get(pre, "pretokenizers");
    return list != NULL ? cr_json_at(list, i) : i == 0 ? pre : NULL;
}

/* What it matches has to be a piece, and what lies between too. */
static bool isolates(const cr_json *split)
{
    bool invert = cr_json_bool(cr_json_get(split, "invert"), false);
    return cr_str_is(cr_json_str(cr_json_get(split, "behavior")), invert ? "Removed" : "Isolated");
}

/* The rule whose steps these are, all n of them, and no more; NULL when none is. */
static const char *find_split(const cr_str regex[SPLIT_STEPS], size_t n)
{
    for (size_t k = 0; k < CR_COUNT(split_names); k++) {
        size_t i = 0;
        while (i < n && split_names[k].regex[i] != NULL &&
               is_regex(regex[i], split_names[k].regex[i]))
            i++;
        if (i == n && (n == SPLIT_STEPS || split_names[k].regex[n] == NULL))
            return split_names[k].pre;
    }
    return NULL;
}

static const char *find_pre(const cr_json *tokenizer)
{
    const cr_json *pre = cr_json_get(tokenizer, "pre_tokenizer"), *step;
    bool digits = false, byte_level = false, gpt2 = false;
    cr_str regex[SPLIT_STEPS];
    size_t n = 0;
    for (size_t i = 0; (step = step_of(pre, i)) != NULL; i++) {
        cr_str type = cr_json_str(cr_json_get(step, "type"));
        if (cr_str_is(type, "Split") && n < SPLIT_STEPS && isolates(step)) {
            regex[n++] = cr_json_str(cr_json_get(cr_json_get(step, "pattern"), "Regex"));
        } else if (cr_str_is(type, "Digits")) {
            digits = cr_json_bool(cr_json_get(step, "individual_digits"), false);
        } else if (cr_str_is(type, "ByteLevel")) {
            byte_level = true;
            gpt2 = cr_json_bool(cr_json_get(step, "use_regex"), true);
        } else {
            return NULL;
        }
    }
    if (!byte_level || (n > 0 && (gpt2 || digits)) || (n == 0 && !gpt2))
        return NULL;
    return n > 0 ? find_split(regex, n) : digits ? "smollm" : "gpt-2";
}

/* "a b", or ["a", "b"] as newer files have it; a blank within a part is written as byte-level BPE
 * writes it. */
static cera_status put_merge(vocab *v, const cr_json *merge, cr_gguf_writer *w, cera_error *err)
{
    cr_str text = cr_json_str(merge);
    if (cr_json_count(merge, CR_JSON_ARRAY) == 2) {
        cr_str a = cr_json_str(cr_json_at(merge, 0)), b = cr_json_str(cr_json_at(merge, 1));
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
    const cr_json *model = cr_json_get(v->folder->tokenizer, "model");
    const cr_json *list = cr_json_get(model, "vocab");
    cr_str type = cr_json_str(cr_json_get(model, "type"));
    if (!cr_str_is(type, "BPE"))
        return cr_fail(err, CERA_E_UNSUPPORTED, "%s: expected a model of type BPE, found \"%.*s\"",
                       v->path, (int)CR_MIN(type.size, (size_t)32), type.data);
    if (!cr_json_is(list, CR_JSON_OBJECT))
        return cr_fail(err, CERA_E_FORMAT, "%s: model: vocab: expected an object", v->path);
    if (!cr_json_is(cr_json_get(model, "merges"), CR_JSON_ARRAY))
        return cr_fail(err, CERA_E_FORMAT, "%s: model: merges: expected a list", v->path);
    const cr_json *added = cr_json_get(v->folder->tokenizer, "added_tokens");
    if (added != NULL && !cr_json_is(added, CR_JSON_ARRAY) && !cr_json_is(added, CR_JSON_NULL))
        return cr_fail(err, CERA_E_FORMAT, "%s: added_tokens: expected a list", v->path);
    CR_TRY(fill_unused(v, n_vocab > 0 ? n_vocab : list->n, 0, err));
    for (const cr_json *at = list->first; at != NULL; at = at->next) {
        int64_t id = -1;
        (void)cr_json_i64(at, &id);
        CR_TRY(check_id(v, id, at->key, err));
        cr_str other = v->tokens[id].text;
        if (v->tokens[id].type != UNUSED)
            return cr_fail(err, CERA_E_FORMAT, "%s: tokens \"%.*s\" and \"%.*s\" have the same id",
                           v->path, (int)CR_MIN(other.size, (size_t)40), other.data,
                           (int)CR_MIN(at->key.size, (size_t)40), at->key.data);
        v->tokens[id] = (cr_piece){ at->key, 0, NORMAL };
    }
    const cr_json *at =
        cr_json_first(cr_json_get(v->folder->tokenizer, "added_tokens"), CR_JSON_ARRAY);
    for (; at != NULL; at = at->next) {
        int64_t id = -1;
        (void)cr_json_i64(cr_json_get(at, "id"), &id);
        CR_TRY(add_token(v, id, cr_json_str(cr_json_get(at, "content")),
                         cr_json_bool(cr_json_get(at, "special"), false), 0, err));
    }
    return CERA_OK;
}

static cera_status put_bpe(vocab *v, cr_gguf_writer *w, cera_error *err)
{
    const cr_json *model = cr_json_get(v->folder->tokenizer, "model");
    const cr_json *merges = cr_json_get(model, "merges");
    const cr_json *merge = cr_json_first(merges, CR_JSON_ARRAY);
    cr_gguf_put_array(w, "tokenizer.ggml.merges", CERA_VALUE_STRING,
                      cr_json_count(merges, CR_JSON_ARRAY));
    for (; merge != NULL; merge = merge->next)
        CR_TRY(put_merge(v, merge, w, err));
    return CERA_OK;
}

/* ---- sentencepiece --------------------------------------------------------------------------- */

/* Later layers of additions stand over earlier ones; all of them weigh as little. */
static cera_status read_added(vocab *v, cera_error *err)
{
    const float score = -1000;
    const cr_json *file;
    CR_TRY(cr_folder_json(v->folder, "added_tokens.json", false, &file, err));
    const cr_json *at = cr_json_first(file, CR_JSON_OBJECT);
    for (; at != NULL; at = at->next) {
        int64_t id = -1;
        (void)cr_json_i64(at, &id);
        CR_TRY(add_token(v, id, at->key, false, score, err));
    }
    at = cr_json_first(cr_json_get(v->folder->tok_config, "added_tokens_decoder"), CR_JSON_OBJECT);
    for (; at != NULL; at = at->next) {
        int64_t id = -1;
        (void)cr_parse_i64(at->key, &id);
        cr_str text = cr_json_str(cr_json_get(at, "content"));
        CR_TRY(check_id(v, id, text, err));
        /* One that the model knows by the same text, and as a control token, is as it should be. */
        if (v->tokens[id].type == UNUSED || v->tokens[id].type == NORMAL)
            CR_TRY(add_token(v, id, text, cr_json_bool(cr_json_get(at, "special"), false), score,
                             err));
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
    const cr_json *token = cr_json_get(v->folder->tok_config, name);
    return cr_json_is(token, CR_JSON_OBJECT) ? cr_json_str(cr_json_get(token, "content"))
                                             : cr_json_str(token);
}

/* By name among the added tokens, else by number in config.json (the first of several). */
static bool find_special(const vocab *v, size_t k, uint32_t *id)
{
    cr_str text = special_text(v, special_ids[k].token);
    const cr_json *added = cr_json_get(v->folder->tokenizer, "added_tokens");
    const cr_json *token = cr_json_first(added, CR_JSON_ARRAY);
    for (; token != NULL && text.size > 0; token = token->next) {
        cr_str content = cr_json_str(cr_json_get(token, "content"));
        if (cr_str_same(content, text))
            return cr_json_u32(cr_json_get(token, "id"), id) && *id < v->n;
    }
    const cr_json *number = cr_json_get(v->folder->config, special_ids[k].id);
    if (cr_json_is(number, CR_JSON_ARRAY))
        number = cr_json_at(number, 0);
    return cr_json_u32(number, id) && *id < v->n;
}

/* Whether the template of tokenizer.json puts this text at one end of an input: 1, 0, -1
 * unknown. */
static int template_has(const vocab *v, cr_str text, bool at_end)
{
    const cr_json *post = cr_json_get(v->folder->tokenizer, "post_processor");
    const cr_json *part = cr_json_first(cr_json_get(post, "processors"), CR_JSON_ARRAY);
    for (; part != NULL; part = part->next)
        if (cr_str_is(cr_json_str(cr_json_get(part, "type")), "TemplateProcessing"))
            post = part;
    const cr_json *single = cr_json_get(post, "single");
    size_t n = cr_json_count(single, CR_JSON_ARRAY);
    if (n == 0)
        return -1;
    const cr_json *end = cr_json_get(cr_json_at(single, at_end ? n - 1 : 0), "SpecialToken");
    cr_str id = cr_json_str(cr_json_get(end, "id"));
    return text.size > 0 && cr_str_same(id, text);
}

static void put_add(const vocab *v, const char *name, const char *token, bool at_end,
                    const char *key, cr_gguf_writer *w)
{
    int by_template = template_has(v, special_text(v, token), at_end);
    const cr_json *flag = cr_json_get(v->folder->tok_config, name);
    if (by_template == 1 || cr_json_is(flag, CR_JSON_TRUE) || cr_json_is(flag, CR_JSON_FALSE))
        cr_gguf_put_bool(w, key, by_template == 1 || cr_json_bool(flag, false));
}

/* The chat template: in tokenizer_config.json, or in a file of its own. */
static cera_status put_template(vocab *v, cr_gguf_writer *w, cera_error *err)
{
    cr_str text = cr_json_str(cr_json_get(v->folder->tok_config, "chat_template"));
    if (text.size > 0) {
        cr_gguf_put_str(w, "tokenizer.chat_template", text);
        return CERA_OK;
    }
    const char *path = cr_folder_path(v->folder, cr_str_from("chat_template.jinja"));
    cr_view view;
    if (path == NULL)
        return cr_fail_nomem(err, 0, "a path");
    if (cr_folder_lacks(v->folder, path))
        return CERA_OK;
    CR_TRY(cr_view_open(&view, v->folder->host, path, CR_GGUF_MAX_STRING, false, err));
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
    vocab v = { .folder = folder, .path = cr_folder_path(folder, cr_str_from("tokenizer.model")) };
    const char *json = cr_folder_path(folder, cr_str_from("tokenizer.json"));
    if (v.path == NULL || json == NULL)
        return cr_fail_nomem(err, 0, "a path");
    if (folder->tokenizer != NULL && cr_folder_lacks(folder, v.path)) {
        v.path = json;
        return put_bpe_vocab(&v, n_vocab, w, err);
    }
    cr_view view;
    CR_TRY(cr_view_open(&view, folder->host, v.path, MAX_MODEL, false, err));
    cera_status status = put_spm_vocab(&v, &view, n_vocab, no_space_prefix, w, err);
    cr_view_done(&view);
    return status;
}
