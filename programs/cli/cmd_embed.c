/* embed: the hidden states of a text. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/out.h"
#include "cli/report.h"
#include "common/bytes.h"
#include "common/number.h"

#include <stdlib.h>
#include <string.h>

/* rows [n_rows][n_embd] */
static void print_text(const float *rows, size_t n_rows, size_t n_embd)
{
    bytes text = { 0 };
    char number[NUMBER_ROOM];
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t i = 0; i < n_embd; i++) {
            size_t size = number_format_float(rows[r * n_embd + i], number);
            bytes_text(&text, i > 0 ? " " : "");
            bytes_append(&text, number, size);
        }
        bytes_text(&text, "\n");
    }
    out_write(text.data, text.size);
    bytes_done(&text);
}

static json_t *row_to_json(const float *row, size_t n_embd)
{
    json_t *values = json_array();
    for (size_t i = 0; i < n_embd; i++)
        json_array_append_new(values, json_number((double)row[i]));
    return values;
}

static int compute(const cli_args *args, const char *path, cera_engine *engine, prompt *text)
{
    int code = prompt_encode(args, cera_engine_vocab(engine), text);
    if (code != EXIT_OK)
        return code;
    bool per_token = is_set(args, OPT_PER_TOKEN);
    cera_engine_info info;
    cera_engine_get_info(engine, &info);
    /* Said here too, so that no array is made for a text that cannot be computed. */
    if (text->n_ids > (size_t)info.context_size) {
        bytes why = { 0 };
        bytes_printf(&why, "the text has %zu tokens, the context has room for %d", text->n_ids,
                     info.context_size);
        code = report_error(EXIT_LIMIT, "the text does not fit the context", why.data,
                            "a larger --context-size, or a shorter text");
        bytes_done(&why);
        return code;
    }
    size_t n_rows = per_token ? text->n_ids : 1, n_embd = (size_t)info.n_embd;
    cera_session *session;
    code = session_open(args, engine, NULL, &session);
    if (code != EXIT_OK)
        return code;
    float *rows = bytes_alloc(n_rows, n_embd * sizeof(float));
    cera_error err;
    if (cera_session_embed(session, text->ids, text->n_ids,
                           per_token ? CERA_POOLING_NONE : CERA_POOLING_MEAN, rows,
                           &err) != CERA_OK) {
        code = report_failure(WHILE_RUNNING, "cannot compute the text", &err);
    } else if (!wants_json(args)) {
        print_text(rows, n_rows, n_embd);
    } else {
        json_t *result = per_token ? json_array() : row_to_json(rows, n_embd);
        for (size_t r = 0; per_token && r < n_rows; r++)
            json_array_append_new(result, row_to_json(rows + r * n_embd, n_embd));
        if (wants_envelope(args))
            result =
                json_pack("{s:s, s:o, s:s, s:I, s:o}", "schema", "cera.embed/1", "model",
                          json_text(path, strlen(path)), "pooling", per_token ? "none" : "mean",
                          "prompt_tokens", (json_int_t)text->n_ids, "embedding", result);
        out_json(result);
    }
    free(rows);
    cera_session_free(session);
    return code;
}

int command_EMBED(const cli_args *args)
{
    return model_with_prompt(args, compute);
}
