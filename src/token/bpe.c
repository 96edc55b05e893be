/* Byte pair encoding: vocabularies of kind gpt2, and of kind gemma4.
 *
 *     " Hi you" --pre-tokenizer--> " Hi" | " you" --merges--> ids
 *
 * A merge joins two neighbouring tokens into one and is ranked by its place in the file. Most
 * vocabularies of this kind are made of bytes, so that any text has ids; some (gemma4) are made of
 * characters, with a token per byte for characters that they lack. */
#include "token/merge.h"
#include "token/vocab_internal.h"

/* ---- the table of merges ------------------------------------------------------------------- */

static size_t slot_of(const cr_vocab *vocab, uint32_t left, uint32_t right)
{
    uint64_t h = (uint64_t)left << 32 | right;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
    return (size_t)(h >> (64 - vocab->merge_bits));
}

/* The slot of a pair, or the free slot where it would be. */
static cr_merge_slot *find_slot(const cr_vocab *vocab, uint32_t left, uint32_t right)
{
    size_t mask = ((size_t)1 << vocab->merge_bits) - 1;
    for (size_t i = slot_of(vocab, left, right);; i = (i + 1) & mask) {
        cr_merge_slot *slot = &vocab->merges[i];
        if (slot->rank == CR_NEVER_JOIN || (slot->left == left && slot->right == right))
            return slot;
    }
}

static cera_status make_table(cr_vocab *vocab, size_t n, cera_error *err)
{
    vocab->merge_bits = 4;
    while (((size_t)1 << vocab->merge_bits) / 8 * 5 < n)
        vocab->merge_bits++;
    size_t n_slots = (size_t)1 << vocab->merge_bits;
    vocab->merges = cr_arena_array(&vocab->arena, n_slots, sizeof *vocab->merges);
    if (vocab->merges == NULL)
        return cr_fail_nomem(err, n_slots * sizeof *vocab->merges, "the vocabulary");
    for (size_t i = 0; i < n_slots; i++)
        vocab->merges[i].rank = CR_NEVER_JOIN;
    return CERA_OK;
}

/* Adds merges in the order of their ranks; the first of equal pairs stays. A few dozen at a time
 * hide the latency of memory: the table of a large vocabulary is larger than the caches. */
static void add_merges(cr_vocab *vocab, const cr_merge_slot *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CR_PREFETCH(&vocab->merges[slot_of(vocab, batch[i].left, batch[i].right)]);
    for (size_t i = 0; i < n; i++) {
        cr_merge_slot *slot = find_slot(vocab, batch[i].left, batch[i].right);
        if (slot->rank == CR_NEVER_JOIN)
            *slot = batch[i];
    }
}

