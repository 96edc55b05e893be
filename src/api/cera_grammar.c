/* cera_grammar: check arguments, forward. */
#include "api/check.h"
#include "api/objects.h"
#include "chat/tool_grammar.h"
#include "grammar/gbnf.h"
#include "grammar/schema.h"

/* Of a schema, compiled: it is larger than what people write. */
enum { MAX_COMPILED = 8 << 20 };

struct cera_grammar_state {
    cera_grammar *grammar; /* retained */
    cr_matcher *matcher;
    int32_t previous; /* the last token, -1: none, or text came after it */
    uint32_t *ends;   /* for cera_grammar_state_distance; NULL until that is asked for */
};

void cera_grammar_options_init(cera_grammar_options *options)
{
    *options = (cera_grammar_options){ .size = sizeof *options, .max_blanks = 20 };
}

/* The tokens of a vocabulary, made when the first grammar wants them. Two threads may both make
 * them; the later one's are dropped. */
static cera_status get_table(const cera_vocab *vocab, const cr_token_table **out, cera_error *err)
{
    cera_vocab *owner = (cera_vocab *)vocab; /* no vocabulary is const where it is made */
    cr_token_table *table = atomic_load(&owner->table);
    if (!table) {
        cr_token_table *other = NULL;
        CR_TRY(cr_token_table_new(vocab->vocab, vocab->host, &table, err));
        if (!atomic_compare_exchange_strong(&owner->table, &other, table)) {
            cr_token_table_free(table);
            table = other;
        }
    }
    *out = table;
    return CERA_OK;
}

/* What is given to all that make a grammar. */
static cera_status check(const char *text, size_t n, int max_blanks, cera_grammar **out,
                         cera_error *err)
{
    if (out == NULL)
        return cr_fail(err, CERA_E_ARG, "out: expected a place for the grammar, found NULL");
    if (text == NULL && n > 0)
        return cr_fail(err, CERA_E_ARG, "text: expected %zu bytes, found NULL", n);
    if (max_blanks < 0 || max_blanks > 64)
        return cr_fail(err, CERA_E_ARG, "max_blanks: expected 0 to 64, found %d", max_blanks);
    return CERA_OK;
}

static cera_status check_options(const cera_grammar_options *options, cera_error *err)
{
    CR_TRY(cr_check_size(options->size, sizeof *options, err));
    const char *tag = options->end_tag;
    if (tag != NULL && (tag[0] != '<' || strlen(tag) > CR_SCHEMA_MAX_TAG))
        return cr_fail(err, CERA_E_ARG, "end_tag: expected < and at most %d bytes, found \"%.80s\"",
                       CR_SCHEMA_MAX_TAG, tag);
    return CERA_OK;
}

/* The host of a grammar: the caller's, the vocabulary's, the default one. */
static cera_host host_of(const cera_vocab *vocab, const cera_host *wanted)
{
    cera_host host;
    cera_host_init(&host);
    if (wanted != NULL)
        return *wanted;
    if (vocab != NULL) {
        host.allocator = vocab->host->allocator;
        host.os = vocab->host->os;
        host.log = vocab->host->log;
        host.log_ctx = vocab->host->log_ctx;
    }
    return host;
}

static cera_status make(cr_str text, size_t max_size, const cera_vocab *vocab,
                        const cera_host *host, cera_grammar **out, cera_error *err)
{
    cr_grammar_source source = { .text = text,
                                 .max_size = max_size,
                                 .is_made = max_size > CR_GBNF_MAX_TEXT };
    if (vocab != NULL) {
        source.vocab = vocab->vocab;
        CR_TRY(get_table(vocab, &source.table, err));
    }
    return cr_grammar_new(&source, host, out, err);
}

cera_status cera_grammar_from_gbnf(const char *text, size_t n, const cera_vocab *vocab,
                                   const cera_grammar_options *options, cera_grammar **out,
                                   cera_error *err)
{
    cera_grammar_options defaults;
    cera_grammar_options_init(&defaults);
    options = options != NULL ? options : &defaults;
    CR_TRY(check_options(options, err));
    CR_TRY(check(text, n, options->max_blanks, out, err));
    cera_host host = host_of(vocab, options->host);
    return make((cr_str){ n > 0 ? text : "", n }, CR_GBNF_MAX_TEXT, vocab, &host, out, err);
}

