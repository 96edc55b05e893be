/* Pre-tokenizers with PCRE2: compiling a rule, walking over a text.
 *
 * A walk has a level for each step of the rule. A level cuts the piece that it got from the level
 * above, in a text that is known to be UTF-8, so that PCRE2 checks nothing twice. */
#include "token/split.h"

#include "base/pcre.h"

#include <assert.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* ---- rules --------------------------------------------------------------------------------- */

struct cr_split {
    cr_host *host;
    cr_pcre_memory own, scratch;
    bool refused; /* memory of its own; only read while the rule is compiled, by one thread */
    pcre2_general_context *own_context, *scratch_context;
    pcre2_match_context *match_context;
    pcre2_code *steps[CR_SPLIT_STEPS];
    bool has_jit[CR_SPLIT_STEPS];
    int n_steps;
};

static cera_status compile_step(cr_split *split, const cr_split_rule *rule,
                                pcre2_compile_context *context, cera_error *err)
{
    int error = 0, i = split->n_steps;
    PCRE2_SIZE at = 0;
    split->steps[i] = pcre2_compile((PCRE2_SPTR)rule->steps[i], PCRE2_ZERO_TERMINATED,
                                    PCRE2_UTF | PCRE2_UCP, &error, &at, context);
    if (split->steps[i] == NULL && !split->refused)
        return cr_fail(err, CERA_E_UNSUPPORTED,
                       "tokenizer.ggml.pre: pattern %d of %s does not compile with this PCRE2 "
                       "(error %d at %zu)",
                       i + 1, rule->name, error, (size_t)at);
    /* Without JIT (not built in, or a system without executable memory) matching is slower. */
    if (split->steps[i] != NULL) {
        split->n_steps++;
        split->has_jit[i] = pcre2_jit_compile(split->steps[i], PCRE2_JIT_COMPLETE) == 0;
    }
    return split->refused ? cr_fail_nomem(err, 0, "the pre-tokenizer") : CERA_OK;
}

static cera_status compile(cr_split *split, const cr_split_rule *rule, cera_error *err)
{
    split->own_context = pcre2_general_context_create(cr_pcre_get, cr_pcre_release, &split->own);
    split->scratch_context =
        pcre2_general_context_create(cr_pcre_get, cr_pcre_release, &split->scratch);
    if (split->own_context == NULL || split->scratch_context == NULL)
        return cr_fail_nomem(err, 0, "the pre-tokenizer");
    split->match_context = pcre2_match_context_create(split->own_context);
    pcre2_compile_context *context = pcre2_compile_context_create(split->own_context);
    cera_status status = CERA_OK;
    if (split->match_context == NULL || context == NULL)
        status = cr_fail_nomem(err, 0, "the pre-tokenizer");
    if (status == CERA_OK) {
        /* The limits guard against exponential patterns, which ours are not; a long run of white
         * space would meet them. */
        pcre2_set_match_limit(split->match_context, UINT32_MAX);
        while (status == CERA_OK && split->n_steps < CR_SPLIT_STEPS &&
               rule->steps[split->n_steps] != NULL)
            status = compile_step(split, rule, context, err);
    }
    pcre2_compile_context_free(context);
    return status;
}

cera_status cr_split_new(const cr_split_rule *rule, cr_host *host, cr_split **out, cera_error *err)
{
    cr_split *split = cr_alloc_zero(host, CR_MEM_VOCAB, sizeof *split);
    if (split == NULL)
        return cr_fail_nomem(err, sizeof *split, "the pre-tokenizer");
    split->host = host;
    split->own = (cr_pcre_memory){ host, CR_MEM_VOCAB, &split->refused };
    split->scratch = (cr_pcre_memory){ host, CR_MEM_SCRATCH, NULL };
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
    for (int i = 0; i < split->n_steps; i++)
        pcre2_code_free(split->steps[i]);
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
    const cr_split_level none = { .text = { NULL, 0 } };
    for (int i = 0; i < walk->split->n_steps; i++)
        walk->levels[i] = none;
    walk->levels[0].text = text;
}

/* PCRE2's result for the first match at or after the level's place. */
static int search(const cr_split_walk *walk, int i)
{
    const cr_split *split = walk->split;
    const cr_split_level *level = &walk->levels[i];
    PCRE2_SPTR text = (PCRE2_SPTR)level->text.data;
    if (split->has_jit[i]) {
        int result = pcre2_jit_match(split->steps[i], text, level->text.size, level->at,
                                     PCRE2_NO_UTF_CHECK, walk->match, split->match_context);
        if (result != PCRE2_ERROR_JIT_STACKLIMIT)
            return result;
    }
    return pcre2_match(split->steps[i], text, level->text.size, level->at,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, walk->match, split->match_context);
}

/* The next piece of a level that is not at its end: what lies before the next match, or it. */
static cera_status cut(cr_split_walk *walk, int i, cr_str *piece, cera_error *err)
{
    cr_split_level *level = &walk->levels[i];
    if (level->match_end == level->at) {
        int result = search(walk, i);
        if (result == PCRE2_ERROR_NOMEMORY)
            return cr_fail_nomem(err, 0, "splitting text");
        if (result < 0 && result != PCRE2_ERROR_NOMATCH)
            return cr_fail(err, CERA_E_UNSUPPORTED, "text: splitting at byte %zu: PCRE2 error %d",
                           level->at, result);
        const size_t *found = pcre2_get_ovector_pointer(walk->match);
        bool none = result == PCRE2_ERROR_NOMATCH;
        level->match_begin = none ? level->text.size : found[0];
        level->match_end = none ? level->text.size : found[1];
        assert(none || (found[0] >= level->at && found[1] > found[0]));
    }
    size_t end = level->at < level->match_begin ? level->match_begin : level->match_end;
    *piece = (cr_str){ level->text.data + level->at, end - level->at };
    level->at = end;
    return CERA_OK;
}

cera_status cr_split_next(cr_split_walk *walk, cr_str *piece, cera_error *err)
{
    /* Up to a level that has text left, then down again, cutting. */
    int last = walk->split->n_steps - 1, i = last;
    while (i > 0 && walk->levels[i].at == walk->levels[i].text.size)
        i--;
    if (walk->levels[i].at == walk->levels[i].text.size) {
        *piece = (cr_str){ NULL, 0 };
        return CERA_OK;
    }
    for (;; i++) {
        CR_TRY(cut(walk, i, piece, err));
        if (i == last)
            return CERA_OK;
        walk->levels[i + 1] = (cr_split_level){ .text = *piece };
    }
}
