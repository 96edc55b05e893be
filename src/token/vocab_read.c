/* Reading a vocabulary: tokenizer.ggml.* keys -> tables.
 *
 * Everything in these keys may lie. Each is checked against the others and the size of the
 * vocabulary before it is used as an index; errors name the key and the element. */
#include "token/alphabet.h"
#include "token/vocab_internal.h"

#include "base/arith.h"

#define KEY(name) "tokenizer.ggml." name

static cera_status no_memory(cera_error *err, size_t n)
{
    return cr_fail_nomem(err, n, "the vocabulary");
}

/* ---- arrays -------------------------------------------------------------------------------- */

static bool is_integer(cera_value_type type)
{
    return type <= CERA_VALUE_I32 || type == CERA_VALUE_U64 || type == CERA_VALUE_I64;
}

static bool is_string(cera_value_type type)
{
    return type == CERA_VALUE_STRING;
}

static bool is_float(cera_value_type type)
{
    return type == CERA_VALUE_F32;
}

/* The array under `key`, with elements of the kind that `is_kind` accepts. False in *found when it
 * is absent. */
static cera_status find_array(const cr_gguf *file, const char *key,
                              bool (*is_kind)(cera_value_type), const char *kind, cera_value *array,
                              bool *found, cera_error *err)
{
    *found = cr_gguf_find(file, key, array);
    if (*found && (array->type != CERA_VALUE_ARRAY || !is_kind(array->element)))
        return cr_fail(err, CERA_E_FORMAT, "%s: expected an array of %s", key, kind);
    return CERA_OK;
}

static cera_status require_array(const cr_gguf *file, const char *key, cera_value *array,
                                 cera_error *err)
{
    bool found;
    CR_TRY(find_array(file, key, is_string, "strings", array, &found, err));
    if (!found)
        return cr_fail(err, CERA_E_FORMAT, "%s: the key is missing", key);
    return CERA_OK;
}

static cr_str string_at(const cera_value *array, uint64_t i)
{
    cera_value element;
    cr_gguf_element(array, i, &element);
    return (cr_str){ element.as.s.text, element.as.s.size };
}

/* An integer element as int64; huge unsigned ones become -1, which is out of every range here. */
static int64_t integer_at(const cera_value *array, uint64_t i)
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

static cera_status read_model(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cr_str model, pre = cr_str_from("gpt-2");
    CR_TRY(cr_gguf_get_str(file, KEY("model"), CR_REQUIRED, &model, err));
    if (!cr_str_is(model, "gpt2"))
        return cr_fail(err, CERA_E_UNSUPPORTED, KEY("model") ": \"%.*s\" is not supported",
                       (int)CR_MIN(model.size, (size_t)64), model.data);

    /* Files from before the key existed have byte-level vocabularies of the original kind or, worse,
     * of another: the remark is all that can be done about the latter. */
    cera_value value;
    if (cr_gguf_find(file, KEY("pre"), &value))
        CR_TRY(cr_gguf_get_str(file, KEY("pre"), CR_REQUIRED, &pre, err));
    else
        cr_log(vocab->host, 0, "%s: " KEY("pre") " is missing; using gpt-2", cr_gguf_name(file));
    vocab->rule = cr_split_find(pre);
    if (vocab->rule == NULL)
        return cr_fail(err, CERA_E_UNSUPPORTED, KEY("pre") ": \"%.*s\" is not supported",
                       (int)CR_MIN(pre.size, (size_t)64), pre.data);
    vocab->pre = vocab->rule->name;
    return CERA_OK;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static cera_status read_types(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cera_value array;
    bool found;
    CR_TRY(find_array(file, KEY("token_type"), is_integer, "integers", &array, &found, err));
    if (found && array.count != vocab->n_tokens)
        return cr_fail(err, CERA_E_FORMAT, KEY("token_type") ": expected %zu elements, found %llu",
                       vocab->n_tokens, (unsigned long long)array.count);
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        int64_t type = found ? integer_at(&array, i) : CR_TOKEN_NORMAL;
        /* 0 is "undefined" to the writers of GGUF, and no different from a normal token. */
        if (type == 0)
            type = CR_TOKEN_NORMAL;
        if (type < CR_TOKEN_NORMAL || type > CR_TOKEN_BYTE)
            return cr_fail(err, CERA_E_FORMAT,
                           KEY("token_type") "[%zu]: expected 0 to 6, found %lld", i,
                           (long long)type);
        vocab->flags[i] = (uint8_t)type;
    }

    /* Byte-level encoding has no use for scores, but a file that lies about them lies. */
    CR_TRY(find_array(file, KEY("scores"), is_float, "f32", &array, &found, err));
    if (found && array.count != vocab->n_tokens)
        return cr_fail(err, CERA_E_FORMAT, KEY("scores") ": expected %zu elements, found %llu",
                       vocab->n_tokens, (unsigned long long)array.count);
    return CERA_OK;
}

