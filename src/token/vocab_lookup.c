/* The vocabulary object: life, and looking tokens up. */
#include "token/vocab_internal.h"

cera_status cr_vocab_new(const cr_gguf *file, const char *pre, cr_host *host, cr_vocab **out,
                         cera_error *err)
{
    cr_vocab *vocab = cr_alloc_zero(host, CR_MEM_VOCAB, sizeof *vocab);
    if (vocab == NULL)
        return cr_fail_nomem(err, sizeof *vocab, "the vocabulary");
    vocab->host = host;
    cr_arena_init(&vocab->arena, host, CR_MEM_VOCAB);
    cera_status status = cr_vocab_read(vocab, file, pre, err);
    if (status != CERA_OK) {
        cr_vocab_free(vocab);
        return status;
    }
    *out = vocab;
    return CERA_OK;
}

void cr_vocab_free(cr_vocab *vocab)
{
    if (vocab == NULL)
        return;
    cr_split_free(vocab->split);
    cr_arena_done(&vocab->arena);
    cr_free(vocab->host, CR_MEM_VOCAB, vocab, sizeof *vocab);
}

void cr_vocab_get_info(const cr_vocab *vocab, cera_vocab_info *out)
{
    *out = (cera_vocab_info){
        .n_tokens = vocab->n_tokens,
        .bos = vocab->bos,
        .eos = vocab->eos,
        .add_bos = vocab->add_bos,
        .add_eos = vocab->add_eos,
        .model = vocab->model->name,
        .pre = vocab->pre,
    };
}

cr_str cr_vocab_template(const cr_vocab *vocab, const char *name)
{
    for (size_t i = 0; i < vocab->n_templates; i++)
        if (cr_str_is(vocab->templates[i].name, name))
            return vocab->templates[i].text;
    return (cr_str){ NULL, 0 };
}

/* Raw tokens have a key space of their own: a control token is never found by the bytes of plain
 * text that happens to spell it. */
static uint32_t tag_of(uint64_t hash, bool raw)
{
    return ((uint32_t)(hash >> 32) & ~1u) | raw;
}

/* The slot that holds an equal token, or the free slot where it would be. */
static cr_token_slot *find_slot(const cr_vocab *vocab, cr_str bytes, bool raw, uint64_t hash)
{
    size_t mask = ((size_t)1 << vocab->slot_bits) - 1;
    uint32_t tag = tag_of(hash, raw);
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        cr_token_slot *slot = &vocab->slots[i];
        if (slot->id == UINT32_MAX)
            return slot;
        if (slot->tag != tag)
            continue;
        cr_str other = cr_vocab_bytes(vocab, slot->id);
        if (other.size == bytes.size && memcmp(other.data, bytes.data, bytes.size) == 0)
            return slot;
    }
}

int32_t cr_vocab_find_hash(const cr_vocab *vocab, cr_str bytes, bool raw, uint64_t hash)
{
    const cr_token_slot *slot = find_slot(vocab, bytes, raw, hash);
    return slot->id != UINT32_MAX ? (int32_t)slot->id : -1;
}

int32_t cr_vocab_find(const cr_vocab *vocab, cr_str bytes, bool raw)
{
    return cr_vocab_find_hash(vocab, bytes, raw, cr_hash(bytes.data, bytes.size));
}

uint32_t cr_vocab_index(cr_vocab *vocab, uint32_t id)
{
    cr_str bytes = cr_vocab_bytes(vocab, id);
    bool raw = (vocab->flags[id] & CR_TOKEN_RAW) != 0;
    uint64_t hash = cr_hash(bytes.data, bytes.size);
    cr_token_slot *slot = find_slot(vocab, bytes, raw, hash);
    if (slot->id == UINT32_MAX)
        *slot = (cr_token_slot){ .tag = tag_of(hash, raw), .id = id };
    return slot->id;
}

static bool is_id(const cr_vocab *vocab, int32_t id)
{
    return id >= 0 && (size_t)id < vocab->n_tokens;
}

cr_str cr_vocab_piece(const cr_vocab *vocab, int32_t id)
{
    if (!is_id(vocab, id))
        return (cr_str){ NULL, 0 };
    return cr_vocab_bytes(vocab, (size_t)id);
}

/* Whether encoding puts its blank before text behind this token: it does at the start and behind
 * every special token, but the unknown one may just as well stand for text. */
static bool starts_text(const cr_vocab *vocab, int32_t previous)
{
    if (!is_id(vocab, previous))
        return true;
    int type = cr_vocab_type(vocab, (size_t)previous);
    return type == CR_TOKEN_CONTROL || type == CR_TOKEN_USER ||
           (type == CR_TOKEN_UNKNOWN && previous != vocab->unknown);
}

cr_str cr_vocab_piece_after(const cr_vocab *vocab, int32_t previous, int32_t id)
{
    cr_str piece = cr_vocab_piece(vocab, id);
    bool is_text = piece.size > 0 && (vocab->flags[id] & CR_TOKEN_RAW) == 0;
    if (is_text && vocab->blank_prefix && piece.data[0] == ' ' && starts_text(vocab, previous))
        return (cr_str){ piece.data + 1, piece.size - 1 };
    return piece;
}

bool cr_vocab_is_end(const cr_vocab *vocab, int32_t id)
{
    return is_id(vocab, id) && (vocab->flags[id] & CR_TOKEN_END) != 0;
}

bool cr_vocab_is_control(const cr_vocab *vocab, int32_t id)
{
    return is_id(vocab, id) && cr_vocab_type(vocab, (size_t)id) == CR_TOKEN_CONTROL;
}

int32_t cr_vocab_find_control(const cr_vocab *vocab, cr_str text)
{
    const int32_t id = cr_vocab_find(vocab, text, true);
    return cr_vocab_is_control(vocab, id) ? id : -1;
}

bool cr_vocab_is_text(const cr_vocab *vocab, int32_t id)
{
    if (!is_id(vocab, id) || cr_vocab_bytes(vocab, (size_t)id).size == 0)
        return false;
    int type = cr_vocab_type(vocab, (size_t)id);
    return type == CR_TOKEN_NORMAL || type == CR_TOKEN_USER || type == CR_TOKEN_BYTE;
}
