#include "convert/recipe.h"

#include <assert.h>
#include <stdio.h>

/* ---- file types ------------------------------------------------------------------------------ */

/* MIX(name, base type). Those that need an importance matrix are not
 * here: without one they would be worse than smaller files of other types. */
#define MIXES(MIX)                                                                                 \
    MIX(F32, F32)                                                                                  \
    MIX(F16, F16)                                                                                  \
    MIX(BF16, BF16)                                                                                \
    MIX(Q8_0, Q8_0)                                                                                \
    MIX(Q6_K, Q6_K)                                                                                \
    MIX(Q5_K_M, Q5_K)                                                                              \
    MIX(Q5_K_S, Q5_K)                                                                              \
    MIX(Q5_1, Q5_1)                                                                                \
    MIX(Q5_0, Q5_0)                                                                                \
    MIX(Q4_K_M, Q4_K)                                                                              \
    MIX(Q4_K_S, Q4_K)                                                                              \
    MIX(Q4_1, Q4_1)                                                                                \
    MIX(Q4_0, Q4_0)                                                                                \
    MIX(IQ4_NL, IQ4_NL)                                                                            \
    MIX(IQ4_XS, IQ4_XS)                                                                            \
    MIX(MXFP4, MXFP4)                                                                              \
    MIX(Q3_K_L, Q3_K)                                                                              \
    MIX(Q3_K_M, Q3_K)                                                                              \
    MIX(Q3_K_S, Q3_K)                                                                              \
    MIX(IQ3_M, IQ3_S)                                                                              \
    MIX(IQ3_S, IQ3_S)                                                                              \
    MIX(Q2_K, Q2_K)                                                                                \
    MIX(TQ2_0, TQ2_0)                                                                              \
    MIX(TQ1_0, TQ1_0)

enum mix {
#define MIX(name, base) MIX_##name,
    MIXES(MIX)
#undef MIX
};

static const cr_file_type file_types[] = {
#define MIX(name, base) { #name, CR_TYPE_##base },
    MIXES(MIX)
#undef MIX
};

/* What people also call them. */
static const struct {
    const char *alias;
    enum mix mix;
} aliases[] = {
    { "Q3_K", MIX_Q3_K_M },
    { "Q4_K", MIX_Q4_K_M },
    { "Q5_K", MIX_Q5_K_M },
    { "MXFP4_MOE", MIX_MXFP4 },
};

static bool is_same_word(const char *a, const char *upper)
{
    for (; *a != '\0' && *upper != '\0'; a++, upper++)
        if (*a != *upper && !(*a >= 'a' && *a <= 'z' && *a - 'a' + 'A' == *upper))
            return false;
    return *a == *upper;
}

const cr_file_type *cr_recipe_find(const char *name)
{
    for (size_t i = 0; i < CR_COUNT(file_types); i++)
        if (is_same_word(name, file_types[i].name))
            return &file_types[i];
    for (size_t i = 0; i < CR_COUNT(aliases); i++)
        if (is_same_word(name, aliases[i].alias))
            return &file_types[aliases[i].mix];
    return NULL;
}

cr_type cr_recipe_find_type(const char *name)
{
    int i = 0;
    while (i < CR_TYPE_COUNT && (cr_type_get((cr_type)i)->quantize == NULL ||
                                 !is_same_word(name, cr_type_get((cr_type)i)->name)))
        i++;
    return (cr_type)i;
}

const char *cr_recipe_name(size_t i)
{
    return i < CR_COUNT(file_types) ? file_types[i].name : NULL;
}

/* ---- roles of tensors ------------------------------------------------------------------------ */

enum role {
    ROLE_OTHER,
    ROLE_OUTPUT,
    ROLE_EMBED,
    ROLE_V,
    ROLE_K,
    ROLE_ATTN_OUT,
    ROLE_DOWN,
    N_ROLES
};

