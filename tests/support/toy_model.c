/* Toy models. scripts/make-golden is the description of the random numbers and of the layout. */
#include "support/toy_model.h"

enum { N_BYTES = 256, N_MERGES = 40, ALIGNMENT = 32, MAX_NAME = 64, GAIN_TIED = 2 };

static const char *const control[] = { "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>" };

/* What a tensor holds, which decides how numbers become weights. */
typedef enum content {
    MATRIX, /* of the model's type */
    FLOATS, /* taps */
    BIAS,
    NORM,
    FACTORS,
    DECAY,
} content;

typedef struct tensor {
    char name[MAX_NAME];
    char source[MAX_NAME]; /* whose numbers it takes: its own name but for mutations */
    content content;
    cr_type type;
    int gain;
    int n_dims;
    uint64_t dims[3];
    bool is_rotated; /* queries and keys: TOY_ROPE_PAIRS permutes each head */
} tensor;

enum { MAX_TENSORS = 8 + TOY_MAX_LAYERS * 20 };

/* What a toy of an architecture has beside the tensors that all have. */
typedef struct recipe {
    const char *arch;
    const char *final_norm;
    bool is_pairs; /* rotates neighbours, not halves */
    enum { BIAS_NONE, BIAS_QKV, BIAS_ATTENTION, BIAS_ALL } bias; /* where toy_spec.bias puts them */
    enum { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_ROW } qk_norm;
    enum { NORMS_BEFORE, NORMS_AFTER, NORMS_BOTH } norms; /* of attention and feed-forward */
    bool fused;  /* q, k and v in one tensor, gate and up in one */
    bool select; /* experts are chosen with a bias */
    bool ssm;    /* layers without attention are state spaces */
} recipe;

static const recipe recipes[] = {
    { "llama", "output_norm", .is_pairs = true, .bias = BIAS_ALL },
    { "mistral3", "output_norm", .is_pairs = true, .bias = BIAS_ALL },
    { "lfm2", "token_embd_norm", .qk_norm = QK_NORM_HEAD },
    { "qwen2", "output_norm", .bias = BIAS_QKV },
    { "qwen3", "output_norm", .qk_norm = QK_NORM_HEAD },
    { "granite", "output_norm", .is_pairs = true, .bias = BIAS_ALL },
    { "smollm3", "output_norm", .is_pairs = true },
    { "olmo2", "output_norm", .qk_norm = QK_NORM_ROW, .norms = NORMS_AFTER },
    { "exaone4", "output_norm", .qk_norm = QK_NORM_HEAD, .norms = NORMS_AFTER },
    { "gemma2", "output_norm", .norms = NORMS_BOTH },
    { "gemma3", "output_norm", .qk_norm = QK_NORM_HEAD, .norms = NORMS_BOTH },
    { "phi3", "output_norm", .fused = true },
    { "qwen3moe", "output_norm", .qk_norm = QK_NORM_HEAD },
    { "lfm2moe", "token_embd_norm", .qk_norm = QK_NORM_HEAD, .select = true },
    { "granitemoe", "output_norm", .is_pairs = true, .bias = BIAS_ALL },
    { "mamba2", "output_norm", .ssm = true },
    { "granitehybrid", "output_norm", .is_pairs = true, .bias = BIAS_ATTENTION, .ssm = true },
};

static const recipe *find_recipe(const char *arch)
{
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++)
        if (strcmp(recipes[i].arch, arch) == 0)
            return &recipes[i];
    abort();
}

typedef struct toy {
    const toy_spec *spec;
    const recipe *recipe;
    gguf_build *out;
    tensor tensors[MAX_TENSORS];
    size_t n_tensors;
} toy;

void toy_spec_init(toy_spec *spec, const char *arch, cr_type type)
{
    bool has_conv = strncmp(find_recipe(arch)->arch, "lfm2", 4) == 0;
    bool has_ssm = find_recipe(arch)->ssm;
    *spec = (toy_spec){
        .arch = arch,
        .type = type,
        .seed = 1,
        .n_layer = has_conv ? 4 : 3,
        .n_context = 512,
        .n_embd = 256,
        .n_ff = 512,
        .n_head = 4,
        .head_dim = 64,
        .rope_dims = 64,
        .n_taps = has_conv ? 3 : 0,
        .norm_eps = 0.0625f,
        .rope_base = 10000.0f,
    };
    for (int i = 0; i < spec->n_layer; i++)
        spec->n_head_kv[i] = (has_conv || has_ssm) && i % 2 == 0 ? 0 : 2;
    if (has_ssm) {
        spec->n_taps = 4;
        spec->ssm_inner = 512;
        spec->ssm_state = 32;
        spec->ssm_heads = 8;
        spec->ssm_groups = 2;
    }
    if (strcmp(arch, "mamba2") == 0) {
        spec->n_ff = spec->n_head = spec->head_dim = spec->rope_dims = 0;
        spec->rope_base = 0;
        memset(spec->n_head_kv, 0, sizeof spec->n_head_kv);
    }
}

/* ---- numbers ----------------------------------------------------------------------------- */

typedef struct numbers {
    uint64_t start;
} numbers;

static numbers numbers_of(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return (numbers){ seed + h };
}