/* ---- reading ------------------------------------------------------------------------------- */

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
    if (!cr_alphabet_decode(vocab->alphabet, text, room, &n))
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
    return cr_fail(err, CERA_E_FORMAT, CR_VOCAB_KEY("merges") "[%llu]: \"%.*s\" is not a token",
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
        return cr_fail(
            err, CERA_E_FORMAT,
            CR_VOCAB_KEY("merges") "[%llu]: expected two tokens and one space, found \"%.*s\"",
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

/* Second and third step: the names to ids, the ids into the table. */
static cera_status finish_merges(cr_vocab *vocab, reading *readings, size_t n, cera_error *err)
{
    cr_merge_slot batch[BATCH];
    size_t n_batch = 0;
    for (size_t k = 0; k < n; k++) {
        reading *r = &readings[k];
        CR_TRY(find_name(vocab, &r->left, r->i, err));
        CR_TRY(find_name(vocab, &r->right, r->i, err));
        CR_TRY(find_name(vocab, &r->joined, r->i, err));
        /* Plain text must not be able to spell a control token, not even by merges. */
        int type = cr_vocab_type(vocab, (size_t)r->joined.id);
        if (type != CR_TOKEN_CONTROL && type != CR_TOKEN_UNKNOWN)
            batch[n_batch++] = (cr_merge_slot){
                .left = (uint32_t)r->left.id,
                .right = (uint32_t)r->right.id,
                .rank = (uint32_t)r->i,
                .id = (uint32_t)r->joined.id,
            };
    }
    add_merges(vocab, batch, n_batch);
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
        cr_str text = cr_vocab_text_at(merges, i);
        char *room = r->room;
        if (text.size > SHORT_MERGE) {
            room = cr_arena_array(&vocab->arena, text.size, 2);
            if (room == NULL)
                status = cr_fail_nomem(err, text.size * 2, "the vocabulary");
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
    bool found;
    CR_TRY(cr_vocab_array(file, CR_VOCAB_KEY("merges"), CR_ARRAY_TEXT, &merges, &found, err));
    if (!found)
        return cr_fail(err, CERA_E_FORMAT, CR_VOCAB_KEY("merges") ": the key is missing");
    if (merges.count > INT32_MAX)
        return cr_fail(err, CERA_E_LIMIT,
                       CR_VOCAB_KEY("merges") ": expected at most %d, found %llu", INT32_MAX,
                       (unsigned long long)merges.count);
    CR_TRY(make_table(vocab, (size_t)merges.count, err));
    for (uint64_t i = 0; i < merges.count; i += BATCH)
        CR_TRY(read_batch(vocab, &merges, i, CR_MIN(i + BATCH, merges.count), err));
    return CERA_OK;
}

static cera_status set_rule(cr_vocab *vocab, cr_str pre, cera_error *err)
{
    if (!cr_split_find(pre, &vocab->rule))
        return cr_fail(err, CERA_E_UNSUPPORTED, CR_VOCAB_KEY("pre") ": \"%.*s\" is not supported",
                       (int)CR_MIN(pre.size, (size_t)64), pre.data);
    vocab->pre = vocab->rule.name;
    vocab->alphabet = vocab->rule.alphabet;
    vocab->add_bos = vocab->rule.add_bos;
    return CERA_OK;
}

static cera_status setup_gpt2(cr_vocab *vocab, const cr_gguf *file, const char *override,
                              cera_error *err)
{
    /* Files from before the key existed have byte-level vocabularies of the original kind or,
     * worse, of another: the remark is all that can be done about the latter. */
    cr_str pre = cr_str_from("gpt-2");
    cera_value value;
    if (override != NULL)
        pre = cr_str_from(override);
    else if (cr_gguf_find(file, CR_VOCAB_KEY("pre"), &value))
        CR_TRY(cr_gguf_get_str(file, CR_VOCAB_KEY("pre"), CR_REQUIRED, &pre, err));
    else
        cr_log(vocab->host, 0, "%s: " CR_VOCAB_KEY("pre") " is missing; using gpt-2",
               cr_gguf_name(file));
    return set_rule(vocab, pre, err);
}

static cera_status setup_gemma4(cr_vocab *vocab, const cr_gguf *file, const char *override,
                                cera_error *err)
{
    (void)file;
    return set_rule(vocab, cr_str_from(override != NULL ? override : "gemma4"), err);
}

static cera_status read_bpe(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    if (vocab->alphabet == CR_ALPHABET_BYTES) {
        for (int byte = 0; byte < 256; byte++) {
            char text = (char)byte;
            vocab->byte_ids[byte] = cr_vocab_find(vocab, (cr_str){ &text, 1 }, false);
        }
    }
    CR_TRY(read_merges(vocab, file, err));
    return cr_split_new(&vocab->rule, vocab->host, &vocab->split, err);
}

/* ---- encoding ------------------------------------------------------------------------------ */

static cr_join join(const void *ctx, cr_str piece, const cr_pair *pair)
{
    (void)piece;
    const cr_merge_slot *slot = find_slot(ctx, pair->left, pair->right);
    return (cr_join){ slot->rank, slot->id };
}

static size_t unit_byte(const void *ctx, cr_str rest, uint32_t *id)
{
    const cr_vocab *vocab = ctx;
    int32_t found = vocab->byte_ids[(unsigned char)rest.data[0]];
    *id = found >= 0 ? (uint32_t)found : CR_NO_TOKEN;
    return 1;
}

static size_t unit_character(const void *ctx, cr_str rest, uint32_t *id)
{
    uint32_t code;
    size_t n = CR_MAX(cr_utf8_decode(rest.data, rest.size, &code), (size_t)1);
    int32_t found = cr_vocab_find(ctx, (cr_str){ rest.data, n }, false);
    *id = found >= 0 ? (uint32_t)found : CR_NO_TOKEN;
    return n;
}

static cera_status encode_piece(cr_encoding *enc, cr_str piece, cera_error *err)
{
    const cr_vocab *vocab = enc->vocab;
    bool is_bytes = vocab->alphabet == CR_ALPHABET_BYTES;
    /* Lines are split off where the vocabulary is made of characters, and a run of them is a token
     * of its own there, which no merge makes. */
    bool whole = vocab->rule.ignore_merges || (!is_bytes && piece.data[0] == '\n');
    if (whole) {
        int32_t id = cr_vocab_find(vocab, piece, false);
        if (id >= 0)
            return cr_encoding_push(enc, id, err);
    }
    const cr_merge_rules rules = {
        .ctx = vocab,
        .unit = is_bytes ? unit_byte : unit_character,
        .join = join,
        .out = enc,
        .push = cr_encoding_push_merged,
    };
    return cr_merge(&rules, piece, &enc->work, err);
}

/* The patterns know characters only, so the text is cut at bytes that are not UTF-8. A run of such
 * bytes is a piece of its own, so that its bytes come back when the ids are decoded. */
static cera_status encode_bpe(cr_encoding *enc, cr_str text, cera_error *err)
{
    while (text.size > 0) {
        size_t n = cr_utf8_run(text);
        cr_split_set_text(&enc->walk, (cr_str){ text.data, n });
        for (;;) {
            cr_str piece;
            CR_TRY(cr_split_next(&enc->walk, &piece, err));
            if (piece.size == 0)
                break;
            CR_TRY(encode_piece(enc, piece, err));
        }
        text = (cr_str){ text.data + n, text.size - n };

        n = cr_not_utf8_run(text);
        if (n > 0)
            CR_TRY(encode_piece(enc, (cr_str){ text.data, n }, err));
        text = (cr_str){ text.data + n, text.size - n };
    }
    return CERA_OK;
}

const cr_token_model cr_model_gpt2 = {
    .name = "gpt2",
    .has_pre = true,
    .setup = setup_gpt2,
    .read = read_bpe,
    .encode = encode_bpe,
};

const cr_token_model cr_model_gemma4 = {
    .name = "gemma4",
    .has_pre = true,
    .setup = setup_gemma4,
    .read = read_bpe,
    .encode = encode_bpe,
};
