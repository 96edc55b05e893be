/* A template from its text to a rendering: the object, the variables it is given, the runs of its
 * result. */
#include "template/template.h"

#include "template/render.h"

/* ---- the object ------------------------------------------------------------------------------ */

static int find_symbol(const cr_template *tmpl, const char *name)
{
    for (int i = 0; i < tmpl->n_symbols; i++)
        if (cr_str_is(tmpl->symbols[i], name))
            return i;
    return -1;
}

static cera_status compile(cr_template *tmpl, cr_str source, cera_error *err)
{
    tmpl->source.data = cr_arena_copy(&tmpl->arena, source.data, source.size);
    tmpl->source.size = source.size;
    if (tmpl->source.data == NULL)
        return cr_fail_nomem(err, source.size, "the template");
    CR_TRY(cr_template_parse(tmpl, err));
    tmpl->loop = find_symbol(tmpl, "loop");
    tmpl->caller = find_symbol(tmpl, "caller");
    tmpl->varargs = find_symbol(tmpl, "varargs");
    tmpl->kwargs = find_symbol(tmpl, "kwargs");
    return CERA_OK;
}

cera_status cr_template_new(cr_str source, cr_host *host, cr_template **out, cera_error *err)
{
    if (source.size > CR_TEMPLATE_MAX_SOURCE)
        return cr_fail(err, CERA_E_LIMIT, "template: expected at most %d bytes, found %zu",
                       CR_TEMPLATE_MAX_SOURCE, source.size);
    cr_template *tmpl = cr_alloc_zero(host, CR_MEM_OBJECT, sizeof *tmpl);
    if (tmpl == NULL)
        return cr_fail_nomem(err, sizeof *tmpl, "the template");
    tmpl->host = host;
    cr_arena_init(&tmpl->arena, host, CR_MEM_OBJECT);
    cera_status status = compile(tmpl, source, err);
    if (status != CERA_OK) {
        cr_template_free(tmpl);
        return status;
    }
    *out = tmpl;
    return CERA_OK;
}

void cr_template_free(cr_template *tmpl)
{
    if (tmpl == NULL)
        return;
    cr_arena_done(&tmpl->arena);
    cr_free(tmpl->host, CR_MEM_OBJECT, tmpl, sizeof *tmpl);
}

/* ---- variables ------------------------------------------------------------------------------- */

/* The arguments of one tool call, which many send as JSON text: as the mapping that templates walk
 * over. Text that is no object stays text. */
static bool parse_call(cr_interp *t, cr_tv *call, bool *changed)
{
    if (call->kind != CR_TV_DICT)
        return true;
    cr_tv *function = cr_tdict_get_text(call->as.dict, "function");
    if (function != NULL && function->kind == CR_TV_DICT)
        call = function;
    cr_tv *arguments = cr_tdict_get_text(call->as.dict, "arguments"), parsed;
    if (arguments == NULL)
        return true;
    if (arguments->kind == CR_TV_NONE) {
        *changed = true;
        return cr_tv_dict(t, CR_TV_DICT, arguments);
    }
    if (arguments->kind != CR_TV_STRING)
        return true;
    cera_error *err = t->err;
    t->err = NULL;
    bool ok = cr_tv_from_json(t, cr_tstr_bytes(arguments->as.s), "arguments", &parsed);
    t->err = err;
    if (t->status == CERA_E_ARG)
        t->status = CERA_OK; /* not JSON */
    else if (!ok)
        return t->status == CERA_E_NOMEM
                   ? (t->status = CERA_OK, cr_interp_nomem(t))
                   : (t->status = CERA_OK, cr_interp_limit(t, "arguments: too large"));
    if (ok && parsed.kind == CR_TV_DICT) {
        *arguments = parsed;
        *changed = true;
    }
    return true;
}

static bool parse_calls(cr_interp *t, const cr_tv *messages, bool *changed)
{
    for (size_t i = 0; messages->kind == CR_TV_LIST && i < messages->as.list->n; i++) {
        const cr_tv *message = &messages->as.list->items[i];
        const cr_tv *calls =
            message->kind == CR_TV_DICT ? cr_tdict_get_text(message->as.dict, "tool_calls") : NULL;
        for (size_t j = 0; calls != NULL && calls->kind == CR_TV_LIST && j < calls->as.list->n; j++)
            if (!parse_call(t, &calls->as.list->items[j], changed))
                return false;
    }
    return true;
}

/* Some formats leave roles out, but what is no object is no message. */
static bool check_messages(cr_interp *t, const cr_tv *messages)
{
    for (size_t i = 0; i < messages->as.list->n; i++) {
        const cr_tv *message = &messages->as.list->items[i];
        const cr_tv *role =
            message->kind == CR_TV_DICT ? cr_tdict_get_text(message->as.dict, "role") : NULL;
        if (message->kind == CR_TV_DICT && (role == NULL || role->kind == CR_TV_STRING))
            continue;
        t->status = cr_fail(t->err, CERA_E_ARG, "messages[%zu]%s", i,
                            role != NULL ? ".role: expected a text" : ": expected a JSON object");
        return false;
    }
    return true;
}

