/* cera(1): the tables as roff, and the rules of the program in words. */
#include "cera.h"
#include "cli/help.h"
#include "cli/report.h"

#include <string.h>

/* Text with what roff would take for itself escaped: a backslash, a dash, and a line that begins
 * with a dot or an apostrophe. */
static void append_roff(bytes *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\\')
            bytes_text(out, "\\e");
        else if (*p == '-')
            bytes_text(out, "\\-");
        else if ((*p == '.' || *p == '\'') && (p == text || p[-1] == '\n'))
            bytes_printf(out, "\\&%c", *p);
        else
            bytes_append(out, p, 1);
    }
}

static void append_option(bytes *out, const option_row *row)
{
    bytes_text(out, ".TP\n");
    bytes name = { 0 };
    bytes_printf(&name, "--%s", row->name);
    if (row->letter != 0)
        bytes_printf(out, ".BR \\-%c \", \" ", row->letter);
    else
        bytes_text(out, ".B ");
    append_roff(out, name.data);
    if (option_argument(row) != NULL) {
        bytes_text(out, row->letter != 0 ? " \" " : " ");
        append_roff(out, option_argument(row));
        bytes_text(out, row->letter != 0 ? "\"" : "");
    }
    bytes_text(out, "\n");
    append_roff(out, row->help);
    bytes_text(out, "\n");
    bytes_done(&name);
}

static void append_commands(bytes *out)
{
    bytes_text(out, ".SH COMMANDS\n");
    for (int i = 0; i < CMD_COUNT; i++) {
        const command_row *row = &command_table[i];
        bytes_printf(out, ".SS cera %s ", row->name);
        append_roff(out, row->arguments);
        bytes_text(out, "\n");
        append_roff(out, row->description);
        bytes_text(out, "\n");
        for (int o = 0; o < OPT_COUNT; o++) {
            if (option_table[o].group != GROUP_GLOBAL &&
                option_is_shown((option_id)o, (command_id)i))
                append_option(out, &option_table[o]);
        }
        bytes_text(out, ".PP\nExample:\n.PP\n.nf\n.RS\n");
        append_roff(out, row->example);
        bytes_text(out, "\n.RE\n.fi\n");
    }
    bytes_text(out, ".SH GLOBAL OPTIONS\nThese stand before or after the command.\n");
    for (int o = 0; o < OPT_COUNT; o++) {
        if (option_table[o].group == GROUP_GLOBAL)
            append_option(out, &option_table[o]);
    }
}

static const char prompt_section[] =
    ".SH PROMPT\n"
    "Exactly one source of text is used: \\-p (or \\-t of tokenize), \\-f, or standard "
    "input. Standard input is read with \"\\-p \\-\", or when no text is given and standard "
    "input is not a terminal. With \\-p TEXT it is not read, unless \\-\\-stdin is given: "
    "the text is then TEXT, an empty line, and standard input. A file given with \\-f loses "
    "exactly one newline at its end; \\-p and standard input are never changed. "
    "\\-\\-token\\-ids takes the place of all of them.\n";

