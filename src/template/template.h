/* Chat templates: Jinja2 as Hugging Face's transformers sets it up, from text to a prompt.
 *
 *     text --compile--> cr_template --render(messages, tools, ...)--> text and its spans
 *
 * A template is untrusted code, and what it prints mixes the template's own words, which may spell
 * control tokens, with the words of users, which may not. Every string therefore knows for each
 * byte whether it was written in the template or came in as data, through slicing, joining and
 * replacing; the result is a text and the list of its runs.
 *
 * The reference is Jinja2 3.1.6 with ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, the
 * loopcontrols extension, a `generation` tag that prints its body, tojson = json.dumps(ensure_ascii
 * =False), raise_exception and strftime_now. Where it is bound by Python it is bound by limits
 * here: integers have 64 bits, and work, memory, nesting and output have an end. */
#ifndef CR_TEMPLATE_H
#define CR_TEMPLATE_H

#include "base/arena.h"
#include "base/text.h"

typedef struct cr_template cr_template;

enum {
    CR_TEMPLATE_MAX_SOURCE = 1 << 20, /* bytes */
    CR_TEMPLATE_MAX_INPUT = 64 << 20, /* bytes of a JSON text */
    CR_TEMPLATE_MAX_RANGE = 100000,   /* elements of range(), as in the sandbox */
    CR_TEMPLATE_MAX_CALLS = 64,       /* macros inside each other */
    CR_TEMPLATE_MAX_DEPTH = 1200,     /* nested statements and expressions, while rendering */
    CR_TEMPLATE_MAX_NESTING = 120,    /* the same in the source */
    CR_TEMPLATE_MAX_JSON = 200,       /* nested lists and objects of an input or a value */
};

/* Parses text[0, n), which is copied. Errors are CERA_E_FORMAT and name the line. */
cera_status cr_template_new(cr_str source, cr_host *host, cr_template **out, cera_error *err);
void cr_template_free(cr_template *tmpl);

/* A variable of a rendering: JSON text, or plain text that counts as the template's own (the text
 * of BOS, say, which is a control token by right). */
typedef struct cr_template_var {
    const char *name;
    cr_str value;
    bool is_text; /* else JSON, ... */
    bool is_list; /* ... which has to be a list */
} cr_template_var;

/* What strftime_now prints; the caller looks at its clock. */
typedef struct cr_template_time {
    int year, month, day; /* month and day from 1 */
    int hour, minute, second;
} cr_template_time;

typedef struct cr_template_input {
    const cr_template_var *vars; /* [n_vars]; of equal names the first counts */
    size_t n_vars;
    cr_str extra;                /* a JSON object with more variables, or empty */
    const cr_template_time *now; /* NULL: the function strftime_now is not defined */
    bool parse_arguments; /* tool calls whose arguments are JSON text get them as a mapping */
    size_t max_steps, max_memory, max_output; /* 0: the defaults below */
} cr_template_input;

#define CR_TEMPLATE_STEPS ((size_t)1000000)
#define CR_TEMPLATE_MEMORY ((size_t)64 << 20) /* bytes, besides the input */
#define CR_TEMPLATE_OUTPUT ((size_t)8 << 20)  /* bytes */

/* Appends the text to *text and its runs (cera_span) to *spans. CERA_E_FORMAT when the template
 * fails, with its line; CERA_E_ARG when the input is not what it should be; CERA_E_LIMIT by the
 * name of the limit. After a failure both are as they were. */
cera_status cr_template_render(const cr_template *tmpl, const cr_template_input *input,
                               cr_buf *text, cr_buf *spans, cera_error *err);

/* A template of our own by name, for files that bring none; NULL when there is none. */
const char *cr_template_named(const char *name);
/* "chatml, gemma, ..." */
const char *cr_template_names(void);

#endif