/* Control, unknown and user-defined tokens stand for their text as it is. */
static bool is_special(int type)
{
    return type == CR_TOKEN_CONTROL || type == CR_TOKEN_UNKNOWN || type == CR_TOKEN_USER;
}

/* The tokens' bytes into one block. Bytes are never more than the text that spells them. */
static cera_status read_bytes(cr_vocab *vocab, const cera_value *tokens, cera_error *err)
{
    size_t room = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++)
        if (!cr_add_size(room, string_at(tokens, i).size, &room) || room > UINT32_MAX)
            return cr_fail(err, CERA_E_LIMIT, KEY("tokens") ": more than 4 GiB of text");
    vocab->bytes = cr_arena_alloc(&vocab->arena, room);
    if (vocab->bytes == NULL)
        return no_memory(err, room);

    size_t used = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        cr_str text = string_at(tokens, i);
        size_t n = 0;
        vocab->offsets[i] = (uint32_t)used;
        /* Normal tokens outside the alphabet exist in real files (joiners, keycaps). No merge
         * makes them; they decode to their text. */
        if (is_special(cr_vocab_type(vocab, i)) ||
            !cr_alphabet_decode(text, vocab->bytes + used, &n)) {
            n = text.size;
            if (n > 0)
                memcpy(vocab->bytes + used, text.data, n);
            vocab->flags[i] |= CR_TOKEN_RAW;
        }
        used += n;
    }
    vocab->offsets[vocab->n_tokens] = (uint32_t)used;
    return CERA_OK;
}

static cera_status index_tokens(cr_vocab *vocab, cera_error *err)
{
    while (((size_t)1 << vocab->slot_bits) / 2 < vocab->n_tokens)
        vocab->slot_bits++;
    size_t n_slots = (size_t)1 << vocab->slot_bits;
    vocab->slots = cr_arena_array(&vocab->arena, n_slots, sizeof *vocab->slots);
    if (vocab->slots == NULL)
        return no_memory(err, n_slots * sizeof *vocab->slots);
    for (size_t i = 0; i < n_slots; i++)
        vocab->slots[i].id = UINT32_MAX;
    for (size_t i = 0; i < vocab->n_tokens; i++)
        cr_vocab_index(vocab, (uint32_t)i);
    return CERA_OK;
}

static cera_status read_tokens(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cera_value tokens;
    CR_TRY(require_array(file, KEY("tokens"), &tokens, err));
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
    return index_tokens(vocab, err);
}

/* ---- merges -------------------------------------------------------------------------------- */

/* Merges are read this many at a time, in steps, so that the memory one step asks for arrives
 * before the next step needs it. Measured on 280,147 merges: 95 ms one by one, 48 ms this way. */
enum { BATCH = 32, SHORT_MERGE = 64 };

/* A token that a merge names. */
typedef struct name {
    cr_str text;  /* in the file */
    cr_str bytes; /* what it spells; data is NULL outside the alphabet */
    uint64_t hash;
    int32_t id;
} name;

/* One merge being read. */
typedef struct reading {
    uint64_t i;
    char room[2 * SHORT_MERGE];
    name left, right, joined;
} reading;

static void set_name(const cr_vocab *vocab, name *out, cr_str text, char *room)
{
    size_t n = 0;
    *out = (name){ .text = text, .id = -1 };
    if (!cr_alphabet_decode(text, room, &n))
        return;
    out->bytes = (cr_str){ room, n };
    out->hash = cr_hash(room, n);
    cr_vocab_prefetch(vocab, out->hash);
}

static cera_status find_name(const cr_vocab *vocab, name *what, uint64_t i, cera_error *err)
{
    if (what->bytes.data != NULL)
        what->id = cr_vocab_find_hash(vocab, what->bytes, false, what->hash);
    if (what->id < 0)
        what->id = cr_vocab_find(vocab, what->text, true);
    if (what->id >= 0)
        return CERA_OK;
    return cr_fail(err, CERA_E_FORMAT, KEY("merges") "[%llu]: \"%.*s\" is not a token",
                   (unsigned long long)i, (int)CR_MIN(what->text.size, (size_t)64),
                   what->text.data);
}

