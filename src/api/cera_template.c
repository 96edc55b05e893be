/* cera_template: the templates of a vocabulary, or one of another origin, and renderings. */
#include "api/check.h"
#include "api/objects.h"
#include "template/template.h"

struct cera_template {
    cr_host *host; /* own_host, whose bill renderings write to */
    cr_host own_host;
    cr_template *plain;
    cr_template *tools;            /* for when there are tools; NULL: the same */
    char *plain_text, *tools_text; /* NUL-terminated */
    size_t n_plain, n_tools;
    char *bos, *eos;
    size_t n_bos, n_eos;
};

void cera_template_options_init(cera_template_options *options)
{
    *options = (cera_template_options){ .size = sizeof *options };
}

void cera_render_options_init(cera_render_options *options)
{
    *options = (cera_render_options){ .size = sizeof *options,
                                      .add_generation_prompt = true,
                                      .parse_arguments = true };
}

/* A copy with a NUL behind it. */
static cera_status copy_text(cr_host *host, cr_str text, char **out, size_t *n, cera_error *err)
{
    *out = cr_alloc(host, CR_MEM_OBJECT, text.size + 1);
    if (*out == NULL)
        return cr_fail_nomem(err, text.size, "the template");
    if (text.size > 0)
        memcpy(*out, text.data, text.size);
    (*out)[text.size] = '\0';
    *n = text.size;
    return CERA_OK;
}

static void free_text(cr_host *host, char *text, size_t n)
{
    if (text != NULL)
        cr_free(host, CR_MEM_OBJECT, text, n + 1);
}

/* The texts that the options and the vocabulary name; *tools is empty when it is the same. */
static cera_status choose(const cera_vocab *vocab, const cera_template_options *options,
                          cr_str *plain, cr_str *tools, cera_error *err)
{
    *tools = (cr_str){ NULL, 0 };
    if (options->text != NULL && options->name != NULL)
        return cr_fail(err, CERA_E_ARG, "options: expected a name or a text, found both");
    if (options->text != NULL) {
        size_t n = options->n_text > 0 ? options->n_text : strlen(options->text);
        *plain = (cr_str){ options->text, n };
        return CERA_OK;
    }
    if (options->name != NULL) {
        const char *text = cr_template_named(options->name);
        if (text == NULL)
            return cr_fail(err, CERA_E_ARG, "chat template \"%.64s\": expected one of %s",
                           options->name, cr_template_names());
        *plain = cr_str_from(text);
        return CERA_OK;
    }
    *plain = (cr_str){ NULL, 0 };
    if (vocab != NULL) {
        *plain = cr_vocab_template(vocab->vocab, "");
        if (plain->data == NULL)
            *plain = cr_vocab_template(vocab->vocab, "default");
        *tools = cr_vocab_template(vocab->vocab, "tool_use");
        if (plain->data == NULL) {
            *plain = *tools;
            *tools = (cr_str){ NULL, 0 };
        }
    }
    if (plain->data == NULL)
        return cr_fail(
            err, CERA_E_UNSUPPORTED,
            "template: expected one in the model's file, by name or as text, found none; "
            "the names are %s",
            cr_template_names());
    return CERA_OK;
}

static cera_status fill(cera_template *tmpl, const cera_vocab *vocab,
                        const cera_template_options *options, cera_error *err)
{
    cr_host *host = tmpl->host;
    cr_str plain, tools, bos = { "", 0 }, eos = { "", 0 };
    CR_TRY(choose(vocab, options, &plain, &tools, err));
    if (vocab != NULL) {
        cera_vocab_info info;
        cr_vocab_get_info(vocab->vocab, &info);
        bos = cr_vocab_piece(vocab->vocab, info.bos);
        eos = cr_vocab_piece(vocab->vocab, info.eos);
    }
    CR_TRY(copy_text(host, plain, &tmpl->plain_text, &tmpl->n_plain, err));
    CR_TRY(copy_text(host, bos, &tmpl->bos, &tmpl->n_bos, err));
    CR_TRY(copy_text(host, eos, &tmpl->eos, &tmpl->n_eos, err));
    CR_TRY(cr_template_new(plain, host, &tmpl->plain, err));
    if (tools.data == NULL)
        return CERA_OK;
    CR_TRY(copy_text(host, tools, &tmpl->tools_text, &tmpl->n_tools, err));
    return cr_template_new(tools, host, &tmpl->tools, err);
}

