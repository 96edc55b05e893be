/* Any bytes as the reply of a model: the first chooses the format, the second how the text is cut
 * and what is known. However it is cut, the same comes out; the arguments of whole calls
 * are objects; calls are numbered and nest in nothing; a withdrawn call and what looks like one
 * comes back as text. */
#include "cera.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] = "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"type\":"
                            " \"string\"}}}}, {\"function\": {\"name\": \"get\"}}]";

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_tool_calls: %s\n", what);
    abort();
}

/* What came out, one text for all of a kind and one for the order of events. */
typedef struct heard {
    char *text;
    size_t n, room;
    char last;
    int call; /* that is open, or -1 */
    int n_calls;
    size_t arguments; /* where those of the open call begin in `text` */
    size_t owed;      /* text of an error that must come as content */
    bool thinks_again;
} heard;

static void hear(heard *h, char kind, const char *text, size_t n)
{
    if (h->room - h->n < n + 1) {
        h->room = 2 * h->room + n + 64;
        h->text = realloc(h->text, h->room);
        if (h->text == NULL)
            abort();
    }
    if (kind != h->last)
        h->text[h->n++] = kind;
    h->last = kind;
    if (n > 0)
        memcpy(h->text + h->n, text, n);
    h->n += n;
}

static int on_content(void *user, const char *text, size_t n)
{
    heard *h = user;
    if (h->call >= 0 || n == 0)
        fail("content within a call, or none at all");
    h->owed -= n < h->owed ? n : h->owed;
    hear(h, 'C', text, n);
    return 0;
}

static int on_reasoning(void *user, const char *text, size_t n)
{
    heard *h = user;
    if (h->call >= 0 || n == 0 || (h->n_calls > 0 && !h->thinks_again))
        fail("reasoning out of its place");
    hear(h, 'R', text, n);
    return 0;
}

static int on_call(void *user, int call, const char *name, size_t n)
{
    heard *h = user;
    if (h->call >= 0 || call != h->n_calls || n == 0 || h->owed > 0)
        fail("a call out of its place");
    h->call = h->n_calls++;
    h->last = 0;
    hear(h, 'F', name, n);
    hear(h, '=', "", 0);
    h->arguments = h->n;
    h->last = 'A';
    return 0;
}

static int on_arguments(void *user, int call, const char *json, size_t n)
{
    if (call != ((heard *)user)->call || n == 0)
        fail("arguments of another call");
    hear(user, 'A', json, n);
    return 0;
}

static int on_call_end(void *user, int call)
{
    heard *h = user;
    if (call != h->call)
        fail("the end of another call");
    json_error_t error;
    json_t *root = json_loadb(h->text + h->arguments, h->n - h->arguments, JSON_ALLOW_NUL, &error);
    /* Jansson cannot have a NUL in a key. */
    if (!json_is_object(root) && json_error_code(&error) != json_error_null_byte_in_key)
        fail("arguments that are no object");
    json_decref(root);
    h->call = -1;
    hear(h, ';', "", 0);
    return 0;
}

static int on_error(void *user, const cera_chat_error *error)
{
    heard *h = user;
    if (error->call != h->call || error->message == NULL || error->n_text == 0)
        fail("a faulty error");
    h->call = -1;
    h->owed = error->n_text;
    h->last = 0;
    hear(h, '!', error->message, strlen(error->message));
    return 0;
}

static void listen(const cera_chat_parser_options *options, const char *text, size_t n, size_t cut,
                   heard *h)
{
    *h = (heard){ .call = -1, .thinks_again = strcmp(options->format, "harmony") == 0 };
    const cera_chat_sink sink = { on_content,  on_reasoning, on_call, on_arguments,
                                  on_call_end, on_error,     h };
    cera_chat_parser *parser = NULL;
    if (cera_chat_parser_new(options, &sink, &parser, NULL) != CERA_OK)
        fail("no parser");
    for (size_t i = 0; i < n;) {
        size_t part = cut == 0 ? n : 1 + (i * 7 + cut) % cut;
        part = part < n - i ? part : n - i;
        /* A block of this size, so that a read past its end is one past a block. */
        char *exact = malloc(part);
        if (exact == NULL)
            abort();
        memcpy(exact, text + i, part);
        if (cera_chat_parser_push(parser, exact, part, NULL) != CERA_OK)
            fail("a push has failed");
        free(exact);
        i += part;
    }
    if (cera_chat_parser_finish(parser, NULL) != CERA_OK || h->call >= 0 || h->owed > 0)
        fail("something is missing at the end");
    cera_chat_parser_free(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The corpus counts them: others come at the end. */
    static const char *const formats[] = {
        "lfm2",     "xml",      "hermes",    "llama3",      "mistral",
        "granite",  "none",     "glm",       "deepseek",    "deepseek-r1",
        "kimi",     "harmony",  "minimax",   "dsml",        "cohere",
        "nemotron", "phi4",     "seed",      "functionary", "functionary-3.2",
        "minicpm",  "dsml-v4",  "apriel",    "hy3",         "solar",
        "apertus",  "gigachat", "command-r", "gemma4",      "kimi-k3",
    };
    enum { N_FORMATS = sizeof formats / sizeof formats[0] };
    if (cera_chat_format_name(N_FORMATS - 1) == NULL || cera_chat_format_name(N_FORMATS) != NULL)
        fail("a format is missing here, or too much");
    if (size < 2)
        return 0;
    cera_chat_parser_options options;
    cera_chat_parser_options_init(&options);
    options.format = formats[data[0] % N_FORMATS];
    const unsigned how = data[1] / 16u;
    options.tools = (how & 1) != 0 ? tools : NULL;
    options.no_reasoning = (how & 2) != 0;
    options.prompt = (how & 4) != 0 ? "<think>\n" : NULL;
    options.n_prompt = options.prompt != NULL ? strlen(options.prompt) : 0;
    const char *text = (const char *)data + 2;
    const size_t n = size - 2;
    heard whole, cut;
    listen(&options, text, n, 0, &whole);
    listen(&options, text, n, 1 + data[1] % 16u, &cut);
    if (whole.n != cut.n || (cut.n > 0 && memcmp(whole.text, cut.text, cut.n) != 0))
        fail("the cut makes a difference");
    free(whole.text);
    free(cut.text);
    return 0;
}
