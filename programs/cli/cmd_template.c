/* template: messages -> prompt. Needs the vocabulary only, or no model at all when a template is
 * named. */
#define _DEFAULT_SOURCE
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/out.h"
#include "cli/rendering.h"
#include "cli/report.h"

#include <string.h>

static int print_json(const cera_vocab *vocab, const cera_rendering *r)
{
    json_t *spans = json_array(), *ids = json_null();
    for (size_t i = 0; i < r->n_spans; i++)
        json_array_append_new(
            spans, json_pack("{s:I, s:I, s:b}", "start", (json_int_t)r->spans[i].start, "size",
                             (json_int_t)r->spans[i].size, "literal", (int)r->spans[i].is_literal));
    if (vocab != NULL) {
        int32_t *found = NULL;
        size_t n = 0;
        cera_error err;
        if (cera_vocab_encode_rendering(vocab, r, &found, &n, &err) != CERA_OK) {
            json_decref(spans);
            return report_failure(WHILE_RUNNING, "cannot turn the prompt into tokens", &err);
        }
        ids = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(ids, json_integer(found[i]));
        cera_vocab_free_ids(vocab, found, n);
    }
    out_json(json_pack("{s:s, s:o, s:o, s:o}", "schema", "cera.template/1", "text",
                       json_text(r->text, r->n), "spans", spans, "ids", ids));
    return EXIT_OK;
}

/* Everything that the command is given, and what it made so far. */
typedef struct work {
    const cli_args *args;
    prompt messages, tools, vars;
    cera_vocab *vocab;
    cera_template *tmpl;
} work;

/* JSON goes to the library as text up to NUL: what stands behind one would be dropped in
 * silence. */
static int refuse_nul(const prompt *json, const char *what)
{
    if (json->text == NULL || memchr(json->text, '\0', json->size) == NULL)
        return EXIT_OK;
    return report_error(EXIT_USAGE, what, "expected JSON, found a byte 0 in it", NULL);
}

static int open_vocab(work *w)
{
    const char *path;
    const cli_args *args = w->args;
    bool named = is_set(args, OPT_CHAT_TEMPLATE) || is_set(args, OPT_CHAT_TEMPLATE_FILE);
    if (named && args->n_positional == 0 && !is_set(args, OPT_MODEL))
        return EXIT_OK;
    int code = model_path(args, &path);
    if (code != EXIT_OK)
        return code;
    return model_open_vocab(args, path, &w->vocab);
}

static int render(work *w)
{
    cera_render_options options;
    rendering_options(&options);
    options.tools = w->tools.text;
    options.variables = w->vars.text;
    options.add_generation_prompt = !is_set(w->args, OPT_NO_GENERATION_PROMPT);
    cera_rendering r;
    cera_error err;
    if (cera_template_render(w->tmpl, w->messages.text, &options, &r, &err) != CERA_OK)
        return rendering_failed(&err);
    int code = EXIT_OK;
    if (wants_json(w->args))
        code = print_json(w->vocab, &r);
    else
        out_write(r.text, r.n);
    cera_template_free_rendering(w->tmpl, &r);
    return code;
}

int command_TEMPLATE(const cli_args *args)
{
    work w = { .args = args };
    int code = prompt_read(args, OPT_MESSAGES, &w.messages);
    if (code == EXIT_OK && is_set(args, OPT_TOOLS))
        code = prompt_or_file(args->option[OPT_TOOLS].text, &w.tools);
    if (code == EXIT_OK && is_set(args, OPT_TEMPLATE_VARS))
        code = prompt_or_file(args->option[OPT_TEMPLATE_VARS].text, &w.vars);
    if (code == EXIT_OK)
        code = refuse_nul(&w.messages, "cannot read the messages");
    if (code == EXIT_OK)
        code = refuse_nul(&w.tools, "cannot read the tools");
    if (code == EXIT_OK)
        code = refuse_nul(&w.vars, "cannot read the variables");
    if (code == EXIT_OK)
        code = open_vocab(&w);
    if (code == EXIT_OK)
        code = rendering_open(args, w.vocab, &w.tmpl);
    if (code == EXIT_OK)
        code = render(&w);
    cera_template_free(w.tmpl);
    cera_vocab_free(w.vocab);
    prompt_done(&w.messages);
    prompt_done(&w.tools);
    prompt_done(&w.vars);
    return code;
}