/* The first part that a name contains decides. V also stands for what holds V among others. */
static const struct {
    const char *part;
    enum role role;
} roles[] = {
    { "attn_qkv.weight", ROLE_V },
    { "attn_kv_b.weight", ROLE_V },
    { "attn_v.weight", ROLE_V },
    { "attn_k.weight", ROLE_K },
    { "attn_output.weight", ROLE_ATTN_OUT },
    { "ffn_down", ROLE_DOWN },
};

/* Small, or read in a way that needs them as they are. */
static const char *const kept_parts[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "position_embd",
    "token_types",
    "attn_rel_b.weight",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
};

static bool contains(cr_str text, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= text.size; i++)
        if (memcmp(text.data + i, part, n) == 0)
            return true;
    return false;
}

static enum role role_of(cr_str name)
{
    if (cr_str_is(name, "output.weight"))
        return ROLE_OUTPUT;
    if (cr_str_is(name, "token_embd.weight") || cr_str_is(name, "per_layer_token_embd.weight"))
        return ROLE_EMBED;
    for (size_t i = 0; i < CR_COUNT(roles); i++)
        if (contains(name, roles[i].part))
            return roles[i].role;
    return ROLE_OTHER;
}

/* The 7 of "blk.7.ffn_down.weight"; 0 when there is none. */
static uint32_t layer_of(cr_str name)
{
    uint32_t layer = 0;
    if (name.size < 5 || memcmp(name.data, "blk.", 4) != 0)
        return 0;
    for (size_t i = 4; i < name.size && name.data[i] >= '0' && name.data[i] <= '9'; i++)
        layer = CR_MIN(layer * 10 + (uint32_t)(name.data[i] - '0'), UINT32_C(1) << 24);
    return layer;
}

/* ---- rules ----------------------------------------------------------------------------------- */

typedef struct place {
    uint32_t i, n;     /* the i-th of n layers that have this role */
    bool shares_heads; /* four queries or more to a key */
    uint32_t n_expert;
} place;

typedef bool condition(const place *p);

static bool always(const place *p)
{
    (void)p;
    return true;
}

static bool is_first_2(const place *p)
{
    return p->i < 2;
}

static bool is_first_4(const place *p)
{
    return p->i < 4;
}

static bool is_first_eighth(const place *p)
{
    return p->i < p->n / 8;
}

static bool is_first_sixteenth(const place *p)
{
    return p->i < p->n / 16;
}

/* The outer eighths, and every third layer between them. */
static bool gets_more_bits(const place *p)
{
    uint32_t eighth = p->n / 8;
    return p->i < eighth || p->i >= 7 * p->n / 8 || (p->i - eighth) % 3 == 2;
}

static bool shares_heads(const place *p)
{
    return p->shares_heads;
}

static bool has_8_experts(const place *p)
{
    return p->n_expert == 8;
}

static bool has_8_and_gets_more(const place *p)
{
    return has_8_experts(p) && gets_more_bits(p);
}

