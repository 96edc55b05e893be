#define _DEFAULT_SOURCE
#include "cli/turn.h"

#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/rendering.h"
#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the parser finds ----------------------------------------------------------------- */

/* The part of a text that was not shown before. */
static size_t skip_shown(size_t *n_shown, size_t n)
{
    size_t skipped = *n_shown < n ? *n_shown : n;
    *n_shown -= skipped;
    return skipped;
}

static void end_thoughts(chat *c)
{
    if (!c->is_thinking)
        return;
    c->is_thinking = false;
    fputs(c->dims ? "\033[0m\n" : "\n", stderr);
}

static int on_content(void *user, const char *text, size_t n)
{
    chat *c = user;
    bytes_append(&conversation_last(&c->talk, "assistant")->content, text, n);
    size_t skipped = skip_shown(&c->n_shown, n);
    end_thoughts(c);
    if (c->answer_fd < 0 || skipped == n)
        return 0;
    c->last = text[n - 1];
    if (c->answer_fd == STDOUT_FILENO)
        return out_write(text + skipped, n - skipped) ? 0 : 1;
    fwrite(text + skipped, 1, n - skipped, stderr);
    return 0;
}

static int on_reasoning(void *user, const char *text, size_t n)
{
    chat *c = user;
    bytes_append(&conversation_last(&c->talk, "assistant")->reasoning, text, n);
    size_t skipped = skip_shown(&c->n_thoughts_shown, n);
    if (!c->shows_reasoning || skipped == n)
        return 0;
    if (!c->is_thinking && c->dims)
        fputs("\033[2m", stderr);
    c->is_thinking = true;
    fwrite(text + skipped, 1, n - skipped, stderr);
    return 0;
}

static int on_call(void *user, int call, const char *name, size_t n)
{
    chat *c = user;
    (void)call;
    end_thoughts(c);
    c->call_name.size = c->call_arguments.size = 0;
    bytes_append(&c->call_name, name, n);
    return 0;
}

static int on_arguments(void *user, int call, const char *json, size_t n)
{
    (void)call;
    bytes_append(&((chat *)user)->call_arguments, json, n);
    return 0;
}

static int on_call_end(void *user, int call)
{
    chat *c = user;
    (void)call;
    if (c->calls == NULL)
        c->calls = json_array();
    char id[16]; /* nine letters and digits, as Mistral's templates want them */
    snprintf(id, sizeof(id), "call%05u", c->n_calls++ % 100000);
    json_array_append_new(c->calls, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type",
                                              "function", "function", "name", c->call_name.data,
                                              "arguments", c->call_arguments.data));
    return 0;
}

static int on_error(void *user, const cera_chat_error *error)
{
    chat *c = user;
    end_thoughts(c);
    c->n_faults++;
    report_note(0, "cera: warning: what looks like a tool call is none: %s", error->message);
    return 0;
}

static int on_text(void *user, const char *text, size_t n)
{
    chat *c = user;
    bytes_append(&c->raw, text, n);
    if (cera_chat_parser_push(c->parser, text, n, NULL) != CERA_OK)
        return 1;
    return c->stops_at_answer && !cera_chat_parser_is_reasoning(c->parser);
}

/* ---- prompt -------------------------------------------------------------------------------- */