cera_status cera_grammar_from_schema(const char *text, size_t n, const cera_vocab *vocab,
                                     const cera_grammar_options *options, cera_grammar **out,
                                     cera_error *err)
{
    cera_grammar_options defaults;
    cera_grammar_options_init(&defaults);
    options = options != NULL ? options : &defaults;
    CR_TRY(check_options(options, err));
    CR_TRY(check(text, n, options->max_blanks, out, err));
    cera_host host = host_of(vocab, options->host);
    cr_host scratch;
    CR_TRY(cr_host_set(&scratch, &host, err));
    cr_buf gbnf;
    cr_arena arena;
    cr_buf_init(&gbnf, &scratch, CR_MEM_SCRATCH);
    cr_arena_init(&arena, &scratch, CR_MEM_SCRATCH);
    const cr_schema_options how = {
        .lenient = options->lenient,
        .any_order = options->any_order,
        .max_blanks = options->max_blanks,
        .end_tag = options->end_tag,
    };
    const cr_json *schema;
    cera_status status = cr_schema_read((cr_str){ n > 0 ? text : "", n }, &arena, &schema, err);
    if (status == CERA_OK)
        status = cr_schema_to_gbnf(schema, schema, &how, &scratch, &gbnf, err);
    if (status == CERA_OK)
        status = make((cr_str){ gbnf.data, gbnf.size }, MAX_COMPILED, vocab, &host, out, err);
    cr_arena_done(&arena);
    cr_buf_done(&gbnf);
    return status;
}

void cera_tool_grammar_options_init(cera_tool_grammar_options *options)
{
    *options = (cera_tool_grammar_options){ .size = sizeof *options, .max_blanks = 20 };
}

cera_status cera_grammar_from_tools(const char *tools, size_t n, const cera_vocab *vocab,
                                    const cera_tool_grammar_options *options, cera_grammar **out,
                                    cera_error *err)
{
    cera_tool_grammar_options defaults;
    cera_tool_grammar_options_init(&defaults);
    options = options != NULL ? options : &defaults;
    CR_TRY(cr_check_size(options->size, sizeof *options, err));
    CR_TRY(check(tools, n, options->max_blanks, out, err));
    if (options->choice < CERA_TOOL_AUTO || options->choice > CERA_TOOL_NONE)
        return cr_fail(err, CERA_E_ARG, "choice: expected 0 to %d, found %d", CERA_TOOL_NONE,
                       (int)options->choice);
    cr_tool_grammar_options how = {
        .vocab = vocab != NULL ? vocab->vocab : NULL,
        .choice = options->choice,
        .only = options->only,
        .prompt = { options->prompt, options->prompt != NULL ? options->n_prompt : 0 },
        .single_call = options->single_call,
        .lenient = options->lenient,
        .max_blanks = options->max_blanks,
    };
    CR_TRY(cr_check_format(options->format, options->tmpl, options->arch, &how.format, err));
    cera_host host = host_of(vocab, options->host);
    cr_host scratch;
    CR_TRY(cr_host_set(&scratch, &host, err));
    cr_buf gbnf;
    cr_buf_init(&gbnf, &scratch, CR_MEM_SCRATCH);
    cera_status status =
        cr_tool_grammar_to_gbnf((cr_str){ n > 0 ? tools : "", n }, &how, &scratch, &gbnf, err);
    if (status == CERA_OK)
        status = make((cr_str){ gbnf.data, gbnf.size }, MAX_COMPILED, vocab, &host, out, err);
    cr_buf_done(&gbnf);
    return status;
}

cera_grammar *cera_grammar_retain(cera_grammar *grammar)
{
    return cr_grammar_retain(grammar);
}

void cera_grammar_free(cera_grammar *grammar)
{
    cr_grammar_release(grammar);
}

const char *cera_grammar_text(const cera_grammar *grammar, size_t *n)
{
    if (n != NULL)
        *n = grammar != NULL ? grammar->n_text : 0;
    return grammar != NULL ? grammar->text : "";
}

/* ---- states ------------------------------------------------------------------------------ */