static uint64_t number_at(numbers n, uint64_t i)
{
    uint64_t z = n.start + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Sign, exponent and mantissa from one number; exponents 2^-4 to 2^-7 for a gain of 0. */
static uint64_t float_bits(uint64_t r, int n_mantissa, int n_exponent, int gain)
{
    uint64_t bias = (UINT64_C(1) << (n_exponent - 1)) - 1;
    uint64_t exponent = bias - 4 + (uint64_t)gain - (r >> 61 & 3);
    uint64_t mantissa = r >> 8 & ((UINT64_C(1) << n_mantissa) - 1);
    return (r >> 63 << n_exponent | exponent) << n_mantissa | mantissa;
}

static uint64_t float_number(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* A half-precision number of a block: its first byte, and the exponent that it gets. */
typedef struct half_number {
    int at;
    int exponent; /* 0: there is no such number */
} half_number;

/* What a block has besides its weights. The second number takes its sign from the first. */
typedef struct halves {
    half_number first, second;
    bool is_opposite; /* the signs of the two */
    int power;        /* of a first byte that is an exponent; 0: it is not */
} halves;

static const halves halves_of[CR_TYPE_COUNT] = {
    [CR_TYPE_Q4_0] = { .first = { 0, -7 } },
    [CR_TYPE_Q4_1] = { .first = { 0, -7 }, .second = { 2, -4 }, .is_opposite = true },
    [CR_TYPE_Q5_0] = { .first = { 0, -8 } },
    [CR_TYPE_Q5_1] = { .first = { 0, -8 }, .second = { 2, -4 }, .is_opposite = true },
    [CR_TYPE_Q8_0] = { .first = { 0, -11 } },
    [CR_TYPE_Q2_K] = { .first = { 80, -9 }, .second = { 82, -8 } },
    [CR_TYPE_Q3_K] = { .first = { 108, -11 } },
    [CR_TYPE_Q4_K] = { .first = { 0, -13 }, .second = { 2, -10 } },
    [CR_TYPE_Q5_K] = { .first = { 0, -14 }, .second = { 2, -10 } },
    [CR_TYPE_Q6_K] = { .first = { 208, -15 } },
    [CR_TYPE_IQ2_XXS] = { .first = { 0, -11 } },
    [CR_TYPE_IQ2_XS] = { .first = { 0, -11 } },
    [CR_TYPE_IQ3_XXS] = { .first = { 0, -12 } },
    [CR_TYPE_IQ1_S] = { .first = { 0, -8 } },
    [CR_TYPE_IQ4_NL] = { .first = { 0, -11 } },
    [CR_TYPE_IQ3_S] = { .first = { 0, -12 } },
    [CR_TYPE_IQ2_S] = { .first = { 0, -11 } },
    [CR_TYPE_IQ4_XS] = { .first = { 0, -15 } },
    [CR_TYPE_IQ1_M] = { .first.exponent = -8 }, /* in nibbles: make_nibbles */
    [CR_TYPE_TQ1_0] = { .first = { 52, -5 } },
    [CR_TYPE_TQ2_0] = { .first = { 64, -5 } },
    [CR_TYPE_MXFP4] = { .power = -5 },
};

static unsigned set_exponent(unsigned half, int exponent)
{
    return (half & 0x83ff) | (unsigned)(exponent + 15) << 10;
}

/* Sign 0 or 1; -1: its own. */
static unsigned make_half(uint8_t *block, const half_number *h, int gain, int sign)
{
    unsigned bits = block[h->at] | (unsigned)block[h->at + 1] << 8;
    bits = set_exponent(bits, h->exponent + gain);
    if (sign >= 0)
        bits = (bits & 0x7fff) | (unsigned)sign << 15;
    block[h->at] = (uint8_t)bits;
    block[h->at + 1] = (uint8_t)(bits >> 8);
    return bits;
}

/* The number of IQ1_M, in the upper halves of four bytes. */
static void make_nibbles(uint8_t *block, int exponent)
{
    unsigned bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (unsigned)block[49 + 2 * i] >> 4 << 4 * i;
    bits = set_exponent(bits, exponent);
    for (int i = 0; i < 4; i++)
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (bits >> 4 * i & 15) << 4);
}

/* Block i of a quantised matrix. */
static void make_block(uint8_t *block, cr_type type, int gain, numbers r, uint64_t i)
{
    size_t size = (size_t)cr_type_get(type)->block_bytes, per_block = (size + 7) / 8;
    for (size_t k = 0; k < size; k++)
        block[k] = (uint8_t)(number_at(r, i * per_block + k / 8) >> k % 8 * 8);

    const halves *h = &halves_of[type];
    if (type == CR_TYPE_IQ1_M) {
        make_nibbles(block, h->first.exponent + gain);
    } else if (h->power != 0) {
        block[0] = (uint8_t)(127 + h->power + gain - (block[0] & 3));
    } else if (h->first.exponent != 0) {
        unsigned first = make_half(block, &h->first, gain, -1);
        if (h->second.exponent != 0)
            make_half(block, &h->second, gain, (int)(first >> 15) ^ h->is_opposite);
    } else {
        abort(); /* a type that the toy models do not know */
    }
}

/* ---- the tensors' data ------------------------------------------------------------------- */

/* The channel whose numbers a mutation gives to channel i of x, b and c. */
static uint64_t ssm_channel_source(const toy_spec *s, uint64_t i)
{
    uint64_t inner = (uint64_t)s->ssm_inner, n = (uint64_t)s->ssm_state;
    uint64_t groups = (uint64_t)s->ssm_groups;
    if (i < inner)
        return i;
    uint64_t part = (i - inner) / (groups * n), group = (i - inner) / n % groups,
             k = (i - inner) % n;
    if (s->mutation == TOY_SSM_PARTS)
        part = 1 - part;
    if (s->mutation == TOY_SSM_GROUPS)
        group = groups - 1 - group;
    return inner + (part * groups + group) * n + k;
}

/* The same for row i of the input projection: z, then x, b and c, then steps. */
static uint64_t ssm_row_source(const toy_spec *s, uint64_t i)
{
    uint64_t inner = (uint64_t)s->ssm_inner;
    uint64_t n_conv = inner + 2 * (uint64_t)(s->ssm_groups * s->ssm_state);
    if (s->mutation == TOY_SSM_PARTS && i < 2 * inner)
        return i < inner ? i + inner : i - inner;
    return i < inner || i >= inner + n_conv ? i : inner + ssm_channel_source(s, i - inner);
}

/* The row of the right file that stands at `row` of a mutated one. */
static uint64_t row_source(const toy *t, const tensor *x, uint64_t row)
{
    uint64_t dim = (uint64_t)t->spec->head_dim;
    if (t->spec->mutation == TOY_ROPE_PAIRS && x->is_rotated) {
        uint64_t head = row / dim, i = row % dim;
        /* Whoever reads halves for neighbours sees at 2i what belongs at i, at 2i + 1 what belongs
         * at i + n/2. */
        uint64_t half = dim / 2;
        uint64_t from = t->recipe->is_pairs ? i % 2 * half + i / 2
                        : i < half          ? 2 * i
                                            : 2 * (i - half) + 1;
        return head * dim + from;
    }
    if (t->spec->mutation == TOY_CONV_PARTS && strstr(x->name, "shortconv.in_proj")) {
        uint64_t n = (uint64_t)t->spec->n_embd, part = row / n;
        return (part < 2 ? 1 - part : part) * n + row % n;
    }
    if (t->spec->mutation == TOY_ROUTER && strstr(x->name, "ffn_gate_inp"))
        return x->dims[1] - 1 - row;
    if (strstr(x->name, "ssm_in"))
        return ssm_row_source(t->spec, row);
    uint64_t n_q = (uint64_t)t->spec->n_head * dim, n_ff = (uint64_t)t->spec->n_ff;
    bool is_qkv = t->spec->mutation == TOY_QK_SWAPPED && strstr(x->name, "attn_qkv");
    if (is_qkv && row < 2 * n_q) /* as many keys as queries */
        return row < n_q ? row + n_q : row - n_q;
    if (t->spec->mutation == TOY_GATE_UP && t->recipe->fused && strstr(x->name, "ffn_up"))
        return row < n_ff ? row + n_ff : row - n_ff;
    return row;
}

static uint64_t n_rows(const tensor *x)
{
    return (x->n_dims > 1 ? x->dims[1] : 1) * (x->n_dims > 2 ? x->dims[2] : 1);
}

/* Row `from` of a matrix. */
static void make_row(gguf_build *to, cr_type type, int gain, numbers r, uint64_t n_cols,
                     uint64_t from)
{
    const cr_type_info *info = cr_type_get(type);
    if (info->weights > 1) {
        uint64_t n_blocks = n_cols / (uint64_t)info->weights;
        for (uint64_t i = 0; i < n_blocks; i++) {
            uint8_t block[256];
            make_block(block, type, gain, r, from * n_blocks + i);
            build_bytes(to, block, (size_t)info->block_bytes);
        }
        return;
    }
    int n_mantissa = type == CR_TYPE_F32 ? 23 : type == CR_TYPE_F16 ? 10 : 7;
    int n_exponent = type == CR_TYPE_F16 ? 5 : 8;
    int n_bytes = info->block_bytes;
    uint8_t *out = build_room(to, (size_t)n_cols * (size_t)n_bytes);
    for (uint64_t i = 0; i < n_cols; i++, out += n_bytes) {
        uint64_t bits = float_bits(number_at(r, from * n_cols + i), n_mantissa, n_exponent, gain);
        for (int k = 0; k < n_bytes; k++)
            out[k] = (uint8_t)(bits >> 8 * k);
    }
}

static void make_matrix(const toy *t, const tensor *x, int gain)
{
    numbers r = numbers_of(t->spec->seed, x->source);
    for (uint64_t row = 0; row < n_rows(x); row++)
        make_row(t->out, x->type, gain, r, x->dims[0], row_source(t, x, row));
}

void toy_matrix(gguf_build *out, uint64_t seed, const char *name, cr_type type, uint64_t n_cols,
                uint64_t rows)
{
    numbers r = numbers_of(seed, name);
    for (uint64_t row = 0; row < rows; row++)
        make_row(out, type, 0, r, n_cols, row);
}

static uint64_t vector_number(const toy *t, const tensor *x, numbers r, uint64_t i)
{
    uint64_t n_taps = x->dims[0];
    bool is_reversed = t->spec->mutation == TOY_TAPS && x->content == FLOATS && x->n_dims == 2;
    bool is_ssm_conv = strstr(x->name, "ssm_conv1d") != NULL;
    uint64_t n_each = x->n_dims == 2 ? x->dims[0] : 1; /* numbers of a channel */
    uint64_t from = is_reversed     ? i / n_taps * n_taps + n_taps - 1 - i % n_taps
                    : is_ssm_conv   ? ssm_channel_source(t->spec, i / n_each) * n_each + i % n_each
                    : x->is_rotated ? row_source(t, x, i)
                                    : i;
    uint64_t bits = number_at(r, from);
    bool is_half_scale = t->spec->mutation == TOY_ATTN_SCALE && strstr(x->name, "attn_q_norm");
    bool is_named = t->spec->detail && strstr(x->name, t->spec->detail);
    if (t->spec->mutation == TOY_ZERO && is_named)
        return 0;
    float factor = t->spec->mutation == TOY_DOUBLE && is_named ? 2.0f : 1.0f;
    switch (x->content) {
    case NORM:
        /* Twice the norm weight of the queries is twice the scale of the scores. */
        return float_number((0.5f + (float)(bits >> 41) * 0x1p-23f) *
                            (is_half_scale ? 2.0f : factor));
    case FACTORS:
        if (t->spec->mutation == TOY_NO_FACTORS)
            return float_number(1.0f);
        return float_number(1.0f + (float)(bits >> 56) / 32.0f);
    case DECAY:
        return float_number(-factor * (1.0f + (float)(bits >> 56) / 16.0f) / 16.0f);
    case BIAS:
        if (t->spec->mutation == TOY_NO_BIAS)
            return 0;
        break;
    case FLOATS:
    case MATRIX:
        break;
    }
    return float_bits(bits, 23, 8, x->gain);
}

static void make_data(const toy *t, const tensor *x)
{
    bool is_query = strstr(x->name, "attn_q.") != NULL && !t->recipe->qk_norm;
    int gain = x->gain + (t->spec->mutation == TOY_ATTN_SCALE && is_query ? 1 : 0);
    if (t->spec->mutation == TOY_NO_SHARED && strstr(x->name, "ffn_down_shexp"))
        gain -= 20; /* next to nothing */
    if (x->content == MATRIX) {
        make_matrix(t, x, gain);
    } else {
        tensor copy = *x;
        copy.gain = gain;
        numbers r = numbers_of(t->spec->seed, x->source);
        for (uint64_t i = 0; i < x->dims[0] * n_rows(x); i++)
            build_number(t->out, vector_number(t, &copy, r, i), 4);
    }
    while (t->out->size % ALIGNMENT != 0)
        build_number(t->out, 0, 1);
}

/* ---- the list of tensors ----------------------------------------------------------------- */

typedef struct role {
    const char *name;
    cr_type mixed; /* in a model of mixed types */
    int gain;
} role;

static const role roles[] = {
    { "token_embd", CR_TYPE_BF16, 5 },
    { "output", CR_TYPE_Q6_K, 2 },
    { "attn_q", CR_TYPE_Q4_0, 1 },
    { "attn_qkv", CR_TYPE_Q4_0, 0 },
    { "attn_k", CR_TYPE_Q8_0, 0 },
    { "attn_v", CR_TYPE_Q6_K, 1 },
    { "attn_output", CR_TYPE_F16, 0 },
    { "shortconv.in_proj", CR_TYPE_Q4_1, 0 },
    { "shortconv.out_proj", CR_TYPE_Q4_K, 0 },
    { "ffn_gate", CR_TYPE_Q4_1, 0 },
    { "ffn_up", CR_TYPE_F32, 0 },
    { "ffn_down", CR_TYPE_Q4_K, 0 },
    { "ffn_gate_inp", CR_TYPE_F32, 1 },
    { "ffn_gate_exps", CR_TYPE_Q4_1, 0 },
    { "ffn_up_exps", CR_TYPE_Q8_0, 0 },
    { "ffn_down_exps", CR_TYPE_Q4_K, 0 },
    { "ffn_gate_shexp", CR_TYPE_Q4_0, 0 },
    { "ffn_up_shexp", CR_TYPE_F16, 0 },
    { "ffn_down_shexp", CR_TYPE_Q6_K, 0 },
    { "ssm_in", CR_TYPE_Q8_0, 0 },
    { "ssm_out", CR_TYPE_Q4_0, 0 },
};

static const role *find_role(const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i].name, name) == 0)
            return &roles[i];
    abort();
}

