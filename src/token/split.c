/* Pre-tokenizers as PCRE2 patterns.
 *
 * The patterns are those of the models' own tokenizer files. Two things are not taken as PCRE2
 * would have them: `\s` is spelled out, because PCRE2's has U+180E, which is no white space; and the
 * rules that first cut out each digit and then split what is between are one pattern here.
 *
 * No pattern backtracks into more than one repeat, so a walk over a text is linear: each match
 * looks at its own piece, and at most at the run of white space after it, a bounded number of
 * times. Matching starts where the last piece ended (PCRE2_ANCHORED), in a text that is known to be
 * UTF-8, so PCRE2 checks nothing twice. */
#include "token/split.h"

#include <assert.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* ---- patterns ------------------------------------------------------------------------------ */

/* For use inside [...]. */
#define WHITE                                                                                      \
    "\\x{09}-\\x{0d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"  \
    "\\x{205f}\\x{3000}"

/* Letters and numbers that Unicode 15 to 16 added. The models' own tokenizers know them; PCRE2 10.42
 * has the tables of Unicode 14. Where PCRE2 is newer they are said twice, which changes nothing. */
#define NEW_LETTERS                                                                                \
    "\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}"               \
    "\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}"         \
    "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}"           \
    "\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}"          \
    "\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}"                    \
    "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}"                     \
    "\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}"          \
    "\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
#define NEW_NUMBERS                                                                                \
    "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"         \
    "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}"         \
    "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"

#define LETTER "\\p{L}" NEW_LETTERS
#define NUMBER "\\p{N}" NEW_NUMBERS

#define CONTRACTION "'s|'t|'re|'ve|'m|'ll|'d"

/* Words may begin with any one character but a line end, a letter or a number; punctuation takes
 * the line ends after it; digits come in groups of at most `digits`. */
#define LLAMA3_PATTERN(digits)                                                                     \
    "(?i:" CONTRACTION ")"                                                                         \
    "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+"                                                    \
    "|[" NUMBER "]" digits "| ?[^" WHITE LETTER NUMBER "]+[\\r\\n]*"                               \
    "|[" WHITE "]*[\\r\\n]+"                                                                       \
    "|[" WHITE "]+(?![^" WHITE "])"                                                                \
    "|[" WHITE "]+"

typedef enum family { GPT2, LLAMA3, QWEN2, DIGITS, N_FAMILIES } family;

static const char *const patterns[N_FAMILIES] = {
    /* Words, numbers and punctuation take one space before them; of more white space the last
     * character goes to what follows. */
    [GPT2] = CONTRACTION "| ?[" LETTER "]+"
                         "| ?[" NUMBER "]+"
                         "| ?[^" WHITE LETTER NUMBER "]+"
                         "|[" WHITE "]+(?![^" WHITE "])"
                         "|[" WHITE "]+",
    [LLAMA3] = LLAMA3_PATTERN("{1,3}"),
    [QWEN2] = LLAMA3_PATTERN(""),
    /* GPT2 between digits, each of which is a piece: a digit ends the text before it, so white space
     * keeps its last character there. */
    [DIGITS] = CONTRACTION "| ?[" LETTER "]+"
                           "|[" NUMBER "]"
                           "| ?[^" WHITE LETTER NUMBER "]+"
                           "|[" WHITE "]+(?![^" WHITE NUMBER "])"
                           "|[" WHITE "]+",
};

static const cr_split_rule rules[] = {
    /* name, family, ignore_merges, add_bos */
    { "gpt-2", GPT2, false, false },
    { "gpt2", GPT2, false, false },
    { "phi-2", GPT2, false, false },
    { "mpt", GPT2, false, false },
    { "olmo", GPT2, false, false },
    { "jais", GPT2, false, false },
    { "trillion", GPT2, false, false },
    { "exaone4", GPT2, false, false },
    { "granite-docling", GPT2, false, false },
    { "llama-bpe", LLAMA3, true, true },
    { "llama3", LLAMA3, true, true },
    { "llama-v3", LLAMA3, true, true },
    { "lfm2", LLAMA3, true, true },
    { "falcon3", LLAMA3, true, true },
    { "falcon-h1", LLAMA3, true, true },
    { "pixtral", LLAMA3, true, true },
    { "midm-2.0", LLAMA3, true, true },
    { "dbrx", LLAMA3, false, false },
    { "smaug-bpe", LLAMA3, false, false },
    { "qwen2", QWEN2, false, false },
    { "deepseek-r1-qwen", QWEN2, false, false },
    { "megrez", QWEN2, false, false },
    { "stablelm2", QWEN2, false, false },
    { "hunyuan", QWEN2, false, false },
    { "smollm", DIGITS, false, false },
    { "refact", DIGITS, false, false },
    { "codeshell", DIGITS, false, false },
    { "starcoder", DIGITS, false, false },
    { "command-r", DIGITS, false, false },
    { "exaone", DIGITS, false, false },
    { "minerva-7b", DIGITS, false, false },
};

const cr_split_rule *cr_split_find(cr_str name)
{
    for (size_t i = 0; i < CR_COUNT(rules); i++)
        if (cr_str_is(name, rules[i].name))
            return &rules[i];
    return NULL;
}

/* ---- PCRE2 with the host's memory ---------------------------------------------------------- */

/* PCRE2 does not say how large a piece was when it gives it back, so the size stands before it. */
enum { SIZE_ROOM = 16 };

typedef struct memory {
    cr_host *host;
    cr_mem purpose;
    bool refused; /* only read while the rule is compiled, by one thread */
} memory;