/* The first n messages as text and ids. */
static int render(chat *c, size_t n)
{
    json_t *messages = conversation_json(&c->talk, n, false);
    char *text = json_dumps(messages, JSON_COMPACT);
    json_decref(messages);
    if (text == NULL)
        bytes_no_memory();
    cera_render_options options;
    rendering_options(&options);
    options.tools = c->tools;
    options.variables = c->variables;
    cera_rendering rendering;
    cera_error err;
    cera_status status = cera_template_render(c->tmpl, text, &options, &rendering, &err);
    free(text);
    if (status != CERA_OK)
        return rendering_failed(&err);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    status = cera_vocab_encode_rendering(c->vocab, &rendering, &ids, &n_ids, &err);
    if (status == CERA_OK) {
        turn_forget_answer(c);
        bytes_append(&c->prompt, rendering.text, rendering.n);
        c->ids = bytes_alloc(n_ids, sizeof(*c->ids));
        memcpy(c->ids, ids, n_ids * sizeof(*ids));
        c->n_ids = c->n_prompt_ids = n_ids;
        cera_vocab_free_ids(c->vocab, ids, n_ids);
    }
    cera_template_free_rendering(c->tmpl, &rendering);
    if (status != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot turn the conversation into tokens", &err);
    return EXIT_OK;
}

/* Room that an answer should find at least: what it may have, or a quarter of the context. */
static size_t wanted_room(const chat *c, size_t context)
{
    int most = c->chosen.options.max_tokens;
    return most >= 0 && (size_t)most < context / 4 ? (size_t)most : context / 4;
}

/* Renders the first n messages without the fewest of the oldest exchanges that leave at most so many
 * tokens, or with the last exchange alone. */
static int render_recent(chat *c, size_t n, size_t most_ids)
{
    const size_t before = c->talk.n_forgotten;
    size_t too_few = 0, enough = conversation_n_old(&c->talk);
    while (enough > too_few + 1) {
        const size_t tried = too_few + (enough - too_few) / 2;
        c->talk.n_forgotten = before;
        conversation_forget(&c->talk, tried);
        int code = render(c, n);
        if (code != EXIT_OK)
            return code;
        if (c->n_ids <= most_ids)
            enough = tried;
        else
            too_few = tried;
    }
    c->talk.n_forgotten = before;
    conversation_forget(&c->talk, enough);
    return render(c, n);
}

/* Renders the first n messages; where the context is too small, without the oldest exchanges. They go
 * until a quarter of it is free: with another beginning all of a prompt is computed again, which
 * should not happen in each turn from there on. */
static int render_to_fit(chat *c, size_t n)
{
    cera_engine_info info;
    cera_engine_get_info(c->engine, &info);
    const size_t context = (size_t)info.context_size, room = wanted_room(c, context);
    int code = render(c, n);
    if (code != EXIT_OK || c->n_ids + room <= context || conversation_n_old(&c->talk) == 0)
        return code;
    code = render_recent(c, n, context - context / 4 - room);
    if (code == EXIT_OK)
        report_note(0, "cera: the context is full: the model no longer sees the first %zu messages",
                    c->talk.n_forgotten);
    return code;
}

/* ---- answer -------------------------------------------------------------------------------- */

static cera_chat_parser *open_parser(chat *c)
{
    const cera_chat_sink sink = { .on_content = on_content,
                                  .on_reasoning = on_reasoning,
                                  .on_call = on_call,
                                  .on_arguments = on_arguments,
                                  .on_call_end = on_call_end,
                                  .on_error = on_error,
                                  .user = c };
    cera_chat_parser_options options;
    cera_chat_parser_options_init(&options);
    options.format = c->tools != NULL ? c->format : "none";
    options.tools = c->tools;
    options.prompt = c->prompt.data;
    options.n_prompt = c->prompt.size;
    cera_chat_parser *parser = NULL;
    cera_error err;
    if (cera_chat_parser_new(&options, &sink, &parser, &err) != CERA_OK)
        report_failure(WHILE_RUNNING, "cannot read what the model says", &err);
    return parser;
}

/* The history of the session is what it needs to be; a signal that came too late for the last turn
 * does not count for this one. */
static cera_status sync_history(chat *c, cera_error *err)
{
    cera_status status = cera_session_sync(c->session, c->ids, c->n_ids, err);
    if (status == CERA_E_CANCELLED && interrupt_exit_code() == 0)
        status = cera_session_sync(c->session, c->ids, c->n_ids, err);
    return status;
}

static void keep_history(chat *c)
{
    size_t n;
    const int32_t *ids = cera_session_history(c->session, &n);
    free(c->ids);
    c->ids = bytes_alloc(n, sizeof(*c->ids));
    memcpy(c->ids, ids, n * sizeof(*ids));
    c->n_ids = n;
}

/* A grammar is for the answer: reasoning that the prompt has opened comes before it, and is
 * free. */
static cera_status generate_parts(chat *c, const cera_generate_options *wanted, cera_error *err)
{
    const cera_sink sink = { .on_text = on_text, .user = c };
    cera_generate_options options = *wanted;
    if (wanted->grammar == NULL || !cera_chat_parser_is_reasoning(c->parser))
        return cera_session_generate(c->session, &options, &sink, &c->summary, err);
    options.grammar = NULL;
    c->stops_at_answer = true;
    cera_summary thoughts;
    cera_status status = cera_session_generate(c->session, &options, &sink, &thoughts, err);
    c->stops_at_answer = false;
    c->summary = thoughts;
    if (status != CERA_OK || thoughts.finish != CERA_FINISH_SINK ||
        cera_chat_parser_is_reasoning(c->parser))
        return status;
    options.grammar = wanted->grammar;
    if (options.max_tokens >= 0)
        options.max_tokens -= (int)thoughts.n_generated;
    status = cera_session_generate(c->session, &options, &sink, &c->summary, err);
    c->summary.n_prompt = thoughts.n_prompt;
    c->summary.n_reused = thoughts.n_reused;
    c->summary.prompt_ms = thoughts.prompt_ms;
    c->summary.n_generated += thoughts.n_generated;
    c->summary.generate_ms += thoughts.generate_ms;
    return status;
}

/* The answer is the last message, maybe with a beginning in `raw`. */
static int generate(chat *c)
{
    cera_error err;
    cera_generate_options options = c->chosen.options;
    /* A call that must be is made once; its result may be answered by text. */
    bool is_result = c->talk.n > 1 && strcmp(c->talk.list[c->talk.n - 2].role, "tool") == 0;
    if (c->call_grammar != NULL && !(c->must_call && is_result))
        options.grammar = c->call_grammar;
    interrupt_watch(c->session);
    cera_status status = sync_history(c, &err);
    if (status == CERA_OK) {
        status = generate_parts(c, &options, &err);
        cera_status finished = cera_chat_parser_finish(c->parser, NULL);
        if (status == CERA_OK && finished == CERA_E_NOMEM)
            bytes_no_memory();
        keep_history(c);
    }
    interrupt_watch(NULL);
    end_thoughts(c);
    if (status == CERA_E_CANCELLED)
        return interrupt_exit_code();
    if (status != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot answer", &err);
    chat_message *answer = conversation_last(&c->talk, "assistant");
    answer->is_cut = c->summary.finish != CERA_FINISH_STOP;
    if (c->calls != NULL)
        answer->more = json_pack("{s:o}", "tool_calls", c->calls);
    c->calls = NULL;
    return EXIT_OK;
}

static void end_line(chat *c)
{
    bool is_open = c->last != '\n' && c->last != '\0';
    if (is_open && c->answer_fd == STDOUT_FILENO && (c->ends_lines || out_is_terminal()))
        out_text("\n");
    else if (is_open && c->answer_fd == STDERR_FILENO)
        fputs("\n", stderr);
    c->last = '\0';
}

static void tell_end(const chat *c)
{
    static const struct {
        cera_finish finish;
        const char *why;
    } reasons[] = {
        { CERA_FINISH_LENGTH, "--max-tokens" },
        { CERA_FINISH_CONTEXT, "the context is full (--context-size)" },
        { CERA_FINISH_CANCELLED, "interrupted" },
    };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (c->summary.finish == reasons[i].finish)
            report_note(0, "cera: stopped after %zu token%s: %s%s", c->summary.n_generated,
                        c->summary.n_generated == 1 ? "" : "s", reasons[i].why,
                        c->is_interactive ? "; /continue goes on" : "");
    }
    turn_tell_numbers(c, 1);
}

static void tell_calls(const chat *c)
{
    const chat_message *answer = &c->talk.list[c->talk.n - 1];
    const json_t *calls = json_object_get(answer->more, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        report_note(0, "call: %s(%s)", json_string_value(json_object_get(function, "name")),
                    json_string_value(json_object_get(function, "arguments")));
    }
    if (json_array_size(calls) > 0 && c->is_interactive)
        report_note(0, "cera: /result TEXT answers a call");
}

static int run_turn(chat *c)
{
    c->n_faults = 0;
    c->parser = open_parser(c);
    if (c->parser == NULL)
        return EXIT_RUNTIME;
    /* What was generated before, if anything: what came of it is there, and shown. */
    cera_chat_parser_push(c->parser, c->raw.data, c->raw.size, NULL);
    int code = generate(c);
    cera_chat_parser_free(c->parser);
    c->parser = NULL;
    json_decref(c->calls);
    c->calls = NULL;
    end_line(c);
    if (code == EXIT_OK) {
        tell_calls(c);
        tell_end(c);
    }
    return code;
}

int turn_answer(chat *c)
{
    int code = render_to_fit(c, c->talk.n);
    if (code != EXIT_OK)
        return code;
    conversation_add(&c->talk, "assistant");
    c->n_shown = c->n_thoughts_shown = 0;
    code = run_turn(c);
    if (code != EXIT_OK)
        conversation_remove_last(&c->talk);
    return code;
}

/* The ids of a text that the model is to have said, behind those of the prompt. */
static int append_said(chat *c, const bytes *text)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.add_bos = false;
    int32_t *ids = NULL;
    size_t n = 0;
    cera_error err;
    if (cera_vocab_encode(c->vocab, text->data, text->size, &options, &ids, &n, &err) != CERA_OK)
        return report_failure(WHILE_RUNNING, "cannot turn the answer into tokens", &err);
    int32_t *all = bytes_alloc(c->n_ids + n, sizeof(*all));
    memcpy(all, c->ids, c->n_ids * sizeof(*all));
    memcpy(all + c->n_ids, ids, n * sizeof(*all));
    free(c->ids);
    c->ids = all;
    c->n_ids += n;
    cera_vocab_free_ids(c->vocab, ids, n);
    bytes_append(&c->raw, text->data, text->size);
    return EXIT_OK;
}

