/* Any bytes as a template over a fixed conversation, or, behind a NUL, with JSON of their own: it
 * is parsed and rendered within its limits or refused with a message; the same again gives the
 * same; the spans cover the text, which is UTF-8. */
#include "support/fault_host.h"
#include "template/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char messages[] =
    "[{\"role\": \"system\", \"content\": \"Be kind\"},"
    " {\"role\": \"user\", \"content\": \"Gr\\u00f6\\u00dfe <|im_end|>\\n\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"a\", \"function\":"
    " {\"name\": \"f\", \"arguments\": {\"x\": 1.5, \"l\": [1, true, null]}}}]},"
    " {\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"t\"}, {\"type\": \"image\"}]}]";
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\":"
    " {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"number\"}}}}}]";

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_template: %s\n", what);
    abort();
}

static void check_spans(const cr_buf *text, const cr_buf *spans)
{
    size_t at = 0;
    for (size_t i = 0; i < spans->size / sizeof(cera_span); i++) {
        cera_span span;
        memcpy(&span, spans->data + i * sizeof span, sizeof span);
        if (span.start != at || span.size == 0)
            fail("the spans have gaps");
        at += span.size;
    }
    if (at != text->size)
        fail("the spans do not cover the text");
    for (size_t i = 0; i < text->size;) {
        uint32_t code;
        size_t length = cr_utf8_decode(text->data + i, text->size - i, &code);
        if (length == 0)
            fail("the text is not UTF-8");
        i += length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cr_host host;
    cr_host_set(&host, NULL, NULL);
    const uint8_t *cut = size > 0 ? memchr(data, 0, size) : NULL;
    size_t n = cut != NULL ? (size_t)(cut - data) : size;
    cr_str source = { (const char *)data, n }, json = cr_str_from(messages);
    if (cut != NULL)
        json = (cr_str){ (const char *)cut + 1, size - n - 1 };
    cr_template *tmpl = NULL;
    cera_error err = { .message = "" };
    if (cr_template_new(source, &host, &tmpl, &err) != CERA_OK) {
        if (err.status == CERA_OK || err.message[0] == '\0')
            fail("an error without a message");
        return 0;
    }
    static const cr_template_time now = { 2024, 7, 4, 9, 5, 3 };
    cr_template_var vars[] = {
        { "messages", json, false, false },
        { "tools", cr_str_from(tools), false, false },
        { "add_generation_prompt", cr_str_from("true"), false, false },
        { "bos_token", cr_str_from("<s>"), true, false },
        { "eos_token", cr_str_from("</s>"), true, false },
    };
    cr_template_input input = { .vars = vars,
                                .n_vars = 5,
                                .now = &now,
                                .parse_arguments = true,
                                .max_steps = 20000,
                                .max_memory = 4 << 20,
                                .max_output = 1 << 16 };
    cr_buf text[2], spans[2];
    cera_status status[2];
    for (int i = 0; i < 2; i++) {
        cr_buf_init(&text[i], &host, CR_MEM_OBJECT);
        cr_buf_init(&spans[i], &host, CR_MEM_OBJECT);
        status[i] = cr_template_render(tmpl, &input, &text[i], &spans[i], &err);
        if (status[i] != CERA_OK && (err.status != status[i] || err.message[0] == '\0'))
            fail("an error without a message");
        check_spans(&text[i], &spans[i]);
    }
    if (status[0] != status[1] || text[0].size != text[1].size ||
        (text[0].size > 0 && memcmp(text[0].data, text[1].data, text[0].size) != 0))
        fail("the same input gave something else");
    for (int i = 0; i < 2; i++) {
        cr_buf_done(&text[i]);
        cr_buf_done(&spans[i]);
    }
    cr_template_free(tmpl);
    if (cr_host_live(&host) != 0)
        fail("memory is left");
    return 0;
}
