/* logits: the scores of the token that would follow the prompt. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/report.h"
#include "common/bytes.h"
#include "common/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scored {
    int32_t id;
    float logit;
} scored;

/* Descending; NaN counts as -infinity; among equals the lower id comes first. */
static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    float p = isnan(x->logit) ? -INFINITY : x->logit;
    float q = isnan(y->logit) ? -INFINITY : y->logit;
    if (p != q)
        return p > q ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void print_text(const scored *list, size_t n, bool ranked)
{
    bytes text = { 0 };
    char number[NUMBER_ROOM];
    for (size_t i = 0; i < n; i++) {
        size_t size = number_format_float(list[i].logit, number);
        if (ranked)
            bytes_printf(&text, "%ld\t", (long)list[i].id);
        else if (i > 0)
            bytes_text(&text, " ");
        bytes_append(&text, number, size);
        if (ranked)
            bytes_text(&text, "\n");
    }
    if (!ranked)
        bytes_text(&text, "\n");
    out_write(text.data, text.size);
    bytes_done(&text);
}

static json_t *to_json(const scored *list, size_t n, bool ranked)
{
    json_t *values = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *value = json_number((double)list[i].logit);
        json_array_append_new(values, ranked ? json_pack("[i, o]", (int)list[i].id, value) : value);
    }
    return values;
}

static void print_logits(const cli_args *args, const char *path, const prompt *text,
                         const float *logits, size_t n)
{
    scored *list = bytes_alloc(n, sizeof(scored));
    for (size_t i = 0; i < n; i++)
        list[i] = (scored){ (int32_t)i, logits[i] };
    size_t top_k = (size_t)args->option[OPT_LOGITS_TOP_K].integer;
    bool ranked = top_k > 0;
    if (ranked) {
        qsort(list, n, sizeof(scored), by_score);
        n = top_k < n ? top_k : n;
    }
    if (wants_envelope(args))
        out_json(json_pack("{s:s, s:o, s:I, s:o}", "schema", "cera.logits/1", "model",
                           json_text(path, strlen(path)), "prompt_tokens", (json_int_t)text->n_ids,
                           "logits", to_json(list, n, ranked)));
    else if (is_set(args, OPT_JSON))
        out_json(to_json(list, n, ranked));
    else
        print_text(list, n, ranked);
    free(list);
}

static int compute(const cli_args *args, const char *path, cera_engine *engine, prompt *text)
{
    int code = prompt_encode(args, cera_engine_vocab(engine), text);
    if (code != EXIT_OK)
        return code;
    cera_session *session;
    code = session_open(args, engine, NULL, &session);
    if (code != EXIT_OK)
        return code;
    cera_error err;
    interrupt_watch(session);
    cera_status status = cera_session_append_ids(session, text->ids, text->n_ids, &err);
    interrupt_watch(NULL);
    if (status == CERA_E_CANCELLED)
        code = interrupt_exit_code();
    else if (status != CERA_OK)
        code = report_failure(WHILE_RUNNING, "cannot compute the prompt", &err);
    else {
        cera_engine_info info;
        cera_engine_get_info(engine, &info);
        print_logits(args, path, text, cera_session_logits(session), (size_t)info.n_vocab);
    }
    cera_session_free(session);
    return code;
}

int command_LOGITS(const cli_args *args)
{
    return model_with_prompt(args, compute);
}