static void give(cr_interp *t, const char *name, size_t n, cr_tv value)
{
    for (int i = 0; i < t->tmpl->n_symbols; i++) {
        const cr_str *s = &t->tmpl->symbols[i];
        if (s->size == n && memcmp(s->data, name, n) == 0 && t->context[i].kind == CR_TV_MISSING)
            t->context[i] = value;
    }
}

static bool give_all(cr_interp *t, const cr_template_input *input, bool parse_arguments,
                     bool *changed)
{
    const cr_template *tmpl = t->tmpl;
    cr_tv value;
    t->context = cr_interp_alloc(t, (size_t)tmpl->n_symbols, sizeof *t->context);
    if (t->context == NULL)
        return false;
    for (size_t i = 0; i < input->n_vars; i++) {
        const cr_template_var *var = &input->vars[i];
        bool ok = var->is_text
                      ? cr_tv_text(t, var->value.data, var->value.size, CR_FROM_TEMPLATE, &value)
                      : cr_tv_from_json(t, var->value, var->name, &value);
        if (!ok)
            return false;
        if (var->is_list && value.kind != CR_TV_LIST) {
            t->status = cr_fail(t->err, CERA_E_ARG, "%s: expected a JSON list", var->name);
            return false;
        }
        const bool are_messages = strcmp(var->name, "messages") == 0;
        if (are_messages && var->is_list && !check_messages(t, &value))
            return false;
        if (are_messages && parse_arguments && !parse_calls(t, &value, changed))
            return false;
        give(t, var->name, strlen(var->name), value);
    }
    if (input->extra.size > 0) {
        if (!cr_tv_from_json(t, input->extra, "extra variables", &value))
            return false;
        if (value.kind != CR_TV_DICT) {
            t->status = cr_fail(t->err, CERA_E_ARG, "extra variables: expected a JSON object");
            return false;
        }
        for (size_t i = 0; i < value.as.dict->n; i++) {
            const cr_tstr *key = value.as.dict->keys[i].as.s;
            give(t, key->data, key->size, value.as.dict->values[i]);
        }
    }
    give(t, "documents", strlen("documents"), cr_tv_none()); /* as transformers has it */
    for (int i = 0; i < tmpl->n_symbols; i++) {
        int row = cr_function_find(tmpl->symbols[i]);
        bool has = row >= 0 && (t->now != NULL || !cr_str_is(tmpl->symbols[i], "strftime_now"));
        if (has)
            give(t, tmpl->symbols[i].data, tmpl->symbols[i].size,
                 (cr_tv){ .kind = CR_TV_FUNCTION, .detail = row });
    }
    return true;
}

/* ---- rendering ------------------------------------------------------------------------------- */

/* The text and its runs to the caller's buffers. */
static bool hand_out(cr_interp *t, const cr_tbuf *from, cr_buf *text, cr_buf *spans)
{
    if (!cr_buf_append(text, from->data, from->size))
        return cr_interp_nomem(t);
    for (size_t i = 0; i < from->size;) {
        size_t begin = i;
        while (i < from->size && from->marks[i] == from->marks[begin])
            i++;
        cera_span span = { .start = begin,
                           .size = i - begin,
                           .is_literal = from->marks[begin] == CR_FROM_TEMPLATE };
        if (!cr_buf_append(spans, &span, sizeof span))
            return cr_interp_nomem(t);
    }
    return true;
}

static cera_status render(const cr_template *tmpl, const cr_template_input *input,
                          bool parse_arguments, bool *changed, cr_buf *text, cr_buf *spans,
                          cera_error *err)
{
    cr_tbuf out = { 0 };
    cr_interp t = {
        .tmpl = tmpl,
        .max_steps = input->max_steps > 0 ? input->max_steps : CR_TEMPLATE_STEPS,
        .max_output = input->max_output > 0 ? input->max_output : CR_TEMPLATE_OUTPUT,
        .max_memory = SIZE_MAX,
        .out = &out,
        .now = input->now,
        .err = err,
    };
    const size_t n_text = text->size, n_spans = spans->size;
    cr_arena_init(&t.arena, tmpl->host, CR_MEM_SCRATCH);
    t.max_work = UINT64_MAX;
    bool ok = give_all(&t, input, parse_arguments, changed);
    /* Limits are for what the template does, not for how much it is given. */
    t.memory = 0;
    t.work = 0;
    t.max_memory = input->max_memory > 0 ? input->max_memory : CR_TEMPLATE_MEMORY;
    t.max_work = (uint64_t)t.max_steps * CR_WORK_NODE;
    ok = ok && cr_render_run(&t) && hand_out(&t, &out, text, spans);
    cr_arena_done(&t.arena);
    if (!ok) {
        text->size = n_text;
        spans->size = n_spans;
    }
    return ok ? CERA_OK : t.status;
}

cera_status cr_template_render(const cr_template *tmpl, const cr_template_input *input,
                               cr_buf *text, cr_buf *spans, cera_error *err)
{
    bool changed = false;
    cera_status status = render(tmpl, input, input->parse_arguments, &changed, text, spans, err);
    /* Some templates join the arguments to a string, which a mapping does not go with. */
    if (status == CERA_E_FORMAT && changed)
        status = render(tmpl, input, false, &changed, text, spans, err);
    return status;
}