/* layer -1: no layer. An empty tail: the name ends before it. */
static void set_name(char name[MAX_NAME], const char *part, const char *tail, int layer)
{
    if (layer < 0)
        snprintf(name, MAX_NAME, "%s.%s", part, tail);
    else
        snprintf(name, MAX_NAME, "blk.%d.%s%s%s", layer, part, *tail ? "." : "", tail);
}

static tensor *add(toy *t, const char *part, const char *tail, int layer)
{
    tensor *x = &t->tensors[t->n_tensors++];
    *x = (tensor){ .type = CR_TYPE_F32, .n_dims = 1 };
    set_name(x->name, part, tail, layer);
    memcpy(x->source, x->name, sizeof x->source);
    return x;
}

/* The other of a pair whose numbers a mutation exchanges, or the name itself. */
static const char *exchanged(const toy *t, const char *name)
{
    static const struct {
        toy_mutation mutation;
        const char *a, *b;
    } pairs[] = {
        { TOY_QK_SWAPPED, "attn_q", "attn_k" },
        { TOY_GATE_UP, "ffn_gate", "ffn_up" },
        { TOY_GATE_UP, "ffn_gate_exps", "ffn_up_exps" },
        { TOY_GATE_UP, "ffn_gate_shexp", "ffn_up_shexp" },
        { TOY_QK_NORM, "attn_q_norm", "attn_k_norm" },
        { TOY_POST_NORM, "post_attention_norm", "post_ffw_norm" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0] && !t->recipe->fused; i++) {
        if (pairs[i].mutation != t->spec->mutation)
            continue;
        if (strcmp(name, pairs[i].a) == 0)
            return pairs[i].b;
        if (strcmp(name, pairs[i].b) == 0)
            return pairs[i].a;
    }
    return name;
}