/* The first row that fits wins. */
static const struct {
    enum mix mix;
    enum role role;
    condition *when;
    cr_type type;
} rules[] = {
    { MIX_Q2_K, ROLE_V, shares_heads, CR_TYPE_Q4_K },
    { MIX_Q2_K, ROLE_V, always, CR_TYPE_Q3_K },
    { MIX_Q2_K, ROLE_DOWN, always, CR_TYPE_Q3_K },
    { MIX_Q2_K, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_Q2_K, ROLE_ATTN_OUT, always, CR_TYPE_Q3_K },
    { MIX_Q3_K_S, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_Q3_K_M, ROLE_V, is_first_2, CR_TYPE_Q5_K },
    { MIX_Q3_K_M, ROLE_V, always, CR_TYPE_Q4_K },
    { MIX_Q3_K_M, ROLE_DOWN, is_first_sixteenth, CR_TYPE_Q5_K },
    { MIX_Q3_K_M, ROLE_DOWN, always, CR_TYPE_Q4_K },
    { MIX_Q3_K_M, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_Q3_K_M, ROLE_ATTN_OUT, always, CR_TYPE_Q4_K },
    { MIX_Q3_K_L, ROLE_V, always, CR_TYPE_Q5_K },
    { MIX_Q3_K_L, ROLE_DOWN, always, CR_TYPE_Q5_K },
    { MIX_Q3_K_L, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q3_K },
    { MIX_Q3_K_L, ROLE_ATTN_OUT, always, CR_TYPE_Q5_K },
    { MIX_Q4_K_S, ROLE_V, is_first_4, CR_TYPE_Q5_K },
    { MIX_Q4_K_S, ROLE_DOWN, is_first_eighth, CR_TYPE_Q5_K },
    { MIX_Q4_K_S, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_Q4_K_M, ROLE_V, gets_more_bits, CR_TYPE_Q6_K },
    { MIX_Q4_K_M, ROLE_DOWN, gets_more_bits, CR_TYPE_Q6_K },
    { MIX_Q4_K_M, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_Q5_K_M, ROLE_V, gets_more_bits, CR_TYPE_Q6_K },
    { MIX_Q5_K_M, ROLE_DOWN, gets_more_bits, CR_TYPE_Q6_K },
    { MIX_IQ4_NL, ROLE_V, shares_heads, CR_TYPE_Q5_K },
    { MIX_IQ4_NL, ROLE_DOWN, is_first_eighth, CR_TYPE_Q5_K },
    { MIX_IQ4_NL, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_IQ4_XS, ROLE_V, shares_heads, CR_TYPE_Q5_K },
    { MIX_IQ4_XS, ROLE_DOWN, is_first_eighth, CR_TYPE_Q5_K },
    { MIX_IQ4_XS, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_IQ3_S, ROLE_V, shares_heads, CR_TYPE_Q4_K },
    { MIX_IQ3_S, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_IQ3_M, ROLE_V, always, CR_TYPE_Q4_K },
    { MIX_IQ3_M, ROLE_DOWN, is_first_eighth, CR_TYPE_Q4_K },
    { MIX_IQ3_M, ROLE_DOWN, has_8_and_gets_more, CR_TYPE_Q4_K },
    { MIX_IQ3_M, ROLE_ATTN_OUT, has_8_experts, CR_TYPE_Q5_K },
    { MIX_IQ3_M, ROLE_ATTN_OUT, always, CR_TYPE_Q4_K },
    { MIX_TQ1_0, ROLE_EMBED, always, CR_TYPE_Q4_K },
    { MIX_TQ2_0, ROLE_EMBED, always, CR_TYPE_Q4_K },
};

/* Where a row is no multiple of 256: the type of 32 that comes nearest from above. */
static const struct {
    cr_type type, instead;
} smaller_blocks[] = {
    { CR_TYPE_Q2_K, CR_TYPE_Q4_0 },     { CR_TYPE_Q3_K, CR_TYPE_Q4_0 },
    { CR_TYPE_Q4_K, CR_TYPE_Q5_0 },     { CR_TYPE_Q5_K, CR_TYPE_Q5_1 },
    { CR_TYPE_Q6_K, CR_TYPE_Q8_0 },     { CR_TYPE_IQ3_S, CR_TYPE_IQ4_NL },
    { CR_TYPE_IQ4_XS, CR_TYPE_IQ4_NL }, { CR_TYPE_TQ1_0, CR_TYPE_Q4_0 },
    { CR_TYPE_TQ2_0, CR_TYPE_Q4_0 },
};

/* ---- the recipe for one file ----------------------------------------------------------------- */

struct cr_recipe {
    cr_host *host;
    const cr_gguf *file;
    cr_file_type type;
    enum mix mix;
    cr_recipe_options options;
    bool is_tied; /* the embedding is the output matrix too */
    bool is_70b;  /* 80 layers that share keys: there V is small enough to be generous */
    place model;
    uint32_t n_layer, n_v;
    uint32_t *rank; /* [n_tensors] of the layer among those with a tensor of the same role */
    size_t n_tensors;
};