cera_status cera_template_new(const cera_vocab *vocab, const cera_template_options *options,
                              cera_template **out, cera_error *err)
{
    cera_template_options defaults;
    cera_template_options_init(&defaults);
    if (options == NULL)
        options = &defaults;
    if (out == NULL)
        return cr_fail(err, CERA_E_ARG, "out: expected a place for the template, found NULL");
    CR_TRY(cr_check_size(options->size, sizeof *options, err));
    cr_host first; /* for the object itself, whose own host does not exist yet */
    CR_TRY(cr_host_set(&first, options->host, err));
    cera_template *tmpl = cr_alloc_zero(&first, CR_MEM_OBJECT, sizeof *tmpl);
    if (tmpl == NULL)
        return cr_fail_nomem(err, sizeof *tmpl, "the template");
    tmpl->own_host = first; /* with its bill, which has the object itself on it */
    tmpl->host = &tmpl->own_host;
    cera_status status = fill(tmpl, vocab, options, err);
    if (status != CERA_OK) {
        cera_template_free(tmpl);
        return status;
    }
    *out = tmpl;
    return CERA_OK;
}

void cera_template_free(cera_template *tmpl)
{
    if (tmpl == NULL)
        return;
    cr_template_free(tmpl->plain);
    cr_template_free(tmpl->tools);
    free_text(tmpl->host, tmpl->plain_text, tmpl->n_plain);
    free_text(tmpl->host, tmpl->tools_text, tmpl->n_tools);
    free_text(tmpl->host, tmpl->bos, tmpl->n_bos);
    free_text(tmpl->host, tmpl->eos, tmpl->n_eos);
    cr_host host = tmpl->own_host; /* the object cannot be freed through what is inside it */
    cr_free(&host, CR_MEM_OBJECT, tmpl, sizeof *tmpl);
}

const char *cera_template_source(const cera_template *tmpl, bool with_tools, size_t *n)
{
    bool tools = tmpl != NULL && with_tools && tmpl->tools != NULL;
    if (n != NULL)
        *n = tmpl == NULL ? 0 : tools ? tmpl->n_tools : tmpl->n_plain;
    return tmpl == NULL ? NULL : tools ? tmpl->tools_text : tmpl->plain_text;
}

static bool is_date(const cera_date *d)
{
    static const int days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return d->year >= 1 && d->year <= 9999 && d->month >= 1 && d->month <= 12 && d->day >= 1 &&
           d->day <= days[d->month - 1] && d->hour >= 0 && d->hour < 24 && d->minute >= 0 &&
           d->minute < 60 && d->second >= 0 && d->second <= 60;
}

/* The buffers to a caller, who gives back just what the rendering says. */
static cera_status hand_out(cr_buf *text, cr_buf *spans, cera_rendering *out, cera_error *err)
{
    const size_t n = text->size;
    if (!cr_buf_append(text, "", 1))
        return cr_fail_nomem(err, 1, "the rendered text");
    void *exact = cr_resize(text->host, CR_MEM_OBJECT, text->data, text->room, text->size);
    if (exact == NULL)
        return cr_fail_nomem(err, text->size, "the rendered text");
    text->data = exact;
    text->room = text->size;
    if (spans->size > 0) {
        exact = cr_resize(spans->host, CR_MEM_OBJECT, spans->data, spans->room, spans->size);
        if (exact == NULL)
            return cr_fail_nomem(err, spans->size, "the rendered text");
        spans->data = exact;
        spans->room = spans->size;
    }
    *out = (cera_rendering){ .text = text->data,
                             .spans = (cera_span *)(void *)spans->data,
                             .n = n,
                             .n_spans = spans->size / sizeof(cera_span) };
    return CERA_OK;
}

