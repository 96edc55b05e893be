/* Reading a vocabulary: tokenizer.ggml.* keys -> tables.
 *
 * Everything in these keys may lie. Each is checked against the others and the size of the
 * vocabulary before it is used as an index; errors name the key and the element. */
#include "token/vocab_internal.h"

#include "base/arith.h"

#define KEY(name) CR_VOCAB_KEY(name)

static cera_status no_memory(cera_error *err, size_t n)
{
    return cr_fail_nomem(err, n, "the vocabulary");
}

/* ---- arrays -------------------------------------------------------------------------------- */

static bool is_kind(cera_value_type type, cr_array_kind kind)
{
    switch (kind) {
    case CR_ARRAY_TEXT:
        return type == CERA_VALUE_STRING;
    case CR_ARRAY_INT:
        return type <= CERA_VALUE_I32 || type == CERA_VALUE_U64 || type == CERA_VALUE_I64;
    default:
        return type == CERA_VALUE_F32;
    }
}

cera_status cr_vocab_array(const cr_gguf *file, const char *key, cr_array_kind kind,
                           cera_value *array, bool *found, cera_error *err)
{
    static const char *const kinds[] = { "strings", "integers", "f32" };
    *found = cr_gguf_find(file, key, array);
    if (*found && (array->type != CERA_VALUE_ARRAY || !is_kind(array->element, kind)))
        return cr_fail(err, CERA_E_FORMAT, "%s: expected an array of %s", key, kinds[kind]);
    return CERA_OK;
}

cr_str cr_vocab_text_at(const cera_value *array, uint64_t i)
{
    cera_value element;
    cr_gguf_element(array, i, &element);
    return (cr_str){ element.as.s.text, element.as.s.size };
}

int64_t cr_vocab_integer_at(const cera_value *array, uint64_t i)
{
    cera_value element;
    cr_gguf_element(array, i, &element);
    bool is_signed = element.type == CERA_VALUE_I8 || element.type == CERA_VALUE_I16 ||
                     element.type == CERA_VALUE_I32 || element.type == CERA_VALUE_I64;
    if (is_signed)
        return element.as.i;
    return element.as.u <= INT64_MAX ? (int64_t)element.as.u : -1;
}

/* ---- kind of vocabulary -------------------------------------------------------------------- */

static const cr_token_model *const models[] = {
    &cr_model_gpt2, &cr_model_gemma4, &cr_model_llama, &cr_model_t5,
#ifdef CERA_WITH_UTF8PROC
    &cr_model_bert,
#endif
};

static cera_status read_model(cr_vocab *vocab, const cr_gguf *file, const char *pre,
                              cera_error *err)
{
    cr_str name;
    CR_TRY(cr_gguf_get_str(file, KEY("model"), CR_REQUIRED, &name, err));
    for (size_t i = 0; i < CR_COUNT(models); i++)
        if (cr_str_is(name, models[i]->name))
            vocab->model = models[i];
#ifndef CERA_WITH_UTF8PROC
    if (cr_str_is(name, "bert"))
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       KEY("model") ": \"bert\" needs utf8proc, which this build is without");
#endif
    if (vocab->model == NULL)
        return cr_fail(err, CERA_E_UNSUPPORTED, KEY("model") ": \"%.*s\" is not supported",
                       (int)CR_MIN(name.size, (size_t)64), name.data);
    if (pre != NULL && !vocab->model->has_pre)
        return cr_fail(err, CERA_E_ARG, "pre: a vocabulary of kind %s has no pre-tokenizer",
                       vocab->model->name);
    vocab->bos = vocab->eos = vocab->unknown = -1;
    vocab->pre = "";
    return vocab->model->setup(vocab, file, pre, err);
}

/* ---- tokens -------------------------------------------------------------------------------- */

static cera_status read_types(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cera_value array;
    bool found;
    CR_TRY(cr_vocab_array(file, KEY("token_type"), CR_ARRAY_INT, &array, &found, err));
    if (found && array.count != vocab->n_tokens)
        return cr_fail(err, CERA_E_FORMAT, KEY("token_type") ": expected %zu elements, found %llu",
                       vocab->n_tokens, (unsigned long long)array.count);
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        int64_t type = found ? cr_vocab_integer_at(&array, i) : CR_TOKEN_NORMAL;
        /* 0 is "undefined" to the writers of GGUF, and no different from a normal token. */
        if (type == 0)
            type = CR_TOKEN_NORMAL;
        if (type < CR_TOKEN_NORMAL || type > CR_TOKEN_BYTE)
            return cr_fail(err, CERA_E_FORMAT,
                           KEY("token_type") "[%zu]: expected 0 to 6, found %lld", i,
                           (long long)type);
        vocab->flags[i] = (uint8_t)type;
    }

    /* Not every kind has a use for scores, but a file that lies about them lies. */
    CR_TRY(cr_vocab_array(file, KEY("scores"), CR_ARRAY_F32, &array, &found, err));
    if (found && array.count != vocab->n_tokens)
        return cr_fail(err, CERA_E_FORMAT, KEY("scores") ": expected %zu elements, found %llu",
                       vocab->n_tokens, (unsigned long long)array.count);
    return CERA_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that a text such as <0x0A> stands for, -1 for none. */
