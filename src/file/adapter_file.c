/* Adapters in GGUF files, as llama.cpp's tools write them:
 *
 *     general.type "adapter", adapter.type "lora", adapter.lora.alpha
 *         blk.0.attn_q.weight.lora_a, blk.0.attn_q.weight.lora_b, ...
 *     general.architecture "controlvector"
 *         direction.1, direction.2, ... */
#include "file/adapter_file.h"

#include <math.h>
#include <stdlib.h>

static const char A_END[] = ".lora_a", B_END[] = ".lora_b";

/* Whether the name has this end, and something in front of it. */
static bool has_end(cr_str name, const char *end)
{
    return name.size > strlen(end) && cr_str_ends(name, end);
}

static cera_status want_text(const cr_gguf *file, const char *key, const char *expected,
                             cera_error *err)
{
    cr_str found = { 0 };
    CR_TRY(cr_gguf_get_str(file, key, CR_REQUIRED, &found, err));
    if (cr_str_is(found, expected))
        return CERA_OK;
    return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: expected \"%s\", found \"%.*s\"",
                   cr_gguf_name(file), key, expected, (int)CR_MIN(found.size, (size_t)64),
                   found.data);
}

/* ---- LoRA -------------------------------------------------------------------------------- */

/* The tensor beside one, whose name ends otherwise. */
static const cr_tensor *partner(const cr_gguf *file, cr_str stem, const char *end)
{
    char name[CR_GGUF_MAX_NAME + 8];
    memcpy(name, stem.data, stem.size);
    memcpy(name + stem.size, end, strlen(end) + 1);
    return cr_gguf_find_tensor(file, name);
}

static cera_status add_pair(const cr_gguf *file, const cr_tensor *tensor, float alpha,
                            cr_adapter_content *out, cera_error *err)
{
    bool is_a = has_end(tensor->name, A_END);
    if (!is_a && !has_end(tensor->name, B_END))
        return cr_fail(err, CERA_E_FORMAT, "%s: expected tensors named *%s and *%s, found %s",
                       out->path, A_END, B_END, tensor->name.data);
    cr_str stem = { tensor->name.data, tensor->name.size - strlen(A_END) };
    const cr_tensor *other = partner(file, stem, is_a ? B_END : A_END);
    if (!other)
        return cr_fail(err, CERA_E_FORMAT, "%s: %s has no %s beside it", out->path,
                       tensor->name.data, is_a ? B_END : A_END);
    if (is_a)
        out->pairs[out->n_pairs++] = (cr_adapter_pair){
            .name = stem, .a = *tensor, .b = *other, .alpha = alpha, .expert = -1
        };
    return CERA_OK;
}

static cera_status read_lora(const cr_gguf *file, cr_arena *arena, cr_adapter_content *out,
                             cera_error *err)
{
    cera_value tokens;
    float alpha = 0;
    CR_TRY(want_text(file, "adapter.type", "lora", err));
    CR_TRY(cr_gguf_get_f32(file, "adapter.lora.alpha", CR_OPTIONAL, &alpha, err));
    if (!isfinite(alpha))
        return cr_fail(err, CERA_E_FORMAT,
                       "%s: adapter.lora.alpha: expected a finite number, found %g", out->path,
                       (double)alpha);
    if (cr_gguf_find(file, "adapter.alora.invocation_tokens", &tokens))
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "%s: adapter.alora.invocation_tokens: adapters that begin at a token of "
                       "the text are not supported",
                       out->path);
    size_t n = cr_gguf_n_tensors(file);
    out->pairs = cr_arena_array(arena, n + 1, sizeof *out->pairs);
    if (!out->pairs)
        return cr_fail_nomem(err, n * sizeof *out->pairs, "the list of an adapter's tensors");
    for (size_t i = 0; i < n; i++)
        CR_TRY(add_pair(file, cr_gguf_tensor(file, i), alpha, out, err));
    return CERA_OK;
}

/* ---- control vectors --------------------------------------------------------------------- */

static int by_layer(const void *a, const void *b)
{
    const cr_direction *x = a, *y = b;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

static cera_status read_directions(const cr_gguf *file, cr_arena *arena, cr_adapter_content *out,
                                   cera_error *err)
{
    static const char BEGIN[] = "direction.";
    size_t n = cr_gguf_n_tensors(file), n_begin = strlen(BEGIN);
    out->directions = cr_arena_array(arena, n + 1, sizeof *out->directions);
    if (!out->directions)
        return cr_fail_nomem(err, n * sizeof *out->directions, "the list of directions");
    for (size_t i = 0; i < n; i++) {
        const cr_tensor *tensor = cr_gguf_tensor(file, i);
        int64_t layer = 0;
        bool is_good =
            tensor->name.size > n_begin && memcmp(tensor->name.data, BEGIN, n_begin) == 0 &&
            cr_parse_i64((cr_str){ tensor->name.data + n_begin, tensor->name.size - n_begin },
                         &layer) &&
            layer > 0 && layer < 1 << 20;
        if (!is_good)
            return cr_fail(err, CERA_E_FORMAT,
                           "%s: expected tensors named direction.1, direction.2 ..., found %s",
                           out->path, tensor->name.data);
        out->directions[out->n_directions++] = (cr_direction){ (int)layer, *tensor };
    }
    qsort(out->directions, n, sizeof *out->directions, by_layer);
    for (size_t i = 1; i < n; i++) /* "direction.01" is the same as "direction.1" */
        if (out->directions[i].layer == out->directions[i - 1].layer)
            return cr_fail(err, CERA_E_FORMAT, "%s: two directions of layer %d", out->path,
                           out->directions[i].layer);
    return CERA_OK;
}

cera_status cr_adapter_read(const cr_gguf *file, cr_arena *arena, cr_adapter_content *out,
                            cera_error *err)
{
    cr_adapter_content content = { .path = cr_gguf_name(file) };
    CR_TRY(cr_gguf_get_str(file, "general.architecture", CR_REQUIRED, &content.arch, err));
    if (cr_str_is(content.arch, "controlvector")) {
        content.arch = cr_str_from("");
        CR_TRY(read_directions(file, arena, &content, err));
    } else {
        CR_TRY(want_text(file, "general.type", "adapter", err));
        CR_TRY(read_lora(file, arena, &content, err));
    }
    if (content.n_pairs + content.n_directions == 0)
        return cr_fail(err, CERA_E_FORMAT, "%s: it has no tensors", content.path);
    *out = content;
    return CERA_OK;
}
