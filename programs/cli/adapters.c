/* Sessions with the adapters of the command line. */
#include "cli/inputs.h"

#include "cli/report.h"
#include "common/bytes.h"
#include "common/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int bad_value(const char *typed, const char *text, const char *expected)
{
    bytes what = { 0 };
    bytes_printf(&what, "%s has a value that it does not take: \"%s\"", typed, text);
    report_error(EXIT_USAGE, what.data, expected, NULL);
    bytes_done(&what);
    return EXIT_USAGE;
}

/* PATH:SCALE; the path is what stands before the last colon. */
static bool cut_scale(const char *text, bytes *path, float *scale)
{
    const char *colon = strrchr(text, ':');
    double value;
    if (colon == NULL || colon == text || !number_parse_real(colon + 1, &value) ||
        !isfinite((float)value))
        return false;
    bytes_append(path, text, (size_t)(colon - text));
    *scale = (float)value;
    return true;
}

/* FIRST-LAST */
static int read_layers(const cli_args *args, int *first, int *last)
{
    const option_value *option = &args->option[OPT_CONTROL_VECTOR_LAYERS];
    if (!is_set(args, OPT_CONTROL_VECTOR_LAYERS))
        return EXIT_OK;
    int64_t from = -1, to = -1;
    bytes number = { 0 };
    size_t n = strcspn(option->text, "-");
    bytes_append(&number, option->text, n);
    bool good = option->text[n] == '-' && number_parse_i64(number.data, &from) &&
                number_parse_i64(option->text + n + 1, &to) && from >= 0 && to >= from && to > 0 &&
                to <= INT32_MAX;
    bytes_done(&number);
    if (!good)
        return bad_value(option->typed, option->text,
                         "expected two numbers of layers, the last one above 0: 4-20");
    *first = (int)from;
    *last = (int)to;
    return EXIT_OK;
}

static int open_adapter(cera_engine *engine, const char *path, bool is_vector, cera_adapter **out)
{
    cera_error err;
    cera_source source = { .path = path };
    bytes what = { 0 };
    bytes_printf(&what, "cannot open the adapter %s", path);
    int code = EXIT_OK;
    if (cera_adapter_open(engine, &source, out, &err) != CERA_OK) {
        code = report_error(exit_code_of(err.status, WHILE_OPENING), what.data, err.message, NULL);
    } else {
        cera_adapter_info info;
        cera_adapter_get_info(*out, &info);
        if ((info.kind == CERA_ADAPTER_CONTROL) != is_vector)
            code = report_error(EXIT_USAGE, what.data,
                                is_vector ? "it is a LoRA adapter" : "it is a control vector",
                                is_vector ? "--lora" : "--control-vector");
        report_note(1, "adapter %s: %zu %s", path, info.n_tensors,
                    is_vector ? "layers" : "tensors");
    }
    bytes_done(&what);
    return code;
}

/* One option's adapter, which is opened. */
static int read_use(cera_engine *engine, option_id id, const char *typed, const char *text,
                    cera_adapter_use *out)
{
    bool is_scaled = id == OPT_LORA_SCALED || id == OPT_CONTROL_VECTOR_SCALED;
    bool is_vector = id == OPT_CONTROL_VECTOR || id == OPT_CONTROL_VECTOR_SCALED;
    bytes path = { 0 };
    out->scale = 1;
    if (!is_scaled)
        bytes_text(&path, text);
    else if (!cut_scale(text, &path, &out->scale))
        return bad_value(typed, text, "expected a path, a colon and a number: PATH:0.5");
    int code = open_adapter(engine, path.data, is_vector, &out->adapter);
    bytes_done(&path);
    return code;
}

static bool has_vector(const cli_args *args)
{
    return is_set(args, OPT_CONTROL_VECTOR) || is_set(args, OPT_CONTROL_VECTOR_SCALED);
}

/* The adapters, in the order of the command line. */
static int read_uses(const cli_args *args, cera_engine *engine, cera_adapter_use *uses, size_t *n)
{
    int first = 0, last = 0;
    int code = read_layers(args, &first, &last);
    const option_value *layers = &args->option[OPT_CONTROL_VECTOR_LAYERS];
    if (code == EXIT_OK && layers->source == FROM_COMMAND_LINE && !has_vector(args))
        code = report_error(EXIT_USAGE, "there is no control vector to have these layers",
                            layers->typed, "--control-vector");
    for (size_t i = 0; i < args->n_repeated && code == EXIT_OK; i++) {
        option_id id = args->repeated[i].id;
        if (id != OPT_LORA && id != OPT_LORA_SCALED && id != OPT_CONTROL_VECTOR &&
            id != OPT_CONTROL_VECTOR_SCALED)
            continue;
        cera_adapter_use *use = &uses[(*n)++];
        *use = (cera_adapter_use){ .first_layer = first, .last_layer = last };
        code = read_use(engine, id, args->repeated[i].typed, args->repeated[i].text, use);
    }
    return code;
}

int session_open(const cli_args *args, cera_engine *engine, const cera_session_options *options,
                 cera_session **out)
{
    cera_error err;
    cera_session *session = NULL;
    if (cera_session_new(engine, options, &session, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot start a session", &err);
    cera_adapter_use *uses = bytes_alloc(args->n_repeated + 1, sizeof(*uses));
    size_t n = 0;
    int code = read_uses(args, engine, uses, &n);
    if (code == EXIT_OK && cera_session_set_adapters(session, uses, n, &err) != CERA_OK)
        code = report_error(exit_code_of(err.status, WHILE_OPENING), "cannot use the adapters",
                            err.message, NULL);
    for (size_t i = 0; i < n; i++)
        cera_adapter_close(uses[i].adapter);
    free(uses);
    if (code == EXIT_OK)
        *out = session;
    else
        cera_session_free(session);
    return code;
}