cera_status cera_grammar_state_new(cera_grammar *grammar, cera_grammar_state **out, cera_error *err)
{
    if (grammar == NULL || out == NULL)
        return cr_fail(err, CERA_E_ARG, "grammar state: expected a grammar and out, found NULL");
    cera_grammar_state *state = cr_alloc_zero(&grammar->host, CR_MEM_OBJECT, sizeof *state);
    if (state == NULL)
        return cr_fail_nomem(err, sizeof *state, "a grammar's state");
    cera_status status = cr_grammar_take(grammar, &state->matcher, err);
    if (status != CERA_OK) {
        cr_free(&grammar->host, CR_MEM_OBJECT, state, sizeof *state);
        return status;
    }
    state->grammar = cr_grammar_retain(grammar);
    state->previous = -1;
    *out = state;
    return CERA_OK;
}

void cera_grammar_state_free(cera_grammar_state *state)
{
    if (state == NULL)
        return;
    cera_grammar *grammar = state->grammar;
    cr_grammar_give(grammar, state->matcher);
    if (state->ends != NULL)
        cr_free(&grammar->host, CR_MEM_OBJECT, state->ends, cr_ends_bytes(grammar->automaton));
    cr_free(&grammar->host, CR_MEM_OBJECT, state, sizeof *state);
    cr_grammar_release(grammar);
}

cera_status cera_grammar_state_set(cera_grammar_state *to, const cera_grammar_state *from,
                                   cera_error *err)
{
    if (to == NULL || from == NULL || to->grammar != from->grammar)
        return cr_fail(err, CERA_E_ARG, "grammar state: expected two of one grammar");
    if (to == from)
        return CERA_OK;
    CR_TRY(cr_matcher_move(to->matcher, from->matcher, err));
    to->previous = from->previous;
    return CERA_OK;
}

cera_status cera_grammar_state_reset(cera_grammar_state *state, cera_error *err)
{
    if (state == NULL)
        return cr_fail(err, CERA_E_ARG, "grammar state: expected one, found NULL");
    CR_TRY(cr_matcher_reset(state->matcher, err));
    state->previous = -1;
    return CERA_OK;
}

static cera_status want_tokens(const cera_grammar_state *state, cera_error *err)
{
    if (state == NULL)
        return cr_fail(err, CERA_E_ARG, "grammar state: expected one, found NULL");
    if (state->grammar->table == NULL)
        return cr_fail(err, CERA_E_STATE, "grammar: it was made without a vocabulary");
    return CERA_OK;
}

cera_status cera_grammar_state_read(cera_grammar_state *state, int32_t id, cera_error *err)
{
    CR_TRY(want_tokens(state, err));
    CR_TRY(cr_matcher_read_token(state->matcher, state->previous, id, err));
    state->previous = id;
    return CERA_OK;
}

cera_status cera_grammar_state_read_text(cera_grammar_state *state, const char *text, size_t n,
                                         cera_error *err)
{
    if (state == NULL || (text == NULL && n > 0))
        return cr_fail(err, CERA_E_ARG, "grammar state: expected one and a text, found NULL");
    return cr_matcher_read_text(state->matcher, (cr_str){ n > 0 ? text : "", n }, err);
}

cera_status cera_grammar_state_mask(cera_grammar_state *state, const uint64_t **bits,
                                    cera_error *err)
{
    CR_TRY(want_tokens(state, err));
    if (bits == NULL)
        return cr_fail(err, CERA_E_ARG, "bits: expected a place for them, found NULL");
    return cr_matcher_mask(state->matcher, state->previous, bits, err);
}

bool cera_grammar_state_is_complete(const cera_grammar_state *state)
{
    return state != NULL && cr_matcher_is_complete(state->matcher);
}

bool cera_grammar_state_is_at_end(const cera_grammar_state *state)
{
    return state != NULL && cr_matcher_is_at_end(state->matcher);
}

cera_status cera_grammar_state_distance(cera_grammar_state *state, size_t *out, cera_error *err)
{
    if (state == NULL || out == NULL)
        return cr_fail(err, CERA_E_ARG, "grammar state: expected one and a place, found NULL");
    if (state->ends == NULL)
        CR_TRY(cr_ends_new(state->grammar->automaton, &state->grammar->host, &state->ends, err));
    *out = cr_matcher_distance(state->matcher, state->ends);
    return CERA_OK;
}
