/* grammar: look at a grammar without generating text under it. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/constraint.h"
#include "cli/inputs.h"
#include "cli/out.h"
#include "cli/report.h"
#include "common/bytes.h"

#include <string.h>

/* ---- check ------------------------------------------------------------------------------- */

static int check(const cli_args *args, cera_grammar *grammar)
{
    cera_grammar_state *state;
    cera_error err;
    if (cera_grammar_state_new(grammar, &state, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot match texts", &err);
    int code = EXIT_OK;
    for (size_t i = 1; i < args->n_positional; i++) {
        const char *text = args->positional[i];
        const char *result = "accepted";
        cera_status status = cera_grammar_state_reset(state, &err);
        if (status == CERA_OK)
            status = cera_grammar_state_read_text(state, text, strlen(text), &err);
        if (status != CERA_OK)
            result = err.message;
        else if (!cera_grammar_state_is_complete(state))
            result = "unfinished";
        if (strcmp(result, "accepted") != 0)
            code = EXIT_CONSTRAINT;
        if (wants_json(args)) {
            out_json(json_pack("{s:s, s:o, s:b, s:s}", "schema", "cera.grammar/1", "text",
                               json_text(text, strlen(text)), "accepted",
                               strcmp(result, "accepted") == 0, "result", result));
            continue;
        }
        bytes line = { 0 };
        bytes_text(&line, "\"");
        bytes_append_escaped(&line, text, strlen(text), true);
        bytes_printf(&line, "\": %s\n", result);
        out_write(line.data, line.size);
        bytes_done(&line);
    }
    cera_grammar_state_free(state);
    return code;
}

/* ---- sample ------------------------------------------------------------------------------ */

/* Behind this many bytes a sample takes what closes something, where it can. */
enum { SOFT_END = 400, HARD_END = 200000 };

static uint64_t next_random(uint64_t *state)
{
    /* SplitMix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

typedef struct sampling {
    const cera_vocab *vocab; /* NULL: byte by byte */
    cera_grammar_state *state, *probe;
    uint64_t random;
    size_t n_tokens;
} sampling;

/* What is wanted next: anything, a plain character, or what closes something. */
typedef enum wish { ANYTHING, PLAIN, CLOSING } wish;

/* How much these bytes are wanted: the higher, the more. */
static int rank_of(const char *piece, size_t n, wish wanted)
{
    if (wanted != CLOSING)
        return wanted == PLAIN && n == 1 && piece[0] >= ' ' && piece[0] <= '~' ? 1 : 0;
    static const char order[] = "[{\\,x0}]\"";
    const char *found = n > 0 && piece[0] != '\0' ? strchr(order, piece[0]) : NULL;
    return found != NULL ? (int)(found - order) : 4;
}

/* One of the bytes that may follow, each as probable as the others; -1: none. */
static int choose_byte(sampling *s, wish wanted, cera_error *err)
{
    int chosen = -1, best = -1;
    uint64_t n = 0;
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        if (cera_grammar_state_set(s->probe, s->state, err) != CERA_OK ||
            cera_grammar_state_read_text(s->probe, &text, 1, err) != CERA_OK)
            continue;
        int rank = rank_of(&text, 1, wanted);
        n = rank > best ? 0 : n;
        if (rank < best)
            continue;
        best = rank;
        if (next_random(&s->random) % ++n == 0)
            chosen = byte;
    }
    return chosen;
}

/* The same of tokens; end tokens are not among them. */
static int32_t choose_token(sampling *s, wish wanted, cera_error *err)
{
    const uint64_t *bits;
    if (cera_grammar_state_mask(s->state, &bits, err) != CERA_OK)
        return -1;
    int32_t chosen = -1;
    int best = -1;
    uint64_t n = 0;
    for (size_t id = 0; id < s->n_tokens; id++) {
        if ((bits[id / 64] >> (id % 64) & 1) == 0 || cera_vocab_is_end(s->vocab, (int32_t)id))
            continue;
        size_t size = 0;
        const char *piece = cera_vocab_piece(s->vocab, (int32_t)id, &size);
        int rank = rank_of(piece, size, wanted);
        n = rank > best ? 0 : n;
        if (rank < best)
            continue;
        best = rank;
        if (next_random(&s->random) % ++n == 0)
            chosen = (int32_t)id;
    }
    return chosen;
}

/* One text of the grammar. False, after an error, when it does not end. */
static bool sample_text(sampling *s, bytes *text)
{
    cera_error err;
    cera_status status = cera_grammar_state_reset(s->state, &err);
    int32_t previous = -1;
    /* Steps are counted, not bytes: there are tokens without any. */
    for (int i = 0; status == CERA_OK && text->size < HARD_END && i < HARD_END; i++) {
        bool complete = cera_grammar_state_is_complete(s->state);
        bool is_long = text->size > SOFT_END;
        /* Not each time: what closes a string closes nothing where a pattern wants more. */
        wish wanted = is_long ? (wish)(next_random(&s->random) % 3) : ANYTHING;
        if (cera_grammar_state_is_at_end(s->state) ||
            (complete && (is_long || next_random(&s->random) % 8 == 0)))
            return true;
        if (s->vocab == NULL) {
            int byte = choose_byte(s, wanted, &err);
            if (byte < 0)
                break;
            char c = (char)byte;
            bytes_append(text, &c, 1);
            status = cera_grammar_state_read_text(s->state, &c, 1, &err);
            continue;
        }
        int32_t id = choose_token(s, wanted, &err);
        if (id < 0) {
            if (complete)
                return true;
            break;
        }
        size_t n = 0;
        const char *piece = cera_vocab_piece_after(s->vocab, previous, id, &n);
        bytes_append(text, piece, n);
        status = cera_grammar_state_read(s->state, id, &err);
        previous = id;
    }
    report_error(EXIT_CONSTRAINT, "cannot make a text of the grammar",
                 status != CERA_OK ? err.message : "it does not come to an end", NULL);
    return false;
}

static int sample(const cli_args *args, const cera_vocab *vocab, cera_grammar *grammar)
{
    sampling s = { .vocab = vocab };
    if (vocab != NULL) {
        cera_vocab_info info;
        cera_vocab_get_info(vocab, &info);
        s.n_tokens = info.n_tokens;
    }
    cera_error err;
    int code = EXIT_OK;
    if (cera_grammar_state_new(grammar, &s.state, &err) != CERA_OK ||
        cera_grammar_state_new(grammar, &s.probe, &err) != CERA_OK)
        code = report_failure(WHILE_RUNNING, "cannot make texts", &err);
    int64_t n = is_set(args, OPT_SAMPLES) ? args->option[OPT_SAMPLES].integer : 1;
    s.random = args->option[OPT_SEED].seed;
    bool is_read = true;
    for (int64_t i = 0; i < n && code == EXIT_OK && is_read; i++) {
        bytes text = { 0 };
        bytes_append(&text, "", 0);
        if (!sample_text(&s, &text))
            code = EXIT_CONSTRAINT;
        else if (wants_json(args))
            is_read = out_json(json_pack("{s:s, s:o}", "schema", "cera.grammar/1", "text",
                                         json_text(text.data, text.size)));
        else
            bytes_text(&text, "\n");
        if (code == EXIT_OK && !wants_json(args))
            is_read = out_write(text.data, text.size);
        bytes_done(&text);
    }
    cera_grammar_state_free(s.state);
    cera_grammar_state_free(s.probe);
    return code;
}

/* ---- the command ------------------------------------------------------------------------- */

static int run_action(const cli_args *args, const cera_vocab *vocab)
{
    const char *action = args->positional[0];
    bool takes_texts = strcmp(action, "check") == 0;
    if (!takes_texts && args->n_positional > 1)
        return report_error(EXIT_USAGE, "only check takes texts", NULL,
                            command_table[CMD_GRAMMAR].example);
    cera_grammar *grammar;
    int code = constraint_open(args, vocab, &grammar);
    if (code != EXIT_OK)
        return code;
    if (takes_texts) {
        code = check(args, grammar);
    } else if (strcmp(action, "sample") == 0) {
        code = sample(args, vocab, grammar);
    } else {
        size_t n;
        const char *text = cera_grammar_text(grammar, &n);
        out_write(text, n);
    }
    cera_grammar_free(grammar);
    return code;
}

int command_GRAMMAR(const cli_args *args)
{
    static const char *const actions[] = { "check", "sample", "to-gbnf" };
    bool known = false;
    for (size_t i = 0; i < 3 && args->n_positional > 0; i++)
        known = known || strcmp(args->positional[0], actions[i]) == 0;
    if (!known)
        return report_error(EXIT_USAGE, "no action is named that grammar knows",
                            "expected check, sample or to-gbnf",
                            command_table[CMD_GRAMMAR].example);
    if (!constraint_is_set(args))
        return report_error(EXIT_USAGE, "no grammar is given", NULL,
                            command_table[CMD_GRAMMAR].example);
    /* A model lends its vocabulary only. */
    cera_vocab *vocab = NULL;
    if (is_set(args, OPT_MODEL)) {
        int code = model_open_vocab(args, args->option[OPT_MODEL].text, &vocab);
        if (code != EXIT_OK)
            return code;
    }
    int code = run_action(args, vocab);
    cera_vocab_free(vocab);
    return code;
}