static tensor *add_matrix(toy *t, const char *name, int n_cols, int n_rows, int layer)
{
    tensor *x = add(t, name, "weight", layer);
    const role *r = find_role(name);
    set_name(x->source, exchanged(t, name), "weight", layer);
    x->content = MATRIX;
    x->type = t->spec->mixed ? r->mixed : t->spec->type;
    x->gain = find_role(exchanged(t, name))->gain;
    if (t->spec->tied && strcmp(name, "token_embd") == 0)
        x->gain = GAIN_TIED;
    x->n_dims = 2;
    x->dims[0] = (uint64_t)n_cols;
    x->dims[1] = (uint64_t)n_rows;
    return x;
}

static tensor *add_norm(toy *t, const char *name, int n, int layer)
{
    tensor *x = add(t, name, "weight", layer);
    set_name(x->source, exchanged(t, name), "weight", layer);
    x->content = NORM;
    x->dims[0] = (uint64_t)n;
    return x;
}

static void add_bias(toy *t, const char *name, int n, int layer)
{
    bool is_qkv =
        strcmp(name, "attn_q") == 0 || strcmp(name, "attn_k") == 0 || strcmp(name, "attn_v") == 0;
    bool is_attention = is_qkv || strcmp(name, "attn_output") == 0;
    bool has_bias = t->recipe->bias == BIAS_ALL || (t->recipe->bias == BIAS_QKV && is_qkv) ||
                    (t->recipe->bias == BIAS_ATTENTION && is_attention);
    if (!t->spec->bias || !has_bias)
        return;
    tensor *x = add(t, name, "bias", layer);
    x->content = BIAS;
    x->gain = 3;
    x->dims[0] = (uint64_t)n;
    x->is_rotated = strcmp(name, "attn_q") == 0 || strcmp(name, "attn_k") == 0;
}