/* First step: "left right" to three names. `room` takes the text twice. */
static cera_status start_merge(const cr_vocab *vocab, reading *r, cr_str text, char *room,
                               cera_error *err)
{
    const char *space = text.size > 0 ? memchr(text.data, ' ', text.size) : NULL;
    size_t n_left = space != NULL ? (size_t)(space - text.data) : 0;
    size_t n_right = text.size - n_left - 1;
    if (space == NULL || memchr(space + 1, ' ', n_right) != NULL)
        return cr_fail(err, CERA_E_FORMAT,
                       KEY("merges") "[%llu]: expected two tokens and one space, found \"%.*s\"",
                       (unsigned long long)r->i, (int)CR_MIN(text.size, (size_t)64), text.data);

    /* Left and right are decoded side by side, which makes the joined token's bytes. */
    set_name(vocab, &r->left, (cr_str){ text.data, n_left }, room);
    set_name(vocab, &r->right, (cr_str){ space + 1, n_right }, room + r->left.bytes.size);
    char *joined = room + text.size;
    memcpy(joined, text.data, n_left);
    memcpy(joined + n_left, space + 1, n_right);
    r->joined = (name){ .text = { joined, n_left + n_right }, .id = -1 };
    if (r->left.bytes.data != NULL && r->right.bytes.data != NULL) {
        r->joined.bytes = (cr_str){ room, r->left.bytes.size + r->right.bytes.size };
        r->joined.hash = cr_hash(room, r->joined.bytes.size);
        cr_vocab_prefetch(vocab, r->joined.hash);
    }
    return CERA_OK;
}

/* Second and third step. */
static cera_status finish_merges(cr_vocab *vocab, reading *readings, size_t n, cera_error *err)
{
    cr_merge batch[BATCH];
    size_t n_batch = 0;
    for (size_t k = 0; k < n; k++) {
        reading *r = &readings[k];
        CR_TRY(find_name(vocab, &r->left, r->i, err));
        CR_TRY(find_name(vocab, &r->right, r->i, err));
        CR_TRY(find_name(vocab, &r->joined, r->i, err));
        /* Plain text must not be able to spell a control token, not even by merges. */
        int type = cr_vocab_type(vocab, (size_t)r->joined.id);
        if (type != CR_TOKEN_CONTROL && type != CR_TOKEN_UNKNOWN)
            batch[n_batch++] = (cr_merge){
                .left = (uint32_t)r->left.id,
                .right = (uint32_t)r->right.id,
                .rank = (uint32_t)r->i,
                .result = (uint32_t)r->joined.id,
            };
    }
    cr_merges_add(&vocab->merges, batch, n_batch);
    return CERA_OK;
}

/* The merges [begin, end), which are at most BATCH. */
static cera_status read_batch(cr_vocab *vocab, const cera_value *merges, uint64_t begin,
                              uint64_t end, cera_error *err)
{
    reading readings[BATCH];
    cr_arena_mark mark = cr_arena_get_mark(&vocab->arena);
    cera_status status = CERA_OK;
    for (uint64_t i = begin; status == CERA_OK && i < end; i++) {
        reading *r = &readings[i - begin];
        cr_str text = string_at(merges, i);
        char *room = r->room;
        if (text.size > SHORT_MERGE) {
            room = cr_arena_array(&vocab->arena, text.size, 2);
            if (room == NULL)
                status = no_memory(err, text.size * 2);
        }
        r->i = i;
        if (status == CERA_OK)
            status = start_merge(vocab, r, text, room, err);
    }
    if (status == CERA_OK)
        status = finish_merges(vocab, readings, (size_t)(end - begin), err);
    cr_arena_to_mark(&vocab->arena, mark);
    return status;
}

static cera_status read_merges(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cera_value merges;
    CR_TRY(require_array(file, KEY("merges"), &merges, err));
    if (merges.count > INT32_MAX)
        return cr_fail(err, CERA_E_LIMIT, KEY("merges") ": expected at most %d, found %llu",
                       INT32_MAX, (unsigned long long)merges.count);
    if (!cr_merges_init(&vocab->merges, &vocab->arena, (size_t)merges.count))
        return no_memory(err, (size_t)merges.count * sizeof(cr_merge_slot));
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        vocab->merges.byte_ids[byte] = cr_vocab_find(vocab, (cr_str){ &text, 1 }, false);
    }
    for (uint64_t i = 0; i < merges.count; i += BATCH)
        CR_TRY(read_batch(vocab, &merges, i, CR_MIN(i + BATCH, merges.count), err));
    return CERA_OK;
}

/* ---- special tokens ------------------------------------------------------------------------ */

