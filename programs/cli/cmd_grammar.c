/* grammar: look at a grammar without generating text under it. */
#define _DEFAULT_SOURCE
#include "cera.h"
#include "cli/cli.h"
#include "cli/constraint.h"
#include "cli/inputs.h"
#include "cli/out.h"
#include "cli/report.h"
#include "common/bytes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- check ------------------------------------------------------------------------------- */

/* What is the matter with a text; NULL: it is of the grammar. */
static const char *find_fault(cera_grammar_state *state, const char *text, size_t n,
                              cera_error *err)
{
    cera_status status = cera_grammar_state_reset(state, err);
    if (status == CERA_OK)
        status = cera_grammar_state_read_text(state, text, n, err);
    if (status != CERA_OK)
        return err->message;
    return cera_grammar_state_is_complete(state) ? NULL : "unfinished";
}

/* name: what the text is called; NULL: it stands for itself. */
static int check_text(const cli_args *args, cera_grammar_state *state, const char *name,
                      const char *text, size_t n)
{
    cera_error err;
    const char *fault = find_fault(state, text, n, &err);
    /* The line feed at the end of a file is part of the text only where the grammar wants it. */
    if (fault != NULL && name != NULL && text[n - 1] == '\n')
        fault = find_fault(state, text, --n, &err);
    const char *result = fault != NULL ? fault : "accepted";
    if (wants_json(args)) {
        out_json(json_pack("{s:s, s:o, s:b, s:s}", "schema", "cera.grammar/1", "text",
                           json_text(text, n), "accepted", fault == NULL, "result", result));
    } else {
        bytes line = { 0 };
        bytes_text(&line, name != NULL ? name : "\"");
        if (name == NULL)
            bytes_append_escaped(&line, text, n, true);
        bytes_printf(&line, "%s: %s\n", name != NULL ? "" : "\"", result);
        out_write(line.data, line.size);
        bytes_done(&line);
    }
    return fault == NULL ? EXIT_OK : EXIT_CONSTRAINT;
}

static int check_stdin(const cli_args *args, cera_grammar_state *state)
{
    prompt given;
    int code = prompt_from_file("-", &given);
    if (code == EXIT_OK && given.size == 0)
        code = report_error(EXIT_USAGE, "there is no text to check", "standard input is empty",
                            command_table[CMD_GRAMMAR].example);
    if (code == EXIT_OK)
        code = check_text(args, state, "standard input", given.text, given.size);
    prompt_done(&given);
    return code;
}