static const char output_section[] =
    ".SH OUTPUT\n"
    "Standard output carries the result and nothing else: the generated text byte for byte "
    "(on a terminal with a newline after it), exactly one JSON document, or JSON lines. "
    "Everything else is on standard error. When the reader of the output goes away, cera "
    "ends quietly with 0.\n"
    ".PP\n"
    "With \\-\\-format json or jsonl the result is one JSON document on one line that names "
    "its form under \"schema\", such as \"cera.run/1\", and an error is one JSON object on "
    "standard error: {\"error\":{\"code\",\"exit\",\"message\",\"hint\"}}. \\-\\-json prints "
    "the bare arrays in logits and embed, and the same document as \\-\\-format json in the "
    "other commands.\n"
    ".TP\n.B run\n"
    "{schema, model, text, tokens, finish_reason, logprobs, usage, timings, seed}; "
    "finish_reason is stop, length, context or cancelled; logprobs is {content: [{id, token, "
    "logprob, bytes, top_logprobs}]} and only there with \\-\\-logprobs.\n"
    ".TP\n.B chat\n"
    "{schema, model, turns: [{message, finish_reason, usage, timings}]}; jsonl: a line per turn, "
    "{schema, model, message, finish_reason, usage, timings}, as it ends.\n"
    ".TP\n.B inspect\n"
    "{schema, arch, params, size, context_length, quant, chat_template, tensors: [{name, "
    "type, shape, offset, size}], meta}. An array of up to 64 elements is given in full, a "
    "longer one as {\"type\", \"count\"}. Whole numbers above 9223372036854775807 are given "
    "as text.\n"
    ".TP\n.B tokenize\n"
    "{schema, ids, pieces, bytes}; pieces that are not UTF\\-8 use U+FFFD, bytes is base64.\n"
    ".TP\n.B template\n"
    "{schema, text, spans: [{start, size, literal}], ids}; a literal span is what the template "
    "wrote; ids is null without a model.\n"
    ".TP\n.B logits\n"
    "\\-\\-json: [value, ...] or, with \\-\\-top\\-k, [[id, value], ...]; \\-\\-format json: "
    "{schema, model, prompt_tokens, logits}.\n"
    ".TP\n.B embed\n"
    "\\-\\-json: [value, ...] or, with \\-\\-per\\-token, [[value, ...], ...]; \\-\\-format "
    "json: {schema, model, pooling, prompt_tokens, embedding}.\n"
    ".TP\n.B perplexity\n"
    "{schema, model, perplexity, standard_error, mean_loss, tokens_scored, windows, "
    "window_size}.\n"
    ".TP\n.B grammar\n"
    "A line per text. check: {schema, text, accepted, result}; sample: {schema, text}, with "
    "\\-\\-tools also {content, tool_calls: [{name, arguments}], error}, error only where the text "
    "is no call.\n"
    ".TP\n.B quantize, convert\n"
    "{schema, model, output, type, bytes_before, bytes_after, tensors, quantized, fallback}.\n"
    ".TP\n.B cpu\n"
    "{schema, tier, tiers, features, cores: {perf, eff, logical, allowed}, quota, numa, l2, l3, "
    "threads, why}.\n"
    ".TP\n.B bench\n"
    "An array of rows (\\-o jsonl: a row a line): {schema, cera_version, build_commit, cpu_info, "
    "cpu_tier, backends, model_filename, model_type, model_size, model_n_params, n_batch, "
    "n_ubatch, n_threads, type_k, type_v, n_prompt, n_gen, n_depth, test_time, avg_ns, "
    "stddev_ns, avg_ts, stddev_ts, p10_ts, p50_ts, p90_ts, ttft_ns: {p50, p90, p99}, itl_ns: "
    "{p50, p90, p99}, samples_ns, samples_ts}. _ts is tokens per second, ttft the time from "
    "the start of a run to its first token, itl that from one token to the next: null for a "
    "prompt. \\-o csv has the same columns without the samples, named ttft_ns_p50 and so on.\n"
    ".PP\n"
    "Numbers that are not finite are null.\n";

static const char environment_section[] =
    ".SH ENVIRONMENT\n"
    "Every long option \\-\\-x\\-y of a command can be set as CERA_X_Y, except \\-\\-help, "
    "\\-\\-version and \\-\\-man; the command line wins. A flag takes 1 or 0; an empty "
    "variable counts as unset.\n"
    ".TP\n.B CERA_CPU_TIER\n"
    "The highest instruction set level to use: scalar, and avx2, avx_vnni, avx512 or amx on x86, "
    "neon, dotprod or i8mm on ARM. All give the same results to the bit, but for matrices of "
    "BF16 at amx. There is no option for it; cera cpu shows the level that will be used.\n"
    ".TP\n.B NO_COLOR, CLICOLOR_FORCE, TERM\n"
    "Colour on standard error is used on a terminal whose TERM is not dumb; NO_COLOR "
    "switches it off, CLICOLOR_FORCE on; \\-\\-color has the last word.\n";

void help_manual(bytes *out)
{
    bytes_printf(out, ".TH CERA 1 \"\" \"cera %s\" \"User Commands\"\n", cera_version());
    bytes_text(out, ".SH NAME\ncera \\- run language models from GGUF files\n"
                    ".SH SYNOPSIS\n.B cera\n<command> [options]\n"
                    ".SH DESCRIPTION\n"
                    "cera loads a language model from a GGUF file and generates text on this "
                    "machine's processor. A small model is built in as builtin:tiny.\n");
    append_commands(out);
    bytes_text(out, prompt_section);
    bytes_text(out, output_section);
    bytes_text(out, ".SH EXIT STATUS\n");
#define EXIT_ROW(name, value, code, meaning)                                                       \
    bytes_printf(out, ".TP\n.B %d\n", value);                                                      \
    append_roff(out, meaning);                                                                     \
    bytes_text(out, "\n");
    EXIT_CODES(EXIT_ROW)
#undef EXIT_ROW
    bytes_text(out, environment_section);
}
