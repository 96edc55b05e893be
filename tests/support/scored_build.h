/* Small vocabularies of tokens with scores (kinds llama, t5, bert) as GGUF files in memory.
 *
 *     scored_build v = { .model = "llama", .tokens = tokens, .n_tokens = 3 };
 *     gguf_build b;
 *     build_scored(&b, &v); */
#ifndef SCORED_BUILD_H
#define SCORED_BUILD_H

#include "support/gguf_build.h"

typedef struct scored_token {
    const char *text;
    float score;
    int type;
} scored_token;

typedef struct scored_build {
    const char *model;
    const scored_token *tokens;
    size_t n_tokens;
    /* more keys, after these */
    void (*add)(gguf_build *b);
    size_t n_added;
} scored_build;

static inline void build_scored(gguf_build *b, const scored_build *v)
{
    build_init(b);
    build_header(b, 3, 0, 4 + v->n_added);
    build_key_text(b, "tokenizer.ggml.model", v->model);
    build_key_array(b, "tokenizer.ggml.tokens", 8, v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++)
        build_element_text(b, v->tokens[i].text);
    build_key_array(b, "tokenizer.ggml.scores", 6, v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++) {
        uint32_t bits;
        memcpy(&bits, &v->tokens[i].score, sizeof bits);
        build_number(b, bits, 4);
    }
    build_key_array(b, "tokenizer.ggml.token_type", 5, v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++)
        build_number(b, (uint64_t)v->tokens[i].type, 4);
    if (v->add != NULL)
        v->add(b);
}

/* A small vocabulary of kind llama: letters, blanks, a few words, byte tokens, special tokens. */
enum {
    SPM_UNKNOWN = 0,
    SPM_BOS = 1,
    SPM_EOS = 2,
    SPM_BYTES = 3,               /* 3 to 258 */
    SPM_WORDS = SPM_BYTES + 256, /* where spm_words begin */
};
#define SPM_BLANK "\xe2\x96\x81"
static const scored_token spm_words[] = {
    { SPM_BLANK, -90, 1 },                    /* +0 */
    { "a", -91, 1 },                          /* +1 */
    { "b", -92, 1 },                          /* +2 */
    { "c", -93, 1 },                          /* +3 */
    { SPM_BLANK "a", -10, 1 },                /* +4 */
    { "ab", -8, 1 },                          /* +5 */
    { "bc", -8, 1 },                          /* +6: as good as ab */
    { SPM_BLANK "ab", -12, 1 },               /* +7 */
    { SPM_BLANK SPM_BLANK, -5, 1 },           /* +8 */
    { "\xc3\xa9", -94, 1 },                   /* +9: e acute */
    { SPM_BLANK "\xc3\xa9t\xc3\xa9", -1, 1 }, /* +10: t is no token, so this is never reached */
    { "<u>", 0, 4 },                          /* +11 */
    { "<|im_end|>", 0, 3 },                   /* +12 */
    { "abc", -30, 1 },                        /* +13 */
    { "\xf0\x9f\xa6\x8a", -95, 1 },           /* +14: a fox */
    { "aa", -2, 1 },                          /* +15 */
    { "aaa", -1, 1 },                         /* +16: better than what it is made of */
    { "xy", -3, 1 },                          /* +17: of two characters that are no tokens */
};
enum { SPM_N = SPM_WORDS + (int)(sizeof spm_words / sizeof spm_words[0]) };

/* Fills tokens[SPM_N]; `texts` is room for the byte tokens' names. */
static inline void make_spm_tokens(scored_token *tokens, char (*texts)[8])
{
    tokens[SPM_UNKNOWN] = (scored_token){ "<unk>", 0, 2 };
    tokens[SPM_BOS] = (scored_token){ "<s>", 0, 3 };
    tokens[SPM_EOS] = (scored_token){ "</s>", 0, 3 };
    for (int byte = 0; byte < 256; byte++) {
        snprintf(texts[byte], sizeof texts[byte], "<0x%02X>", (unsigned)byte);
        tokens[SPM_BYTES + byte] = (scored_token){ texts[byte], 0, 6 };
    }
    memcpy(tokens + SPM_WORDS, spm_words, sizeof spm_words);
}

#endif