static void add_qkv(toy *t, int n_q, int n_kv, int layer)
{
    add_matrix(t, "attn_q", t->spec->n_embd, n_q, layer)->is_rotated = true;
    add_bias(t, "attn_q", n_q, layer);
    add_matrix(t, "attn_k", t->spec->n_embd, n_kv, layer)->is_rotated = true;
    add_bias(t, "attn_k", n_kv, layer);
    add_matrix(t, "attn_v", t->spec->n_embd, n_kv, layer);
    add_bias(t, "attn_v", n_kv, layer);
}

static void add_attention(toy *t, int layer)
{
    const toy_spec *s = t->spec;
    int n_q = s->n_head * s->head_dim, n_kv = s->n_head_kv[layer] * s->head_dim;
    if (t->recipe->fused && !s->split)
        add_matrix(t, "attn_qkv", s->n_embd, n_q + 2 * n_kv, layer);
    else
        add_qkv(t, n_q, n_kv, layer);
    if (t->recipe->qk_norm) {
        bool of_row = t->recipe->qk_norm == QK_NORM_ROW;
        add_norm(t, "attn_q_norm", of_row ? n_q : s->head_dim, layer)->is_rotated = true;
        add_norm(t, "attn_k_norm", of_row ? n_kv : s->head_dim, layer)->is_rotated = true;
    }
    add_matrix(t, "attn_output", n_q, s->n_embd, layer);
    add_bias(t, "attn_output", s->n_embd, layer);
}

static void add_conv(toy *t, int layer)
{
    int n = t->spec->n_embd;
    add_matrix(t, "shortconv.in_proj", n, 3 * n, layer);
    tensor *taps = add(t, "shortconv.conv", "weight", layer);
    taps->content = FLOATS;
    taps->gain = 3;
    taps->n_dims = 2;
    taps->dims[0] = (uint64_t)t->spec->n_taps;
    taps->dims[1] = (uint64_t)n;
    add_matrix(t, "shortconv.out_proj", n, n, layer);
}

/* Floats of a state space: [n_rows][n_cols], or [n_cols] if n_rows is 0. */
static void add_floats(toy *t, const char *name, const char *tail, content what, int gain,
                       int n_cols, int n_rows, int layer)
{
    tensor *x = add(t, name, tail, layer);
    x->content = what;
    x->gain = gain;
    x->n_dims = n_rows > 0 ? 2 : 1;
    x->dims[0] = (uint64_t)n_cols;
    x->dims[1] = (uint64_t)n_rows;
}

static void add_ssm(toy *t, int layer)
{
    const toy_spec *s = t->spec;
    int n_conv = s->ssm_inner + 2 * s->ssm_groups * s->ssm_state;
    add_matrix(t, "ssm_in", s->n_embd, s->ssm_inner + n_conv + s->ssm_heads, layer);
    add_floats(t, "ssm_conv1d", "weight", FLOATS, 3, s->n_taps, n_conv, layer);
    add_floats(t, "ssm_conv1d", "bias", BIAS, 3, n_conv, 0, layer);
    add_floats(t, "ssm_dt", "bias", BIAS, 4, s->ssm_heads, 0, layer);
    add_floats(t, "ssm_a", "", DECAY, 0, 1, s->ssm_heads, layer);
    add_floats(t, "ssm_d", "", NORM, 0, 1, s->ssm_heads, layer);
    add_floats(t, "ssm_norm", "weight", NORM, 0, s->ssm_inner / s->ssm_groups, s->ssm_groups,
               layer);
    add_matrix(t, "ssm_out", s->ssm_inner, s->n_embd, layer);
}

static void add_ffn(toy *t, const char *name, int n_cols, int n_rows, int layer)
{
    add_matrix(t, name, n_cols, n_rows, layer);
    add_bias(t, name, n_rows, layer);
}