/* A number of the architecture, or its first element where each layer has its own. */
static uint32_t read_number(const cr_gguf *file, const char *name)
{
    cr_str arch = { "", 0 };
    char key[160];
    cera_value value, first;
    if (cr_gguf_get_str(file, "general.architecture", CR_REQUIRED, &arch, NULL) != CERA_OK ||
        arch.size > 64)
        return 0;
    snprintf(key, sizeof key, "%.*s.%s", (int)arch.size, arch.data, name);
    if (!cr_gguf_find(file, key, &value))
        return 0;
    if (value.type == CERA_VALUE_ARRAY) {
        if (value.count == 0 || value.element == CERA_VALUE_STRING)
            return 0;
        cr_gguf_element(&value, 0, &first);
        bool is_signed = first.type == CERA_VALUE_I32;
        return first.type == CERA_VALUE_U32 || (is_signed && first.as.i > 0) ? (uint32_t)first.as.u
                                                                             : 0;
    }
    uint32_t number = 0;
    (void)cr_gguf_get_u32(file, key, CR_OPTIONAL, &number, NULL);
    return number;
}

enum { MAX_LAYERS = 4096 }; /* that are told apart */

static void rank_layers(cr_recipe *r, uint32_t *seen)
{
    for (int role = 0; role < N_ROLES; role++) {
        memset(seen, 0, (MAX_LAYERS + 1) * sizeof *seen);
        for (size_t i = 0; i < r->n_tensors; i++) {
            cr_str name = cr_gguf_tensor(r->file, i)->name;
            if ((int)role_of(name) == role)
                seen[CR_MIN(layer_of(name), (uint32_t)MAX_LAYERS)]++;
        }
        uint32_t sum = 0;
        for (size_t layer = 0; layer <= MAX_LAYERS; layer++) {
            uint32_t n = seen[layer];
            seen[layer] = sum;
            sum += n;
        }
        r->n_v = role == ROLE_V ? sum : r->n_v;
        for (size_t i = 0; i < r->n_tensors; i++) {
            cr_str name = cr_gguf_tensor(r->file, i)->name;
            if ((int)role_of(name) == role)
                r->rank[i] = seen[CR_MIN(layer_of(name), (uint32_t)MAX_LAYERS)]++;
        }
    }
}

cera_status cr_recipe_new(const cr_gguf *file, const cr_file_type *type,
                          const cr_recipe_options *options, cr_host *host, cr_recipe **out,
                          cera_error *err)
{
    size_t n = cr_gguf_n_tensors(file), seen_bytes = (MAX_LAYERS + 1) * sizeof(uint32_t);
    cr_recipe *r = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *r);
    uint32_t *seen = cr_alloc(host, CR_MEM_SCRATCH, seen_bytes);
    if (r != NULL)
        r->rank = cr_alloc_zero(host, CR_MEM_OBJECT, n * sizeof *r->rank);
    if (r == NULL || seen == NULL || r->rank == NULL) {
        if (r != NULL)
            cr_free(host, CR_MEM_OBJECT, r->rank, n * sizeof *r->rank);
        cr_free(host, CR_MEM_OBJECT, r, sizeof *r);
        cr_free(host, CR_MEM_SCRATCH, seen, seen_bytes);
        return cr_fail_nomem(err, n * sizeof(uint32_t), "the list of tensors");
    }
    uint32_t *rank = r->rank;
    uint32_t n_head = read_number(file, "attention.head_count");
    uint32_t n_head_kv = read_number(file, "attention.head_count_kv");
    n_head_kv = n_head_kv == 0 && n_head > 0 ? n_head : n_head_kv;
    *r = (cr_recipe){
        .host = host,
        .file = file,
        .type = *type,
        .mix = (enum mix)(type - file_types),
        .options = *options,
        .is_tied = cr_gguf_find_tensor(file, "output.weight") == NULL,
        .n_layer = read_number(file, "block_count"),
        .model.n_expert = read_number(file, "expert_count"),
        .model.shares_heads = n_head_kv > 0 && n_head / n_head_kv >= 4,
        .rank = rank,
        .n_tensors = n,
    };
    r->is_70b = r->n_layer == 80 && n_head != n_head_kv;
    rank_layers(r, seen);
    cr_free(host, CR_MEM_SCRATCH, seen, seen_bytes);
    *out = r;
    return CERA_OK;
}

