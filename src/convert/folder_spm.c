/* The few fields of a sentencepiece model that a vocabulary needs. The file is a protocol buffer:
 * fields one after the other, each a key, number << 3 | wire type, and a value.
 *
 *     wire type   value                                 here
 *     0           varint: 7 bits a byte, lowest first   numbers, enums, bools
 *     1, 5        8 and 4 bytes                         float: 5
 *     2           varint n, then n bytes                text, messages
 *
 *     ModelProto          1: SentencePiece (repeated)   3: NormalizerSpec
 *     SentencePiece       1: piece, text   2: score, float   3: type, enum (1 where it is absent)
 *     NormalizerSpec      3: add_dummy_prefix, bool (true where it is absent) */
#include "convert/folder.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

typedef struct field {
    uint64_t number;
    int wire;
    uint64_t value; /* of VARINT, FIXED32 and FIXED64 */
    const uint8_t *bytes;
    size_t size; /* of BYTES */
} field;

typedef struct reader {
    const uint8_t *at, *end;
    bool broken;
} reader;

static uint64_t read_varint(reader *r)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    r->broken = true;
    return 0;
}

static uint64_t read_fixed(reader *r, size_t n)
{
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < n) {
        r->broken = true;
        return 0;
    }
    for (size_t i = n; i-- > 0;)
        value = value << 8 | r->at[i];
    r->at += n;
    return value;
}

/* False at the end, and when the bytes are not fields: see `broken`. */
static bool next_field(reader *r, field *out)
{
    if (r->at == r->end || r->broken)
        return false;
    uint64_t key = read_varint(r);
    *out = (field){ .number = key >> 3, .wire = (int)(key & 7) };
    if (out->wire == VARINT) {
        out->value = read_varint(r);
    } else if (out->wire == FIXED64 || out->wire == FIXED32) {
        out->value = read_fixed(r, out->wire == FIXED64 ? 8 : 4);
    } else if (out->wire == BYTES) {
        uint64_t n = read_varint(r);
        if (n > (uint64_t)(r->end - r->at))
            r->broken = true;
        else {
            out->bytes = r->at;
            out->size = (size_t)n;
            r->at += n;
        }
    } else {
        r->broken = true;
    }
    return !r->broken;
}

static bool read_piece(const field *message, cr_piece *out)
{
    reader r = { message->bytes, message->bytes + message->size, false };
    *out = (cr_piece){ .text = { "", 0 }, .type = 1 };
    for (field f; next_field(&r, &f);) {
        uint32_t bits = (uint32_t)f.value;
        if (f.number == 1 && f.wire == BYTES)
            out->text = (cr_str){ (const char *)f.bytes, f.size };
        else if (f.number == 2 && f.wire == FIXED32)
            memcpy(&out->score, &bits, sizeof bits);
        else if (f.number == 3 && f.wire == VARINT)
            out->type = f.value >= 1 && f.value <= 6 ? (int)f.value : 1;
    }
    return !r.broken;
}

static bool read_normalizer(const field *message, bool *add_dummy_prefix)
{
    reader r = { message->bytes, message->bytes + message->size, false };
    for (field f; next_field(&r, &f);)
        if (f.number == 3 && f.wire == VARINT)
            *add_dummy_prefix = f.value != 0;
    return !r.broken;
}

cera_status cr_spm_parse(const uint8_t *bytes, size_t n, const char *path, cr_arena *arena,
                         cr_spm *out, cera_error *err)
{
    reader r = { bytes, bytes + n, false };
    size_t n_pieces = 0;
    for (field f; next_field(&r, &f);)
        n_pieces += f.number == 1 && f.wire == BYTES;
    if (r.broken || n_pieces == 0)
        return cr_fail(err, CERA_E_FORMAT, "%s: expected a sentencepiece model", path);
    *out = (cr_spm){ .add_dummy_prefix = true };
    out->pieces = cr_arena_array(arena, n_pieces, sizeof *out->pieces);
    if (out->pieces == NULL)
        return cr_fail_nomem(err, n_pieces * sizeof *out->pieces, path);
    bool ok = true;
    r = (reader){ bytes, bytes + n, false };
    for (field f; ok && next_field(&r, &f);) {
        if (f.number == 1 && f.wire == BYTES)
            ok = read_piece(&f, &out->pieces[out->n++]);
        else if (f.number == 3 && f.wire == BYTES)
            ok = read_normalizer(&f, &out->add_dummy_prefix);
    }
    if (!ok)
        return cr_fail(err, CERA_E_FORMAT, "%s: piece %zu is malformed", path, out->n);
    return CERA_OK;
}
