/* What is special about special tokens: which end a generation, which are found in text, and which
 * take the white space beside them along.
 *
 * Files say little of this. Texts and families below are those of the models' own tokenizers. */
#include "token/vocab_internal.h"

#define KEY(name) CR_VOCAB_KEY(name)

/* ---- ends ---------------------------------------------------------------------------------- */

/* Tokens that end a turn, a text or a file in a model's output: files name only one of them as EOS,
 * and models emit others. */
static const struct {
    const char *text;
    const char *unless[2]; /* with one of these in the vocabulary it is something else */
} end_texts[] = {
    /* texts and turns */
    { "</s>", { "<|tool_response>", "<|plamo:eos|>" } }, /* plain text there */
    { "<eos>", { NULL } },
    { "[EOS]", { NULL } },
    { "<|endoftext|>", { NULL } },
    { "<|end_of_text|>", { NULL } },
    { "<\xef\xbd\x9c"
      "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
      { NULL } }, /* DeepSeek's, with its wide bars and U+2581 */
    { "<|im_end|>", { NULL } },
    { "<|eot_id|>", { NULL } },
    { "<|eom_id|>", { NULL } },
    { "<EOT>", { NULL } },
    { "_<EOT>", { NULL } },
    { "[EOT]", { NULL } },
    { "<|end|>", { "<|call|>", "<|calls|>" } }, /* ends a message there, of several in a turn */
    { "<|return|>", { NULL } },
    { "<|call|>", { NULL } },
    { "<|calls|>", { NULL } },
    { "<|flush|>", { NULL } },
    { "<end_of_turn>", { NULL } },
    { "<|end_of_turn|>", { NULL } },
    { "<turn|>", { NULL } },
    { "<|tool_response>", { NULL } },
    { "<end_of_utterance>", { NULL } },
    { "[e~[", { NULL } },
    /* files, where a model fills in code */
    { "<|fim_pad|>", { NULL } },
    { "<fim-pad>", { NULL } },
    { "<fim_pad>", { NULL } },
    { "<PAD>", { NULL } },
    { "[PAD]", { NULL } },
    { "<|fim_repo|>", { NULL } },
    { "<|repo_name|>", { NULL } },
    { "<fim-repo>", { NULL } },
    { "<REPO>", { NULL } },
    { "<reponame>", { NULL } },
    { "<|file_sep|>", { NULL } },
};

/* A control or user-defined token with this text; -1 for none. */
static int32_t find_special(const cr_vocab *vocab, const char *text)
{
    int32_t id = text != NULL ? cr_vocab_find(vocab, cr_str_from(text), true) : -1;
    int type = id >= 0 ? cr_vocab_type(vocab, (size_t)id) : 0;
    return type == CR_TOKEN_CONTROL || type == CR_TOKEN_USER ? id : -1;
}

cera_status cr_vocab_read_ends(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    static const char *const keys[] = {
        KEY("eos_token_id"),     KEY("eot_token_id"),     KEY("eom_token_id"),
        KEY("fim_pad_token_id"), KEY("fim_rep_token_id"), KEY("fim_sep_token_id"),
    };
    for (size_t i = 0; i < CR_COUNT(keys); i++) {
        int32_t id = -1;
        CR_TRY(cr_vocab_read_id(vocab, file, keys[i], &id, err));
        if (id >= 0)
            vocab->flags[id] |= CR_TOKEN_END;
    }

    cera_value array;
    bool found;
    CR_TRY(cr_vocab_array(file, KEY("eog_token_ids"), CR_ARRAY_INT, &array, &found, err));
    for (uint64_t i = 0; found && i < array.count; i++) {
        int64_t id = cr_vocab_integer_at(&array, i);
        if (id < 0 || id >= (int64_t)vocab->n_tokens)
            return cr_fail(err, CERA_E_FORMAT,
                           KEY("eog_token_ids") "[%llu]: expected an id below the vocabulary's "
                                                "%zu, found %lld",
                           (unsigned long long)i, vocab->n_tokens, (long long)id);
        vocab->flags[id] |= CR_TOKEN_END;
    }

    for (size_t i = 0; i < CR_COUNT(end_texts); i++) {
        int32_t id = find_special(vocab, end_texts[i].text);
        if (id >= 0 && find_special(vocab, end_texts[i].unless[0]) < 0 &&
            find_special(vocab, end_texts[i].unless[1]) < 0)
            vocab->flags[id] |= CR_TOKEN_END;
    }
    return CERA_OK;
}

