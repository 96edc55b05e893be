/* Builds GGUF files in memory, right ones and wrong ones, and remembers where each field is.
 *
 *     gguf_build b;
 *     build_init(&b);
 *     build_header(&b, 3, 1, 1);                     // version, tensors, keys
 *     build_key_u32(&b, "llama.block_count", 2);
 *     build_tensor(&b, "a", 0, 0, 1, (uint64_t[]){ 4 });  // type 0 (F32), offset 0, [4]
 *     build_data(&b, 32, 16);                        // padding to 32, then 16 bytes
 *     ... b.data, b.size ...
 *     build_done(&b);
 */
#ifndef GGUF_BUILD_H
#define GGUF_BUILD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands at a mark. */
typedef enum build_kind {
    BUILD_MAGIC,
    BUILD_VERSION,
    BUILD_N_TENSORS,
    BUILD_N_KEYS,
    BUILD_NAME_SIZE,
    BUILD_NAME,
    BUILD_VALUE_TYPE,
    BUILD_VALUE,
    BUILD_STRING_SIZE,
    BUILD_ELEMENT_TYPE,
    BUILD_ARRAY_COUNT,
    BUILD_ELEMENT_SIZE,
    BUILD_N_DIMS,
    BUILD_DIM,
    BUILD_TYPE,
    BUILD_OFFSET,
    BUILD_DATA,
} build_kind;

static const char *const build_kind_names[] = {
    "magic",      "version", "n_tensors",   "n_keys",       "name size",   "name",
    "value type", "value",   "string size", "element type", "array count", "element size",
    "n_dims",     "dim",     "type",        "offset",       "data",
};

typedef struct build_mark {
    build_kind kind;
    size_t at;
    char subject[40]; /* the key or tensor that it belongs to */
} build_mark;

typedef struct gguf_build {
    uint8_t *data;
    size_t size, room;
    build_mark marks[256]; /* the first 256 fields */
    size_t n_marks;
    char subject[40];
} gguf_build;

static inline void build_init(gguf_build *b)
{
    memset(b, 0, sizeof *b);
}

static inline void build_done(gguf_build *b)
{
    free(b->data);
    b->data = NULL;
}

/* The next n bytes, which the caller writes. */
static inline uint8_t *build_room(gguf_build *b, size_t n)
{
    if (n > b->room - b->size) {
        b->room = (b->size + n) * 2;
        b->data = realloc(b->data, b->room);
        if (b->data == NULL)
            abort();
    }
    b->size += n;
    return b->data + b->size - n;
}

static inline void build_bytes(gguf_build *b, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(build_room(b, n), bytes, n);
}

