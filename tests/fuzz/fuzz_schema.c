/* Any bytes as a JSON Schema. What compiles can be matched, compiles again as GBNF, and accepts
 * only texts that Jansson reads. */
#include "cera.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_schema: %s\n", what);
    abort();
}

/* A text made by taking one of the bytes that may follow, steered by the input's own bytes. */
static void make_text(cera_grammar *g, const uint8_t *data, size_t size)
{
    cera_grammar_state *s, *probe;
    if (cera_grammar_state_new(g, &s, NULL) != CERA_OK)
        return;
    if (cera_grammar_state_new(g, &probe, NULL) == CERA_OK) {
        char text[128];
        size_t n = 0;
        bool complete = false;
        while (n < sizeof text && !complete) {
            complete = cera_grammar_state_is_complete(s);
            unsigned first = n < size ? data[n] : '"';
            int found = -1;
            for (unsigned i = 0; i < 256 && found < 0 && !complete; i++) {
                char c = (char)((first + i) & 0xff);
                if (cera_grammar_state_set(probe, s, NULL) == CERA_OK &&
                    cera_grammar_state_read_text(probe, &c, 1, NULL) == CERA_OK)
                    found = (unsigned char)c;
            }
            if (complete || found < 0)
                break;
            text[n] = (char)found;
            if (cera_grammar_state_read_text(s, text + n++, 1, NULL) != CERA_OK)
                fail("a byte was accepted and then refused");
        }
        if (complete) {
            json_error_t error;
            json_t *value = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
            if (value == NULL && strstr(error.text, "too big") == NULL &&
                strstr(error.text, "overflow") == NULL)
                fail("a text of the grammar is not JSON");
            json_decref(value);
        }
        cera_grammar_state_free(probe);
    }
    cera_grammar_state_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int way = 0; way < 2; way++) {
        cera_grammar_options options;
        cera_grammar_options_init(&options);
        options.lenient = way == 1;
        options.any_order = way == 1;
        options.max_blanks = way == 1 ? 0 : 20;
        cera_grammar *g, *again;
        if (cera_grammar_from_schema((const char *)data, size, NULL, &options, &g, NULL) != CERA_OK)
            continue;
        size_t n;
        const char *text = cera_grammar_text(g, &n);
        cera_error err;
        if (n <= 65536) {
            if (cera_grammar_from_gbnf(text, n, NULL, NULL, &again, &err) != CERA_OK)
                fail(err.message);
            cera_grammar_free(again);
        }
        make_text(g, data, size);
        cera_grammar_free(g);
    }
    return 0;
}