int turn_continue(chat *c)
{
    chat_message *answer = conversation_last(&c->talk, "assistant");
    if (c->n_ids == 0) { /* it came from a file */
        int code = render_to_fit(c, c->talk.n - 1);
        if (code == EXIT_OK)
            code = append_said(c, &answer->content);
        if (code != EXIT_OK)
            return code;
    }
    chat_message before = *answer; /* should nothing come of it */
    c->n_shown = answer->content.size;
    c->n_thoughts_shown = answer->reasoning.size;
    *answer = (chat_message){ .role = before.role };
    bytes_text(&answer->content, "");
    int code = run_turn(c);
    chat_message drop = code == EXIT_OK ? before : *answer;
    if (code != EXIT_OK)
        *answer = before;
    bytes_done(&drop.content);
    bytes_done(&drop.reasoning);
    json_decref(drop.more);
    return code;
}

void turn_forget_answer(chat *c)
{
    free(c->ids);
    c->ids = NULL;
    c->n_ids = c->n_prompt_ids = 0;
    c->prompt.size = c->raw.size = 0;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static double per_second(size_t n, double ms)
{
    return ms > 0.0 ? (double)n * 1000.0 / ms : 0.0;
}

json_t *turn_json(const chat *c)
{
    const chat_message *answer = &c->talk.list[c->talk.n - 1];
    const cera_summary *summary = &c->summary;
    const char *finish = json_object_get(answer->more, "tool_calls") != NULL && !answer->is_cut
                             ? "tool_calls"
                             : cera_finish_name(summary->finish);
    return json_pack("{s:o, s:s, s:{s:I, s:I, s:I}, s:{s:f, s:f, s:f}}", "message",
                     conversation_message_json(answer), "finish_reason", finish, "usage",
                     "prompt_tokens", (json_int_t)c->n_prompt_ids, "completion_tokens",
                     (json_int_t)summary->n_generated, "cached_tokens",
                     (json_int_t)summary->n_reused, "timings", "prompt_ms", summary->prompt_ms,
                     "predicted_ms", summary->generate_ms, "predicted_per_second",
                     per_second(summary->n_generated, summary->generate_ms));
}

void turn_tell_numbers(const chat *c, int level)
{
    const cera_summary *summary = &c->summary;
    report_note(level, "Prompt tokens: %zu (%zu known)", c->n_prompt_ids, summary->n_reused);
    report_note(level, "Generated tokens: %zu", summary->n_generated);
    report_note(level, "Prefill: %.1f tok/s",
                per_second(summary->n_prompt - summary->n_reused, summary->prompt_ms));
    report_note(level, "Decode: %.1f tok/s",
                per_second(summary->n_generated, summary->generate_ms));
    report_note(level, "Finish: %s", cera_finish_name(summary->finish));
}