static cera_status collect_specials(cr_vocab *vocab, bool with_control, cr_specials *out,
                                    cera_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++)
        n += is_special(cr_vocab_type(vocab, i));
    cr_special *items = cr_arena_array(&vocab->arena, n, sizeof *items);
    if (items == NULL)
        return no_memory(err, n * sizeof *items);
    n = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        int type = cr_vocab_type(vocab, i);
        cr_str text = cr_vocab_bytes(vocab, i);
        if (!is_special(type) || text.size == 0 || (!with_control && type != CR_TOKEN_USER))
            continue;
        if (text.size > CR_SPECIAL_MAX)
            return cr_fail(err, CERA_E_LIMIT,
                           KEY("tokens") "[%zu]: expected at most %d bytes of special token, "
                                         "found %zu",
                           i, CR_SPECIAL_MAX, text.size);
        items[n++] = (cr_special){ .text = text, .id = (int32_t)i };
    }
    if (!cr_specials_init(out, items, n, &vocab->arena))
        return no_memory(err, n * sizeof *items);
    return CERA_OK;
}

/* A key that holds one token id; *id stays when it is absent. */
static cera_status read_id(const cr_vocab *vocab, const cr_gguf *file, const char *key, int32_t *id,
                           cera_error *err)
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

/* Control tokens that end a turn or a text in the models of today. Files name only one of them as
 * EOS, and models emit others. */
static const char *const end_texts[] = {
    "<|eot_id|>",      "<|eom_id|>",
    "<|im_end|>",      "<|end|>",
    "<|endoftext|>",   "<|end_of_text|>",
    "<|end_of_turn|>", "<end_of_turn>",
    "<|return|>",      "</s>",
    "<eos>",           "<EOT>",
    "[EOS]",           "<end_of_utterance>",
};

static cera_status read_ends(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    static const char *const keys[] = { KEY("eos_token_id"), KEY("eot_token_id"),
                                        KEY("eom_token_id") };
    for (size_t i = 0; i < CR_COUNT(keys); i++) {
        int32_t id = -1;
        CR_TRY(read_id(vocab, file, keys[i], &id, err));
        if (id >= 0)
            vocab->flags[id] |= CR_TOKEN_END;
    }

    cera_value array;
    bool found;
    CR_TRY(find_array(file, KEY("eog_token_ids"), is_integer, "integers", &array, &found, err));
    for (uint64_t i = 0; found && i < array.count; i++) {
        int64_t id = integer_at(&array, i);
        if (id < 0 || id >= (int64_t)vocab->n_tokens)
            return cr_fail(err, CERA_E_FORMAT,
                           KEY("eog_token_ids") "[%llu]: expected an id below the vocabulary's "
                                                "%zu, found %lld",
                           (unsigned long long)i, vocab->n_tokens, (long long)id);
        vocab->flags[id] |= CR_TOKEN_END;
    }

    for (size_t i = 0; i < CR_COUNT(end_texts); i++) {
        int32_t id = cr_vocab_find(vocab, cr_str_from(end_texts[i]), true);
        if (id >= 0 && cr_vocab_type(vocab, (size_t)id) == CR_TOKEN_CONTROL)
            vocab->flags[id] |= CR_TOKEN_END;
    }
    return CERA_OK;
}

static cera_status read_ids(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    int32_t unused = -1;
    vocab->bos = vocab->eos = -1;
    vocab->add_bos = vocab->rule->add_bos;
    CR_TRY(read_id(vocab, file, KEY("bos_token_id"), &vocab->bos, err));
    CR_TRY(read_id(vocab, file, KEY("eos_token_id"), &vocab->eos, err));
    CR_TRY(read_id(vocab, file, KEY("unknown_token_id"), &unused, err));
    CR_TRY(read_id(vocab, file, KEY("padding_token_id"), &unused, err));
    CR_TRY(read_id(vocab, file, KEY("seperator_token_id"), &unused, err)); /* spelled so in GGUF */
    CR_TRY(cr_gguf_get_bool(file, KEY("add_bos_token"), CR_OPTIONAL, &vocab->add_bos, err));
    CR_TRY(cr_gguf_get_bool(file, KEY("add_eos_token"), CR_OPTIONAL, &vocab->add_eos, err));
    vocab->add_bos = vocab->add_bos && vocab->bos >= 0;
    vocab->add_eos = vocab->add_eos && vocab->eos >= 0;
    return CERA_OK;
}

cera_status cr_vocab_read(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    CR_TRY(read_model(vocab, file, err));
    CR_TRY(read_tokens(vocab, file, err));
    CR_TRY(read_ids(vocab, file, err));
    CR_TRY(read_ends(vocab, file, err));
    CR_TRY(read_merges(vocab, file, err));
    CR_TRY(collect_specials(vocab, false, &vocab->user, err));
    CR_TRY(collect_specials(vocab, true, &vocab->all, err));
    return cr_split_new(vocab->rule, vocab->host, &vocab->split, err);
}