/* ---- white space beside a token ------------------------------------------------------------ */

/* GGUF has no key for it. The first row that fits a token holds. */
static const struct {
    const char *kind, *pre, *arch; /* tokenizer.ggml.model and pre, general.architecture; or NULL */
    const char *text;              /* of the token; NULL: any special one */
    unsigned strip;
} strips[] = {
    { "gpt2", "roberta-bpe", NULL, "<mask>", CR_STRIP_LEFT },
    { "gpt2", "jina-v2-de", NULL, "<mask>", CR_STRIP_LEFT },
    { "gpt2", "jina-v2-es", NULL, "<mask>", CR_STRIP_LEFT },
    { "gpt2", "jina-v2-code", NULL, "<mask>", CR_STRIP_LEFT },
    { "gpt2", "modern-bert", NULL, "[MASK]", CR_STRIP_LEFT },
    { "t5", NULL, NULL, "<mask>", CR_STRIP_LEFT }, /* XLM-RoBERTa and what was made of it */
    /* Phi-3; later ones have this architecture and another kind of vocabulary. */
    { "llama", NULL, "phi3", "<unk>", 0 },
    { "llama", NULL, "phi3", "<s>", 0 },
    { "llama", NULL, "phi3", "<|endoftext|>", 0 },
    { "llama", NULL, "phi3", NULL, CR_STRIP_RIGHT },
};

static unsigned strip_of(const cr_vocab *vocab, cr_str arch, cr_str text)
{
    for (size_t i = 0; i < CR_COUNT(strips); i++) {
        if (strcmp(strips[i].kind, vocab->model->name) == 0 &&
            (strips[i].pre == NULL || strcmp(strips[i].pre, vocab->pre) == 0) &&
            (strips[i].arch == NULL || cr_str_is(arch, strips[i].arch)) &&
            (strips[i].text == NULL || cr_str_is(text, strips[i].text)))
            return strips[i].strip;
    }
    return 0;
}

/* ---- the sets that are found in text ------------------------------------------------------- */

static cera_status collect(cr_vocab *vocab, cr_str arch, bool with_control, cr_specials *out,
                           cera_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++)
        n += cr_token_is_special(cr_vocab_type(vocab, i));
    cr_special *items = cr_arena_array(&vocab->arena, n, sizeof *items);
    if (items == NULL)
        return cr_fail_nomem(err, n * sizeof *items, "the vocabulary");
    n = 0;
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        int type = cr_vocab_type(vocab, i);
        cr_str text = cr_vocab_bytes(vocab, i);
        if (!cr_token_is_special(type) || text.size == 0 ||
            (!with_control && type != CR_TOKEN_USER))
            continue;
        if (text.size > CR_SPECIAL_MAX)
            return cr_fail(err, CERA_E_LIMIT,
                           KEY("tokens") "[%zu]: expected at most %d bytes of special token, "
                                         "found %zu",
                           i, CR_SPECIAL_MAX, text.size);
        items[n++] = (cr_special){ text, (int32_t)i, strip_of(vocab, arch, text) };
    }
    if (!cr_specials_init(out, items, n, &vocab->arena))
        return cr_fail_nomem(err, n * sizeof *items, "the vocabulary");
    return CERA_OK;
}

cera_status cr_vocab_read_specials(cr_vocab *vocab, const cr_gguf *file, cera_error *err)
{
    cr_str arch = { "", 0 };
    CR_TRY(cr_gguf_get_str(file, "general.architecture", CR_OPTIONAL, &arch, err));
    CR_TRY(collect(vocab, arch, false, &vocab->user, err));
    return collect(vocab, arch, true, &vocab->all, err);
}