void cr_recipe_free(cr_recipe *r)
{
    if (r == NULL)
        return;
    cr_free(r->host, CR_MEM_OBJECT, r->rank, r->n_tensors * sizeof *r->rank);
    cr_free(r->host, CR_MEM_OBJECT, r, sizeof *r);
}

static bool is_quantised(cr_type type)
{
    return cr_type_get(type)->weights > 1;
}

static bool is_kept(const cr_recipe *r, const cr_tensor *t)
{
    static const char suffix[] = "weight";
    size_t n = sizeof suffix - 1;
    int n_dims = t->n_dims;
    while (n_dims > 1 && t->shape[n_dims - 1] == 1)
        n_dims--;
    if (n_dims < 2 || t->name.size < n || memcmp(t->name.data + t->name.size - n, suffix, n) != 0)
        return true;
    if (r->options.keep_output && role_of(t->name) == ROLE_OUTPUT)
        return true;
    for (size_t i = 0; i < CR_COUNT(kept_parts); i++)
        if (contains(t->name, kept_parts[i]))
            return true;
    return false;
}

/* What the mixture wants, whatever the shape. */
static cr_type mixed_type(const cr_recipe *r, size_t i, const cr_tensor *t, enum role role)
{
    cr_type base = r->type.base;
    if (role == ROLE_OUTPUT || (role == ROLE_EMBED && r->is_tied)) {
        if (r->options.output != CR_TYPE_COUNT)
            return r->options.output;
        bool fits = t->shape[0] % (uint64_t)cr_type_get(base)->weights == 0;
        return !fits || base == CR_TYPE_Q8_0 || r->mix == MIX_MXFP4 ? CR_TYPE_Q8_0 : CR_TYPE_Q6_K;
    }
    if (r->mix == MIX_MXFP4) /* for the experts, three-dimensional; all else is small beside them */
        return t->n_dims > 2 && t->shape[2] > 1 ? CR_TYPE_MXFP4 : CR_TYPE_Q8_0;
    place p = r->model;
    p.n = role == ROLE_V ? r->n_v : r->n_layer;
    p.i = role != ROLE_V && p.n_expert > 1 ? layer_of(t->name) : r->rank[i];
    if (p.n_expert == 8 && (role == ROLE_V || role == ROLE_K))
        return CR_TYPE_Q8_0;
    cr_type type = base;
    for (size_t k = CR_COUNT(rules); k-- > 0;)
        if (rules[k].mix == r->mix && rules[k].role == role && rules[k].when(&p))
            type = rules[k].type;
    if (role == ROLE_V && r->is_70b && (type == CR_TYPE_Q3_K || type == CR_TYPE_Q4_K))
        return CR_TYPE_Q5_K;
    return type;
}

static cr_type fitting_type(cr_type type, uint64_t row)
{
    for (size_t k = 0; k < CR_COUNT(smaller_blocks); k++)
        if (row % (uint64_t)cr_type_get(type)->weights != 0 && smaller_blocks[k].type == type)
            type = smaller_blocks[k].instead;
    return row % (uint64_t)cr_type_get(type)->weights == 0 ? type : CR_TYPE_F16;
}

cr_type cr_recipe_type(const cr_recipe *r, size_t i, bool *forced_by_shape)
{
    const cr_tensor *t = cr_gguf_tensor(r->file, i);
    *forced_by_shape = false;
    if (t->type == CR_TYPE_COUNT || is_kept(r, t))
        return t->type;
    enum role role = role_of(t->name);
    cr_type type = r->type.base;
    if (role == ROLE_EMBED && r->options.embedding != CR_TYPE_COUNT)
        type = r->options.embedding;
    else if (role == ROLE_OUTPUT && r->options.output != CR_TYPE_COUNT)
        type = r->options.output;
    else if (is_quantised(type) && !r->options.pure)
        type = mixed_type(r, i, t, role);
    cr_type fitting = fitting_type(type, t->shape[0]);
    *forced_by_shape = fitting != type;
    return fitting;
}