/* A matrix for each expert. */
static void add_stack(toy *t, const char *name, int n_cols, int n_rows, int layer)
{
    tensor *x = add_matrix(t, name, n_cols, n_rows, layer);
    x->n_dims = 3;
    x->dims[2] = (uint64_t)t->spec->n_expert;
}

static void add_experts(toy *t, int layer)
{
    const toy_spec *s = t->spec;
    int n_ff = s->n_ff_expert > 0 ? s->n_ff_expert : s->n_ff;
    add_matrix(t, "ffn_gate_inp", s->n_embd, s->n_expert, layer)->type = CR_TYPE_F32;
    if (t->recipe->select) {
        tensor *x = add(t, "exp_probs_b", "bias", layer);
        x->content = BIAS;
        x->gain = 3;
        x->dims[0] = (uint64_t)s->n_expert;
    }
    add_stack(t, "ffn_gate_exps", s->n_embd, n_ff, layer);
    add_stack(t, "ffn_up_exps", s->n_embd, n_ff, layer);
    add_stack(t, "ffn_down_exps", n_ff, s->n_embd, layer);
    if (s->n_ff_shared == 0)
        return;
    add_matrix(t, "ffn_gate_shexp", s->n_embd, s->n_ff_shared, layer);
    add_matrix(t, "ffn_up_shexp", s->n_embd, s->n_ff_shared, layer);
    add_matrix(t, "ffn_down_shexp", s->n_ff_shared, s->n_embd, layer);
}

static void add_dense(toy *t, int layer)
{
    const toy_spec *s = t->spec;
    if (!t->recipe->fused)
        add_ffn(t, "ffn_gate", s->n_embd, s->n_ff, layer);
    add_ffn(t, "ffn_up", s->n_embd, s->n_ff * (t->recipe->fused ? 2 : 1), layer);
    add_ffn(t, "ffn_down", s->n_ff, s->n_embd, layer);
}

static void add_factors(toy *t, const char *name, const char *source)
{
    tensor *x = add(t, name, "weight", -1);
    set_name(x->source, source, "weight", -1);
    x->content = FACTORS;
    x->dims[0] = (uint64_t)t->spec->rope_dims / 2;
}

static void list_tensors(toy *t)
{
    const toy_spec *s = t->spec;
    add_matrix(t, "token_embd", s->n_embd, TOY_N_VOCAB, -1);
    if (!s->tied && s->mutation != TOY_TIED)
        add_matrix(t, "output", s->n_embd, TOY_N_VOCAB, -1);
    if (s->head_bias) {
        tensor *x = add(t, "output", "bias", -1);
        x->content = BIAS;
        x->gain = 3;
        x->dims[0] = TOY_N_VOCAB;
    }
    add_norm(t, s->final ? s->final : t->recipe->final_norm, s->n_embd, -1);
    if (s->factors)
        add_factors(t, "rope_freqs", "rope_freqs");
    if (s->long_short) {
        bool other = s->mutation == TOY_LONG_SHORT;
        add_factors(t, "rope_factors_long", other ? "rope_factors_short" : "rope_factors_long");
        add_factors(t, "rope_factors_short", other ? "rope_factors_long" : "rope_factors_short");
    }
    for (int i = 0; i < s->n_layer; i++) {
        if (t->recipe->norms != NORMS_AFTER)
            add_norm(t, "attn_norm", s->n_embd, i);
        if (s->n_head_kv[i] > 0)
            add_attention(t, i);
        else if (t->recipe->ssm)
            add_ssm(t, i);
        else
            add_conv(t, i);
        if (t->recipe->norms != NORMS_BEFORE)
            add_norm(t, "post_attention_norm", s->n_embd, i);
        if (s->n_ff == 0)
            continue;
        if (t->recipe->norms != NORMS_AFTER)
            add_norm(t, "ffn_norm", s->n_embd, i);
        if (s->n_expert > 0 && i >= s->n_dense)
            add_experts(t, i);
        else
            add_dense(t, i);
        if (t->recipe->norms != NORMS_BEFORE)
            add_norm(t, "post_ffw_norm", s->n_embd, i);
    }
}

/* ---- the file ---------------------------------------------------------------------------- */

/* Counts the keys, which stand behind their count in the file. */
typedef struct keys {
    gguf_build *out;
    const char *arch;
    const char *doubled; /* or NULL */
    const toy_key *changed;
    size_t n_changed;
    uint64_t n;
} keys;

static const char *full(const keys *k, char name[MAX_NAME], const char *key)
{
    snprintf(name, MAX_NAME, "%s.%s", k->arch, key);
    return name;
}

/* Whether the key of this full name is one that a test changes: those are written at the end. */
static bool is_changed(const keys *k, const char *name)
{
    char other[MAX_NAME];
    for (size_t i = 0; i < k->n_changed; i++) {
        const char *changed = k->changed[i].name;
        if (strcmp(name, changed) == 0 || strcmp(name, full(k, other, changed)) == 0)
            return true;
    }
    return false;
}

static bool is_doubled(const keys *k, const char *key)
{
    return k->doubled && strcmp(k->doubled, key) == 0;
}

static void key_int(keys *k, const char *key, int value)
{
    char name[MAX_NAME];
    value *= is_doubled(k, key) ? 2 : 1;
    if (is_changed(k, full(k, name, key)))
        return;
    build_key_u32(k->out, name, (uint32_t)value);
    k->n++;
}