static inline void build_number(gguf_build *b, uint64_t value, int n_bytes)
{
    uint8_t bytes[8];
    for (int i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    build_bytes(b, bytes, (size_t)n_bytes);
}

/* Overwrites a number of n bytes. */
static inline void build_patch(gguf_build *b, size_t at, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        b->data[at + (size_t)i] = (uint8_t)(value >> 8 * i);
}

static inline void build_at(gguf_build *b, build_kind kind)
{
    if (b->n_marks == sizeof b->marks / sizeof b->marks[0])
        return;
    build_mark *mark = &b->marks[b->n_marks++];
    mark->kind = kind;
    mark->at = b->size;
    memcpy(mark->subject, b->subject, sizeof mark->subject);
}

/* Where the first field of this kind of this key or tensor is. */
static inline size_t build_find(const gguf_build *b, const char *subject, build_kind kind)
{
    for (size_t i = 0; i < b->n_marks; i++)
        if (b->marks[i].kind == kind && strcmp(b->marks[i].subject, subject) == 0)
            return b->marks[i].at;
    abort();
}

static inline void build_header(gguf_build *b, uint32_t version, uint64_t n_tensors,
                                uint64_t n_keys)
{
    build_at(b, BUILD_MAGIC);
    build_bytes(b, "GGUF", 4);
    build_at(b, BUILD_VERSION);
    build_number(b, version, 4);
    build_at(b, BUILD_N_TENSORS);
    build_number(b, n_tensors, 8);
    build_at(b, BUILD_N_KEYS);
    build_number(b, n_keys, 8);
}

static inline void build_string(gguf_build *b, const char *text, size_t n)
{
    build_number(b, n, 8);
    build_bytes(b, text, n);
}

static inline void build_name(gguf_build *b, const char *name, size_t n)
{
    snprintf(b->subject, sizeof b->subject, "%.*s", (int)(n < 39 ? n : 39), name);
    build_at(b, BUILD_NAME_SIZE);
    build_number(b, n, 8);
    build_at(b, BUILD_NAME);
    build_bytes(b, name, n);
}

/* Name and type of a key; the value follows. */
static inline void build_key(gguf_build *b, const char *name, uint32_t type)
{
    build_name(b, name, strlen(name));
    build_at(b, BUILD_VALUE_TYPE);
    build_number(b, type, 4);
}

static inline void build_key_number(gguf_build *b, const char *name, uint32_t type, uint64_t bits,
                                    int n_bytes)
{
    build_key(b, name, type);
    build_at(b, BUILD_VALUE);
    build_number(b, bits, n_bytes);
}

static inline void build_key_u32(gguf_build *b, const char *name, uint32_t value)
{
    build_key_number(b, name, 4, value, 4);
}

static inline void build_key_text(gguf_build *b, const char *name, const char *text)
{
    build_key(b, name, 8);
    build_at(b, BUILD_STRING_SIZE);
    build_number(b, strlen(text), 8);
    if (text[0] != '\0')
        build_at(b, BUILD_VALUE);
    build_bytes(b, text, strlen(text));
}

/* Up to the first element. */
static inline void build_key_array(gguf_build *b, const char *name, uint32_t element,
                                   uint64_t count)
{
    build_key(b, name, 9);
    build_at(b, BUILD_ELEMENT_TYPE);
    build_number(b, element, 4);
    build_at(b, BUILD_ARRAY_COUNT);
    build_number(b, count, 8);
}

static inline void build_element_text(gguf_build *b, const char *text)
{
    build_at(b, BUILD_ELEMENT_SIZE);
    build_string(b, text, strlen(text));
}

static inline void build_tensor(gguf_build *b, const char *name, uint32_t type, uint64_t offset,
                                uint32_t n_dims, const uint64_t *shape)
{
    build_name(b, name, strlen(name));
    build_at(b, BUILD_N_DIMS);
    build_number(b, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++) {
        build_at(b, BUILD_DIM);
        build_number(b, shape[d], 8);
    }
    build_at(b, BUILD_TYPE);
    build_number(b, type, 4);
    build_at(b, BUILD_OFFSET);
    build_number(b, offset, 8);
}

/* Pads to a multiple of alignment, then n bytes 0, 1, 2, ... */
static inline void build_data(gguf_build *b, size_t alignment, size_t n)
{
    while (b->size % alignment != 0)
        build_number(b, 0, 1);
    b->subject[0] = '\0';
    build_at(b, BUILD_DATA);
    for (size_t i = 0; i < n; i++)
        build_number(b, i & 255, 1);
}

/* A file with a value of every type at odd addresses and three tensors: F32 [4,2], Q8_0 [32,2] and
 * one of a type that does not exist. */
static inline void build_sample(gguf_build *b, uint32_t version)
{
    build_header(b, version, 3, 22);
    build_key_text(b, "general.architecture", "llama");
    build_key_u32(b, "general.alignment", 32);
    build_key_number(b, "k.u8", 0, 200, 1);
    build_key_number(b, "k.i8", 1, 0xff, 1);
    build_key_number(b, "k.u16", 2, 65535, 2);
    build_key_number(b, "k.i16", 3, 0x8000, 2);
    build_key_number(b, "k.u32", 4, 4294967295u, 4);
    build_key_number(b, "k.i32", 5, 0x80000000u, 4);
    build_key_number(b, "k.f32", 6, 0x3fc00000u, 4); /* 1.5 */
    build_key_number(b, "k.true", 7, 1, 1);
    build_key_number(b, "k.false", 7, 0, 1);
    build_key_text(b, "k.text", "caf\xc3\xa9");
    build_key_text(b, "k.empty", "");
    build_key_number(b, "k.u64", 10, UINT64_MAX, 8);
    build_key_number(b, "k.i64", 11, (uint64_t)INT64_MIN, 8);
    build_key_number(b, "k.f64", 12, 0x3ff8000000000000u, 8); /* 1.5 */
    build_key_array(b, "k.texts", 8, 3);
    build_element_text(b, "one");
    build_element_text(b, "");
    build_element_text(b, "three");
    build_key_array(b, "k.bytes", 0, 3);
    build_at(b, BUILD_VALUE);
    build_bytes(b, "\x01\x02\xff", 3);
    build_key_array(b, "k.ints", 5, 2);
    build_at(b, BUILD_VALUE);
    build_number(b, 7, 4);
    build_number(b, 0xffffffffu, 4);
    build_key_array(b, "k.floats", 6, 2);
    build_at(b, BUILD_VALUE);
    build_number(b, 0x3f800000u, 4);
    build_number(b, 0xc0000000u, 4);
    build_key_array(b, "k.bools", 7, 2);
    build_at(b, BUILD_VALUE);
    build_bytes(b, "\x00\x01", 2);
    build_key_array(b, "k.none", 8, 0);
    build_tensor(b, "a.f32", 0, 0, 2, (const uint64_t[]){ 4, 2 });
    build_tensor(b, "b.q8_0", 8, 32, 2, (const uint64_t[]){ 32, 2 });
    build_tensor(b, "c.unknown", 99, 128, 1, (const uint64_t[]){ 8 });
    build_data(b, 32, 136);
}

#endif