static int byte_of(cr_str text)
{
    if (text.size != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>')
        return -1;
    int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* What token i stands for, which is never longer than its text; the number of bytes. */
static size_t decode_token(cr_vocab *vocab, size_t i, cr_str text, char *out)
{
    size_t n = 0;
    int type = cr_vocab_type(vocab, i);
    int byte = vocab->alphabet != CR_ALPHABET_BYTES && type == CR_TOKEN_BYTE ? byte_of(text) : -1;
    if (byte < 0 && !cr_token_is_special(type) &&
        cr_alphabet_decode(vocab->alphabet, text, out, &n))
        return n;

    /* Normal tokens outside the alphabet exist in real files (joiners, keycaps). No merge makes
     * them; they decode to their text. */
    vocab->flags[i] |= CR_TOKEN_RAW;
    if (byte >= 0) {
        out[0] = (char)byte;
        if (vocab->byte_ids[byte] < 0)
            vocab->byte_ids[byte] = (int32_t)i;
        return 1;
    }
    if (text.size > 0)
        memcpy(out, text.data, text.size);
    return text.size;
}

/* The tokens' bytes into one block. */
static cera_status read_bytes(cr_vocab *vocab, const cera_value *tokens, cera_error *err)
{
    size_t room = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++)
        if (!cr_add_size(room, cr_vocab_text_at(tokens, i).size, &room) || room > UINT32_MAX)
            return cr_fail(err, CERA_E_LIMIT, KEY("tokens") ": more than 4 GiB of text");
    vocab->bytes = cr_arena_alloc(&vocab->arena, room);
    if (vocab->bytes == NULL)
        return no_memory(err, room);
    for (int byte = 0; byte < 256; byte++)
        vocab->byte_ids[byte] = -1;

    size_t used = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        vocab->offsets[i] = (uint32_t)used;
        used += decode_token(vocab, i, cr_vocab_text_at(tokens, i), vocab->bytes + used);
    }
    vocab->offsets[vocab->n_tokens] = (uint32_t)used;
    return CERA_OK;
}

/* Two tokens of one kind and text: the second one could never be found. Texts may differ and stand
 * for the same bytes ("\xe2\x96\x81" and a blank), and gaps in a table of real files are empty
 * texts. */
static bool is_repeated(const cera_value *tokens, size_t first, size_t second)
{
    cr_str a = cr_vocab_text_at(tokens, first), b = cr_vocab_text_at(tokens, second);
    return first != second && a.size > 0 && a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static cera_status index_tokens(cr_vocab *vocab, const cera_value *tokens, cera_error *err)
{
    while (((size_t)1 << vocab->slot_bits) / 2 < vocab->n_tokens)
        vocab->slot_bits++;
    size_t n_slots = (size_t)1 << vocab->slot_bits;
    vocab->slots = cr_arena_array(&vocab->arena, n_slots, sizeof *vocab->slots);
    if (vocab->slots == NULL)
        return no_memory(err, n_slots * sizeof *vocab->slots);
    for (size_t i = 0; i < n_slots; i++)
        vocab->slots[i].id = UINT32_MAX;
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        size_t first = cr_vocab_index(vocab, (uint32_t)i);
        if (is_repeated(tokens, first, i))
            return cr_fail(err, CERA_E_FORMAT, KEY("tokens") "[%zu]: the same text as [%zu]", i,
                           first);
    }
    return CERA_OK;
}

static cera_status read_tokens(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cera_value tokens;
    bool found;
    CR_TRY(cr_vocab_array(file, KEY("tokens"), CR_ARRAY_TEXT, &tokens, &found, err));
    if (!found)
        return cr_fail(err, CERA_E_FORMAT, KEY("tokens") ": the key is missing");
    if (tokens.count == 0 || tokens.count > INT32_MAX)
        return cr_fail(err, CERA_E_FORMAT, KEY("tokens") ": expected 1 to %d elements, found %llu",
                       INT32_MAX, (unsigned long long)tokens.count);
    vocab->n_tokens = (size_t)tokens.count;
    vocab->offsets = cr_arena_array(&vocab->arena, vocab->n_tokens + 1, sizeof *vocab->offsets);
    vocab->flags = cr_arena_alloc(&vocab->arena, vocab->n_tokens);
    if (vocab->offsets == NULL || vocab->flags == NULL)
        return no_memory(err, vocab->n_tokens * (sizeof *vocab->offsets + 1));
    CR_TRY(read_types(vocab, file, err));
    CR_TRY(read_bytes(vocab, &tokens, err));
    return index_tokens(vocab, &tokens, err);
}