static void key_int_if(keys *k, const char *key, int value)
{
    if (value > 0)
        key_int(k, key, value);
}

static void key_float(keys *k, const char *key, float value)
{
    char name[MAX_NAME];
    value *= is_doubled(k, key) ? 2.0f : 1.0f;
    if (is_changed(k, full(k, name, key)))
        return;
    build_key_number(k->out, name, 6, float_number(value), 4);
    k->n++;
}

static void key_float_if(keys *k, const char *key, float value)
{
    if (value > 0)
        key_float(k, key, value);
}

static void key_text(keys *k, const char *name, const char *value)
{
    if (is_changed(k, name))
        return;
    build_key_text(k->out, name, value);
    k->n++;
}

/* Whether the array is to be written; its elements follow. */
static bool key_array(keys *k, const char *name, uint32_t element, uint64_t n)
{
    if (is_changed(k, name))
        return false;
    build_key_array(k->out, name, element, n);
    k->n++;
    return true;
}

static void key_changed(keys *k, const toy_key *c)
{
    char name[MAX_NAME];
    bool is_whole = strncmp(c->name, "tokenizer.", 10) == 0 || strncmp(c->name, "general.", 8) == 0;
    snprintf(name, sizeof name, "%s%s%s", is_whole ? "" : k->arch, is_whole ? "" : ".", c->name);
    k->n += c->form != TOY_KEY_ABSENT;
    switch (c->form) {
    case TOY_KEY_ABSENT:
        break;
    case TOY_KEY_NUMBER:
        build_key_number(k->out, name, c->number > UINT32_MAX ? 10 : 4, c->number,
                         c->number > UINT32_MAX ? 8 : 4);
        break;
    case TOY_KEY_I32:
        build_key_number(k->out, name, 5, c->number, 4);
        break;
    case TOY_KEY_FLOAT:
        build_key_number(k->out, name, 6, float_number(c->real), 4);
        break;
    case TOY_KEY_TEXT:
        build_key_text(k->out, name, c->text);
        break;
    case TOY_KEY_NUMBERS:
    case TOY_KEY_FLOATS:
        build_key_array(k->out, name, c->form == TOY_KEY_NUMBERS ? 5 : 6, c->n);
        for (uint64_t i = 0; i < c->n; i++)
            build_number(k->out, c->form == TOY_KEY_NUMBERS ? c->number : float_number(c->real), 4);
        break;
    case TOY_KEY_TEXTS:
        build_key_array(k->out, name, 8, c->n);
        for (uint64_t i = 0; i < c->n; i++)
            build_string(k->out, c->text, strlen(c->text));
        break;
    }
}

