/* tokenize: text -> ids. Needs the vocabulary only, so that a large model opens as fast as a small
 * one. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/out.h"
#include "cli/report.h"
#include "common/bytes.h"

static void print_ids(const prompt *p, const char *begin, const char *between, const char *end)
{
    bytes text = { 0 };
    bytes_text(&text, begin);
    for (size_t i = 0; i < p->n_ids; i++)
        bytes_printf(&text, "%s%ld", i > 0 ? between : "", (long)p->ids[i]);
    bytes_text(&text, end);
    out_write(text.data, text.size);
    bytes_done(&text);
}

static void print_json(const cera_vocab *vocab, const prompt *p)
{
    json_t *ids = json_array(), *pieces = json_array(), *raw = json_array();
    for (size_t i = 0; i < p->n_ids; i++) {
        size_t n = 0;
        const char *piece = cera_vocab_piece(vocab, p->ids[i], &n);
        if (piece == NULL)
            n = 0;
        bytes base64 = { 0 };
        bytes_append_base64(&base64, piece, n);
        json_array_append_new(ids, json_integer(p->ids[i]));
        json_array_append_new(pieces, json_text(piece != NULL ? piece : "", n));
        json_array_append_new(raw, json_stringn(base64.data, base64.size));
        bytes_done(&base64);
    }
    out_json(json_pack("{s:s, s:o, s:o, s:o}", "schema", "cera.tokenize/1", "ids", ids, "pieces",
                       pieces, "bytes", raw));
}

int command_TOKENIZE(const cli_args *args)
{
    const char *path;
    int code = model_path(args, &path);
    if (code != EXIT_OK)
        return code;
    prompt text;
    code = prompt_read(args, OPT_TEXT, &text);
    if (code != EXIT_OK)
        return code;

    cera_vocab *vocab = NULL;
    code = model_open_vocab(args, path, &vocab);
    if (code == EXIT_OK)
        code = prompt_encode(args, vocab, &text);
    if (code == EXIT_OK) {
        if (wants_json(args))
            print_json(vocab, &text);
        else if (is_set(args, OPT_IDS))
            print_ids(&text, "", " ", "\n");
        else
            print_ids(&text, "[", ", ", "]\n");
    }
    cera_vocab_free(vocab);
    prompt_done(&text);
    return code;
}