/* ---- ids ------------------------------------------------------------------------------------ */

cera_status cr_vocab_read_id(const cr_vocab *vocab, const cr_gguf *file, const char *key,
                             int32_t *id, cera_error *err)
{
    cera_value value;
    uint32_t number = 0;
    if (!cr_gguf_find(file, key, &value))
        return CERA_OK;
    CR_TRY(cr_gguf_get_u32(file, key, CR_REQUIRED, &number, err));
    if (number >= vocab->n_tokens)
        return cr_fail(err, CERA_E_FORMAT,
                       "%s: expected an id below the vocabulary's %zu, found %u", key,
                       vocab->n_tokens, number);
    *id = (int32_t)number;
    return CERA_OK;
}

/* What a kind of vocabulary says of absent keys may not suit a small one. */
static void drop_unless_id(const cr_vocab *vocab, int32_t *id)
{
    if (*id >= 0 && (size_t)*id >= vocab->n_tokens)
        *id = -1;
}

static cera_status read_ids(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    int32_t unused = -1;
    drop_unless_id(vocab, &vocab->bos);
    drop_unless_id(vocab, &vocab->eos);
    drop_unless_id(vocab, &vocab->unknown);
    CR_TRY(cr_vocab_read_id(vocab, file, KEY("bos_token_id"), &vocab->bos, err));
    CR_TRY(cr_vocab_read_id(vocab, file, KEY("eos_token_id"), &vocab->eos, err));
    CR_TRY(cr_vocab_read_id(vocab, file, KEY("unknown_token_id"), &vocab->unknown, err));
    CR_TRY(cr_vocab_read_id(vocab, file, KEY("padding_token_id"), &unused, err));
    CR_TRY(cr_vocab_read_id(vocab, file, KEY("seperator_token_id"), &unused,
                            err)); /* spelled so in GGUF */
    if (vocab->model->bos_key != NULL)
        CR_TRY(cr_vocab_read_id(vocab, file, vocab->model->bos_key, &vocab->bos, err));
    if (vocab->model->eos_key != NULL)
        CR_TRY(cr_vocab_read_id(vocab, file, vocab->model->eos_key, &vocab->eos, err));
    CR_TRY(cr_gguf_get_bool(file, KEY("add_bos_token"), CR_OPTIONAL, &vocab->add_bos, err));
    CR_TRY(cr_gguf_get_bool(file, KEY("add_eos_token"), CR_OPTIONAL, &vocab->add_eos, err));
    vocab->add_bos = (vocab->add_bos || vocab->rule.always_bos) && vocab->bos >= 0;
    vocab->add_eos = vocab->add_eos && vocab->eos >= 0;
    return CERA_OK;
}

/* The chat templates: one without a name, and one for each key with the name behind it. */
static cera_status read_templates(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    static const char prefix[] = "tokenizer.chat_template";
    const size_t n_prefix = sizeof prefix - 1;
    cr_str text;
    CR_TRY(cr_gguf_get_str(file, prefix, CR_OPTIONAL, &text, err));
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (size_t i = 0; i < cr_gguf_n_keys(file); i++) {
            cera_value value;
            cr_str key = cr_gguf_key(file, i, &value);
            bool matches = value.type == CERA_VALUE_STRING && key.size >= n_prefix &&
                           memcmp(key.data, prefix, n_prefix) == 0 &&
                           (key.size == n_prefix || key.data[n_prefix] == '.');
            if (!matches)
                continue;
            if (pass == 1) {
                size_t begin = CR_MIN(n_prefix + 1, key.size), size = value.as.s.size;
                const char *name = cr_arena_copy(&vocab->arena, key.data + begin, key.size - begin);
                const char *copy = cr_arena_copy(&vocab->arena, value.as.s.text, size);
                if (name == NULL || copy == NULL)
                    return no_memory(err, size);
                vocab->templates[n] = (cr_named_template){ cr_str_from(name), { copy, size } };
            }
            n++;
        }
        if (pass == 0 && n > 0)
            vocab->templates = cr_arena_array(&vocab->arena, n, sizeof *vocab->templates);
        if (n > 0 && vocab->templates == NULL)
            return no_memory(err, n * sizeof *vocab->templates);
        vocab->n_templates = n;
    }
    return CERA_OK;
}

cera_status cr_vocab_read(cr_vocab *vocab, const cr_gguf *file, const char *pre, cera_error *err)
{
    CR_TRY(read_model(vocab, file, pre, err));
    CR_TRY(read_tokens(vocab, file, err));
    CR_TRY(read_ids(vocab, file, err));
    CR_TRY(cr_vocab_read_ends(vocab, file, err));
    CR_TRY(vocab->model->read(vocab, file, err));
    CR_TRY(read_templates(vocab, file, err));
    return cr_vocab_read_specials(vocab, file, err);
}