static bool is_empty_list(const char *json)
{
    json += strspn(json, " \t\r\n");
    if (*json != '[')
        return strncmp(json, "null", 4) == 0;
    json++;
    json += strspn(json, " \t\r\n");
    return *json == ']';
}

cera_status cera_template_render(const cera_template *tmpl, const char *messages,
                                 const cera_render_options *options, cera_rendering *out,
                                 cera_error *err)
{
    cera_render_options defaults;
    cera_render_options_init(&defaults);
    if (options == NULL)
        options = &defaults;
    if (tmpl == NULL || messages == NULL || out == NULL)
        return cr_fail(
            err, CERA_E_ARG,
            "render: expected a template, messages and a place for the text, found NULL");
    CR_TRY(cr_check_size(options->size, sizeof *options, err));
    const cera_date *date = &options->date;
    if (date->year != 0 && !is_date(date))
        return cr_fail(err, CERA_E_ARG, "date: expected a day of the calendar, found %d-%d-%d",
                       date->year, date->month, date->day);
    const cr_template_time now = { date->year, date->month,  date->day,
                                   date->hour, date->minute, date->second };
    cr_str bos =
        options->bos != NULL ? cr_str_from(options->bos) : (cr_str){ tmpl->bos, tmpl->n_bos };
    cr_str eos =
        options->eos != NULL ? cr_str_from(options->eos) : (cr_str){ tmpl->eos, tmpl->n_eos };
    const char *tools = options->tools != NULL ? options->tools : "null";
    const char *prompt = options->add_generation_prompt ? "true" : "false";
    const cr_template_var vars[] = {
        { .name = "messages", .value = cr_str_from(messages), .is_list = true },
        { .name = "tools", .value = cr_str_from(tools), .is_list = strcmp(tools, "null") != 0 },
        { .name = "add_generation_prompt", .value = cr_str_from(prompt) },
        { .name = "bos_token", .value = bos, .is_text = true },
        { .name = "eos_token", .value = eos, .is_text = true },
    };
    cr_template_input input = {
        .vars = vars,
        .n_vars = CR_COUNT(vars),
        .extra = cr_str_from(options->variables != NULL ? options->variables : ""),
        .now = date->year != 0 ? &now : NULL,
        .parse_arguments = options->parse_arguments,
        .max_steps = options->max_steps,
        .max_memory = options->max_memory,
        .max_output = options->max_output,
    };
    const cr_template *used = tmpl->plain;
    if (tmpl->tools != NULL && !is_empty_list(tools))
        used = tmpl->tools;
    cr_buf text, spans;
    cr_buf_init(&text, tmpl->host, CR_MEM_OBJECT);
    cr_buf_init(&spans, tmpl->host, CR_MEM_OBJECT);
    cera_status status = cr_template_render(used, &input, &text, &spans, err);
    if (status == CERA_OK)
        status = hand_out(&text, &spans, out, err);
    if (status != CERA_OK) {
        cr_buf_done(&text);
        cr_buf_done(&spans);
    }
    return status;
}

void cera_template_free_rendering(const cera_template *tmpl, cera_rendering *rendering)
{
    if (tmpl == NULL || rendering == NULL)
        return;
    cr_host *host = tmpl->host;
    if (rendering->text != NULL)
        cr_free(host, CR_MEM_OBJECT, rendering->text, rendering->n + 1);
    cr_free(host, CR_MEM_OBJECT, rendering->spans, rendering->n_spans * sizeof(cera_span));
    *rendering = (cera_rendering){ 0 };
}