static int check(const cli_args *args, cera_grammar *grammar)
{
    if (args->n_positional == 1 && isatty(STDIN_FILENO) == 1)
        return report_error(EXIT_USAGE, "there is no text to check", NULL,
                            command_table[CMD_GRAMMAR].example);
    cera_grammar_state *state;
    cera_error err;
    if (cera_grammar_state_new(grammar, &state, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot match texts", &err);
    int code = args->n_positional == 1 ? check_stdin(args, state) : EXIT_OK;
    for (size_t i = 1; i < args->n_positional && (code == EXIT_OK || code == EXIT_CONSTRAINT);
         i++) {
        const char *text = args->positional[i];
        const int now = strcmp(text, "-") == 0 ? check_stdin(args, state)
                                               : check_text(args, state, NULL, text, strlen(text));
        code = now != EXIT_OK ? now : code;
    }
    cera_grammar_state_free(state);
    return code;
}

/* ---- sample ------------------------------------------------------------------------------ */

/* Behind this many bytes a sample takes the shortest way to an end; behind more it has failed. */
enum { SOFT_END = 400, HARD_END = 200000 };

static uint64_t next_random(uint64_t *state)
{
    /* SplitMix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* What the parser finds in a text of calls. */
typedef struct found {
    bytes content, name, arguments;
    json_t *calls;
    const char *error;
} found;

static int on_content(void *user, const char *text, size_t n)
{
    bytes_append(&((found *)user)->content, text, n);
    return 0;
}

static int on_call(void *user, int call, const char *name, size_t n)
{
    found *f = user;
    (void)call;
    f->name.size = f->arguments.size = 0;
    bytes_append(&f->name, name, n);
    return 0;
}

static int on_arguments(void *user, int call, const char *json, size_t n)
{
    (void)call;
    bytes_append(&((found *)user)->arguments, json, n);
    return 0;
}

static int on_call_end(void *user, int call)
{
    found *f = user;
    (void)call;
    json_array_append_new(f->calls,
                          json_pack("{s:o, s:o}", "name", json_text(f->name.data, f->name.size),
                                    "arguments", json_text(f->arguments.data, f->arguments.size)));
    return 0;
}

static int on_error(void *user, const cera_chat_error *error)
{
    ((found *)user)->error = error->message;
    return 0;
}

static int add_calls(json_t *line, const char *tools, const char *format, const bytes *text)
{
    found f = { .calls = json_array() };
    const cera_chat_sink sink = { .on_content = on_content,
                                  .on_call = on_call,
                                  .on_arguments = on_arguments,
                                  .on_call_end = on_call_end,
                                  .on_error = on_error,
                                  .user = &f };
    cera_chat_parser_options options;
    cera_chat_parser_options_init(&options);
    options.format = format;
    options.tools = tools;
    options.no_reasoning = true;
    cera_chat_parser *parser = NULL;
    cera_error err;
    cera_status status = cera_chat_parser_new(&options, &sink, &parser, &err);
    if (status == CERA_OK)
        status = cera_chat_parser_push(parser, text->data, text->size, &err);
    if (status == CERA_OK)
        status = cera_chat_parser_finish(parser, &err);
    cera_chat_parser_free(parser);
    bytes_text(&f.content, "");
    json_object_set_new(line, "content", json_text(f.content.data, f.content.size));
    json_object_set_new(line, "tool_calls", f.calls);
    if (f.error != NULL)
        json_object_set_new(line, "error", json_string(f.error));
    bytes_done(&f.content);
    bytes_done(&f.name);
    bytes_done(&f.arguments);
    return status == CERA_OK ? EXIT_OK
                             : report_failure(WHILE_RUNNING, "cannot read the calls", &err);
}

typedef struct sampling {
    const cera_vocab *vocab; /* NULL: byte by byte */
    cera_grammar_state *state, *probe;
    uint64_t random;
    size_t n_tokens;
} sampling;

/* One of the bytes that may follow, each as probable as the others; with `closing` one that brings
 * the end nearer. -1: none. */
static int choose_byte(sampling *s, bool closing, cera_error *err)
{
    size_t distance = 0, left = 0;
    if (closing && cera_grammar_state_distance(s->state, &distance, err) != CERA_OK)
        return -1;
    const int first = (int)(next_random(&s->random) % 256);
    int chosen = -1;
    uint64_t n = 0;
    for (int i = 0; i < 256; i++) {
        const unsigned char byte = (unsigned char)(first + i);
        const char text = (char)byte;
        if (cera_grammar_state_set(s->probe, s->state, err) != CERA_OK ||
            cera_grammar_state_read_text(s->probe, &text, 1, err) != CERA_OK)
            continue;
        if (!closing)
            chosen = next_random(&s->random) % ++n == 0 ? byte : chosen;
        else if (cera_grammar_state_distance(s->probe, &left, err) == CERA_OK && left < distance)
            return byte;
    }
    return chosen;
}

/* Whether the token brings the end nearer. A byte that does is known, and spares most a trial. */
static bool is_closing(sampling *s, int32_t id, int byte, size_t distance)
{
    size_t n = 0, left = 0;
    const char *piece = cera_vocab_piece(s->vocab, id, &n);
    if (byte >= 0 && n > 0 && (unsigned char)piece[0] != byte)
        return false;
    return cera_grammar_state_set(s->probe, s->state, NULL) == CERA_OK &&
           cera_grammar_state_read(s->probe, id, NULL) == CERA_OK &&
           cera_grammar_state_distance(s->probe, &left, NULL) == CERA_OK && left < distance;
}

/* The same of tokens; end tokens are not among them. */
static int32_t choose_token(sampling *s, bool closing, cera_error *err)
{
    size_t distance = 0;
    const uint64_t *bits;
    if (cera_grammar_state_distance(s->state, &distance, err) != CERA_OK)
        return -1;
    const int byte = closing ? choose_byte(s, true, err) : -1;
    if (cera_grammar_state_mask(s->state, &bits, err) != CERA_OK)
        return -1;
    int32_t chosen = -1;
    uint64_t n = 0;
    for (int32_t id = 0; (size_t)id < s->n_tokens; id++) {
        if ((bits[id / 64] >> (id % 64) & 1) == 0 || cera_vocab_is_end(s->vocab, id) ||
            (closing && !is_closing(s, id, byte, distance)))
            continue;
        if (next_random(&s->random) % ++n == 0)
            chosen = id;
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
        if (cera_grammar_state_is_at_end(s->state) ||
            (complete && (is_long || next_random(&s->random) % 8 == 0)))
            return true;
        if (s->vocab == NULL) {
            int byte = choose_byte(s, is_long, &err);
            if (byte < 0)
                break;
            char c = (char)byte;
            bytes_append(text, &c, 1);
            status = cera_grammar_state_read_text(s->state, &c, 1, &err);
            continue;
        }
        int32_t id = choose_token(s, is_long, &err);
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

static int sample(const cli_args *args, const cera_vocab *vocab, const char *tools,
                  cera_grammar *grammar)
{
    const char *format = args->option[OPT_TOOL_FORMAT].text;
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
        json_t *line = NULL;
        if (!sample_text(&s, &text))
            code = EXIT_CONSTRAINT;
        else if (wants_json(args))
            line = json_pack("{s:s, s:o}", "schema", "cera.grammar/1", "text",
                             json_text(text.data, text.size));
        else
            bytes_text(&text, "\n");
        if (line != NULL && tools != NULL)
            code = add_calls(line, tools, format, &text);
        if (line != NULL)
            is_read = out_json(line);
        else if (code == EXIT_OK)
            is_read = out_write(text.data, text.size);
        bytes_done(&text);
    }
    cera_grammar_state_free(s.state);
    cera_grammar_state_free(s.probe);
    return code;
}

/* ---- the command ------------------------------------------------------------------------- */

/* The grammar of a format's calls; *text: the list of tools, to be freed. */
static int open_tools(const cli_args *args, const cera_vocab *vocab, char **text,
                      cera_grammar **out)
{
    const char *format = args->option[OPT_TOOL_FORMAT].text;
    const char *choice = args->option[OPT_TOOL_CHOICE].text;
    if (format == NULL || constraint_is_set(args))
        return report_error(EXIT_USAGE,
                            format == NULL ? "the format of the calls is not named"
                                           : "two grammars are given",
                            NULL, format == NULL ? "--tool-format" : "one of the two");
    prompt given = { 0 };
    int code = prompt_or_file(args->option[OPT_TOOLS].text, &given);
    *text = given.text; /* taken */
    if (code != EXIT_OK)
        return code;
    const call_constraint calls = { .tools = *text,
                                    .format = format,
                                    .choice = choice != NULL ? choice : "required",
                                    .vocab = vocab };
    return constraint_open_tools(args, &calls, out);
}

static int run_action(const cli_args *args, const cera_vocab *vocab)
{
    const char *action = args->positional[0];
    bool takes_texts = strcmp(action, "check") == 0;
    if (!takes_texts && args->n_positional > 1)
        return report_error(EXIT_USAGE, "only check takes texts", NULL,
                            command_table[CMD_GRAMMAR].example);
    cera_grammar *grammar = NULL;
    char *tools = NULL;
    int code = is_set(args, OPT_TOOLS) ? open_tools(args, vocab, &tools, &grammar)
                                       : constraint_open(args, vocab, &grammar);
    if (code == EXIT_OK && takes_texts) {
        code = check(args, grammar);
    } else if (code == EXIT_OK && strcmp(action, "sample") == 0) {
        code = sample(args, vocab, tools, grammar);
    } else if (code == EXIT_OK) {
        size_t n;
        const char *text = cera_grammar_text(grammar, &n);
        out_write(text, n);
    }
    cera_grammar_free(grammar);
    free(tools);
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
    if (!constraint_is_set(args) && !is_set(args, OPT_TOOLS))
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