static void *get_memory(size_t size, void *ctx)
{
    memory *mem = ctx;
    char *ptr =
        size <= SIZE_MAX - SIZE_ROOM ? cr_alloc(mem->host, mem->purpose, size + SIZE_ROOM) : NULL;
    if (ptr == NULL) {
        if (mem->purpose == CR_MEM_VOCAB)
            mem->refused = true;
        return NULL;
    }
    memcpy(ptr, &size, sizeof size);
    return ptr + SIZE_ROOM;
}

static void release_memory(void *ptr, void *ctx)
{
    if (ptr == NULL)
        return;
    memory *mem = ctx;
    size_t size;
    char *start = (char *)ptr - SIZE_ROOM;
    memcpy(&size, start, sizeof size);
    cr_free(mem->host, mem->purpose, start, size + SIZE_ROOM);
}

struct cr_split {
    cr_host *host;
    memory own, scratch;
    pcre2_general_context *own_context, *scratch_context;
    pcre2_match_context *match_context;
    pcre2_code *code;
    bool has_jit;
};

static cera_status compile(cr_split *split, const cr_split_rule *rule, cera_error *err)
{
    const char *pattern = patterns[rule->family];
    int error = 0;
    PCRE2_SIZE at = 0;

    split->own_context = pcre2_general_context_create(get_memory, release_memory, &split->own);
    split->scratch_context =
        pcre2_general_context_create(get_memory, release_memory, &split->scratch);
    if (split->own_context == NULL || split->scratch_context == NULL)
        return cr_fail_nomem(err, 0, "the pre-tokenizer");
    split->match_context = pcre2_match_context_create(split->own_context);
    pcre2_compile_context *context = pcre2_compile_context_create(split->own_context);
    if (split->match_context != NULL && context != NULL) {
        /* The limits guard against exponential patterns, which ours are not; a long run of white
         * space would meet them. */
        pcre2_set_match_limit(split->match_context, UINT32_MAX);
        split->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, context);
    }
    pcre2_compile_context_free(context);
    if (split->own.refused)
        return cr_fail_nomem(err, 0, "the pre-tokenizer");
    if (split->code == NULL)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "tokenizer.ggml.pre: the pattern of %s does not compile with this PCRE2 "
                       "(error %d at %zu)",
                       rule->name, error, (size_t)at);

    /* Without JIT (not built in, or a system without executable memory) matching is slower. */
    split->has_jit = pcre2_jit_compile(split->code, PCRE2_JIT_COMPLETE) == 0;
    if (split->own.refused)
        return cr_fail_nomem(err, 0, "the pre-tokenizer");
    return CERA_OK;
}

cera_status cr_split_new(const cr_split_rule *rule, cr_host *host, cr_split **out, cera_error *err)
{
    cr_split *split = cr_alloc_zero(host, CR_MEM_VOCAB, sizeof *split);
    if (split == NULL)
        return cr_fail_nomem(err, sizeof *split, "the pre-tokenizer");
    split->host = host;
    split->own = (memory){ .host = host, .purpose = CR_MEM_VOCAB };
    split->scratch = (memory){ .host = host, .purpose = CR_MEM_SCRATCH };
    cera_status status = compile(split, rule, err);
    if (status != CERA_OK) {
        cr_split_free(split);
        return status;
    }
    *out = split;
    return CERA_OK;
}

void cr_split_free(cr_split *split)
{
    if (split == NULL)
        return;
    pcre2_code_free(split->code);
    pcre2_match_context_free(split->match_context);
    pcre2_general_context_free(split->scratch_context);
    pcre2_general_context_free(split->own_context);
    cr_free(split->host, CR_MEM_VOCAB, split, sizeof *split);
}

/* ---- walking ------------------------------------------------------------------------------- */

cera_status cr_split_begin(cr_split_walk *walk, const cr_split *split, cera_error *err)
{
    *walk = (cr_split_walk){ .split = split };
    walk->match = pcre2_match_data_create(1, split->scratch_context);
    if (walk->match == NULL)
        return cr_fail_nomem(err, 0, "splitting text");
    return CERA_OK;
}

void cr_split_end(cr_split_walk *walk)
{
    pcre2_match_data_free(walk->match);
    walk->match = NULL;
}

void cr_split_set_text(cr_split_walk *walk, cr_str text)
{
    walk->text = text;
    walk->at = 0;
}

/* PCRE2's result for a match at the present place. */
static int match_here(const cr_split_walk *walk)
{
    const cr_split *split = walk->split;
    PCRE2_SPTR text = (PCRE2_SPTR)walk->text.data;
    if (split->has_jit) {
        int result = pcre2_jit_match(split->code, text, walk->text.size, walk->at,
                                     PCRE2_NO_UTF_CHECK, walk->match, split->match_context);
        if (result != PCRE2_ERROR_JIT_STACKLIMIT)
            return result;
    }
    return pcre2_match(split->code, text, walk->text.size, walk->at,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, walk->match, split->match_context);
}

cera_status cr_split_next(cr_split_walk *walk, cr_str *piece, cera_error *err)
{
    if (walk->at == walk->text.size) {
        *piece = (cr_str){ NULL, 0 };
        return CERA_OK;
    }
    int result = match_here(walk);
    if (result == PCRE2_ERROR_NOMEMORY)
        return cr_fail_nomem(err, 0, "splitting text");
    if (result < 0)
        return cr_fail(err, CERA_E_UNSUPPORTED, "text: splitting at byte %zu: PCRE2 error %d",
                       walk->at, result);
    size_t end = pcre2_get_ovector_pointer(walk->match)[1];
    assert(end > walk->at && end <= walk->text.size);
    *piece = (cr_str){ walk->text.data + walk->at, end - walk->at };
    walk->at = end;
    return CERA_OK;
}