/* How byte-level vocabularies spell a byte: printable ones as themselves, others from U+0100. */
static size_t spell(int byte, char out[2])
{
    int code = byte, n_before = 0;
    for (int b = 0; b <= byte; b++) {
        bool is_plain = (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
        if (b == byte)
            code = is_plain ? byte : 256 + n_before;
        n_before += !is_plain;
    }
    if (code < 128) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
}

static void write_tokens(gguf_build *out)
{
    for (int byte = 0; byte < N_BYTES; byte++) {
        char text[2];
        size_t n = spell(byte, text);
        build_string(out, text, n);
    }
    for (int i = 0; i < N_MERGES; i++)
        build_string(out, (char[]){ "etaoinsr"[i / 5], "haedl"[i % 5] }, 2);
    for (size_t i = 0; i < sizeof control / sizeof control[0]; i++)
        build_string(out, control[i], strlen(control[i]));
}

static void key_id(keys *k, const char *name, uint32_t id)
{
    if (is_changed(k, name))
        return;
    build_key_u32(k->out, name, id);
    k->n++;
}

static void write_vocab(keys *k)
{
    gguf_build *out = k->out;
    key_text(k, "tokenizer.ggml.model", "gpt2");
    key_text(k, "tokenizer.ggml.pre", "gpt-2");

    if (key_array(k, "tokenizer.ggml.tokens", 8, TOY_N_VOCAB))
        write_tokens(out);
    bool has_types = key_array(k, "tokenizer.ggml.token_type", 5, TOY_N_VOCAB);
    for (int i = 0; has_types && i < TOY_N_VOCAB; i++)
        build_number(out, i < N_BYTES + N_MERGES ? 1 : 3, 4);
    bool has_merges = key_array(k, "tokenizer.ggml.merges", 8, N_MERGES);
    for (int i = 0; has_merges && i < N_MERGES; i++)
        build_string(out, (char[]){ "etaoinsr"[i / 5], ' ', "haedl"[i % 5] }, 3);

    key_id(k, "tokenizer.ggml.bos_token_id", N_BYTES + N_MERGES);
    key_id(k, "tokenizer.ggml.eos_token_id", N_BYTES + N_MERGES + 1);
    build_key_number(out, "tokenizer.ggml.add_bos_token", 7, 0, 1);
    k->n++;
}

static void write_expert_keys(const toy_spec *s, keys *k)
{
    enum { SOFTMAX = 1, SIGMOID = 2 };
    int other = s->gating == SIGMOID ? SOFTMAX : SIGMOID;
    key_int_if(k, "expert_count", s->n_expert);
    key_int_if(k, "expert_used_count", s->n_expert_used);
    key_int_if(k, "expert_feed_forward_length", s->n_ff_expert);
    key_int_if(k, "expert_shared_feed_forward_length", s->n_ff_shared);
    key_int_if(k, "leading_dense_block_count", s->n_dense);
    key_int_if(k, "expert_gating_func", s->mutation == TOY_GATING ? other : s->gating);
    key_float_if(k, "expert_weights_scale", s->expert_scale);
    bool norm_off = s->expert_norm_off != (s->mutation == TOY_EXPERT_NORM);
    if (!norm_off)
        return;
    char name[MAX_NAME];
    build_key_number(k->out, full(k, name, "expert_weights_norm"), 7, 0, 1);
    k->n++;
}

static void write_keys(const toy *t, keys *k)
{
    const toy_spec *s = t->spec;
    key_text(k, "general.architecture", k->arch);
    key_text(k, "general.name", "toy");
    key_int(k, "block_count", s->n_layer);
    key_int(k, "context_length", s->n_context);
    key_int(k, "embedding_length", s->n_embd);
    key_int(k, "feed_forward_length", s->n_ff);
    key_int(k, "attention.head_count", s->n_head);
    char name[MAX_NAME];
    if (s->n_head > 0) {
        bool has_kv =
            key_array(k, full(k, name, "attention.head_count_kv"), 5, (uint64_t)s->n_layer);
        for (int i = 0; has_kv && i < s->n_layer; i++)
            build_number(t->out, (uint64_t)s->n_head_kv[i], 4);
    }
    key_float(k, "attention.layer_norm_rms_epsilon",
              s->norm_eps * (s->mutation == TOY_EPS ? 10.0f : 1.0f));
    key_int(k, "vocab_size", TOY_N_VOCAB);
    if (s->n_head > 0 && s->head_dim * s->n_head != s->n_embd) {
        key_int(k, "attention.key_length", s->head_dim);
        key_int(k, "attention.value_length", s->head_dim);
    }
    if (s->rope_dims != s->head_dim)
        key_int(k, "rope.dimension_count", s->rope_dims);
    key_float_if(k, "rope.freq_base", s->rope_base * (s->mutation == TOY_ROPE_BASE ? 2.0f : 1.0f));
    if (s->n_taps > 0 && s->ssm_inner == 0)
        key_int(k, "shortconv.l_cache", s->n_taps);
    if (s->scaling) {
        char name_of_type[MAX_NAME];
        key_text(k, full(k, name_of_type, "rope.scaling.type"), s->scaling);
    }
    key_float_if(k, "rope.scaling.factor", s->scale_factor);
    key_float_if(k, "rope.scaling.attn_factor", s->scale_gain);
    key_float_if(k, "rope.scaling.yarn_attn_factor", s->yarn_gain);
    key_float_if(k, "rope.scaling.yarn_log_multiplier", s->log_share);
    if (s->first_context > 0)
        key_int(k, "rope.scaling.original_context_length", s->first_context);
    key_float_if(k, "attention.temperature_scale", s->temperature);
    if (s->temperature_length > 0)
        key_int(k, "attention.temperature_length", s->temperature_length);
    key_float_if(k, "rope.freq_base_swa", s->rope_local_base);
    if (s->window > 0)
        key_int(k, "attention.sliding_window", s->window);
    if (s->period > 0)
        key_int(k, "attention.sliding_window_pattern", s->period);
    key_float_if(k, "attn_logit_softcapping", s->attn_cap);
    key_float_if(k, "final_logit_softcapping", s->logit_cap);
    key_float_if(k, "embedding_scale", s->embed_scale);
    key_float_if(k, "residual_scale", s->residual_scale);
    key_float_if(k, "attention.scale", s->attn_scale);
    key_float_if(k, "logit_scale", s->logit_scale);
    write_expert_keys(s, k);
    if (s->ssm_inner > 0) {
        key_int(k, "ssm.conv_kernel", s->n_taps);
        key_int(k, "ssm.inner_size", s->ssm_inner);
        key_int(k, "ssm.state_size", s->ssm_state);
        key_int(k, "ssm.time_step_rank", s->ssm_heads);
        key_int(k, "ssm.group_count", s->ssm_groups);
    }
    if (s->no_rope && !is_changed(k, full(k, name, "rope.scaling.finetuned"))) {
        build_key_number(t->out, name, 7, s->mutation == TOY_ROPE_ON, 1);
        k->n++;
    }
    write_vocab(k);
}

void toy_build(const toy_spec *spec, gguf_build *out)
{
    toy *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    build_init(out);
    t->spec = spec;
    t->recipe = find_recipe(spec->arch);
    t->out = out;
    list_tensors(t);

    build_header(out, 3, t->n_tensors, 0);
    keys k = { .out = out, .arch = spec->arch, .changed = spec->keys, .n_changed = spec->n_keys };
    if (spec->mutation == TOY_KEY)
        k.doubled = spec->detail;
    if (spec->mutation == TOY_ARCH)
        k.arch = spec->detail;
    write_keys(t, &k);
    for (size_t i = 0; i < spec->n_keys; i++)
        key_changed(&k, &spec->keys[i]);
    build_patch(out, 16, k.n, 8); /* behind magic, version and the count of tensors */

    uint64_t offset = 0;
    for (size_t i = 0; i < t->n_tensors; i++) {
        const tensor *x = &t->tensors[i];
        const cr_type_info *info = cr_type_get(x->type);
        build_tensor(out, x->name, info->id, offset, (uint32_t)x->n_dims, x->dims);
        uint64_t n = x->dims[0] * n_rows(x);
        offset += (cr_type_bytes(info, (size_t)n) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    build_data(out, ALIGNMENT, 0);
    for (size_t i = 0; i < t->n_tensors; i++)
        make_data(t, &t->tensors[i]);
    free(t);
}
