/* From tokens to the text of a sink: stop texts that span tokens, characters that span tokens, and
 * what is held back at the end. The model is a script: whatever the position, it wants the token
 * that the script has there, so that a whole generation costs next to nothing and every cut can be
 * tried. Vocabulary, sampler and session are the real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tiny.h"

#include <math.h>
#include <string.h>

enum { MAX_SCRIPT = 256 };

typedef struct script {
    int32_t ids[MAX_SCRIPT];
    size_t n;
    cr_session *session;
} script;

static cera_engine *engine;
static script play;

/* Logits for the token after the batch: the script starts behind one BOS, and ends in EOS. */
static cera_status run_script(void *ctx, cr_seat *seat, const cr_batch_seq *seq, cera_error *err)
{
    (void)err;
    const script *s = ctx;
    cr_seat_meanwhile(seat);
    if (seq->n_logits == 0)
        return CERA_OK;
    size_t next = (size_t)(seq->n_past + seq->n_rows) - 1;
    for (int i = 0; i < TINY_VOCAB; i++)
        seq->logits[i] = 0;
    seq->logits[next < s->n ? s->ids[next] : TINY_EOS] = 10;
    return CERA_OK;
}

static int set_up(void **state)
{
    (void)state;
    engine = tiny_open(NULL);
    cr_session_env env = tiny_env(engine);
    env.run = run_script;
    env.ctx = &play;
    return cr_session_new(&env, MAX_SCRIPT, &play.session, NULL) == CERA_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    cr_session_free(play.session);
    cera_engine_close(engine);
    return 0;
}

/* ---- scripts ----------------------------------------------------------------------------- */

static void clear(void)
{
    play.n = 0;
}

static void add_id(int32_t id)
{
    assert_true(play.n < MAX_SCRIPT);
    play.ids[play.n++] = id;
}

/* The token of one byte. */
static void add_byte(char byte)
{
    for (int32_t id = TINY_IM_END + 1; id < TINY_VOCAB; id++) {
        size_t size;
        const char *piece = cera_vocab_piece(cera_engine_vocab(engine), id, &size);
        if (size == 1 && piece[0] == byte) {
            add_id(id);
            return;
        }
    }
    fail_msg("no token for byte %d", byte);
}

static void add_bytes(const char *text)
{
    for (; *text != '\0'; text++)
        add_byte(*text);
}

/* As the tokenizer cuts it. */
static void add_text(const char *text)
{
    cera_encode_options options;
    cera_encode_options_init(&options);
    options.add_bos = false;
    int32_t *ids;
    size_t n;
    const cera_vocab *vocab = cera_engine_vocab(engine);
    assert_int_equal(cera_vocab_encode(vocab, text, strlen(text), &options, &ids, &n, NULL),
                     CERA_OK);
    for (size_t i = 0; i < n; i++)
        add_id(ids[i]);
    cera_vocab_free_ids(vocab, ids, n);
}

/* Generates from the script's start. */
static cera_summary generate(const cera_generate_options *options, tiny_record *record)
{
    cr_session_reset(play.session);
    assert_int_equal(cr_session_append_ids(play.session, (int32_t[]){ TINY_BOS }, 1, NULL),
                     CERA_OK);
    record->text[0] = '\0';
    record->size = 0;
    record->n_texts = record->n_tokens = 0;
    record->broken = false;
    cera_sink sink = tiny_sink(record);
    cera_summary summary;
    cera_error err;
    if (cr_session_generate(play.session, options, NULL, &sink, &summary, &err) != CERA_OK)
        fail_msg("%s", err.message);
    assert_false(record->broken);
    assert_int_equal(record->n_tokens, summary.n_generated);
    assert_int_equal(strlen(record->text), record->size);
    return summary;
}

static cera_generate_options greedy(int n)
{
    cera_generate_options options = tiny_greedy(n);
    options.ignore_eos = false;
    return options;
}

/* What comes out for a list of stop texts, NULL at its end. */
static cera_summary generate_until(tiny_record *record, const char *const *stop)
{
    cera_generate_options options = greedy(-1);
    options.stop = stop;
    while (stop[options.n_stop])
        options.n_stop++;
    return generate(&options, record);
}

/* ---- stop texts -------------------------------------------------------------------------- */

/* Every part of the text as stop text, the text in tokens and in single bytes: out comes what
 * stands before its first occurrence, and the tokens end with the one that completes it. */
static void every_part_as_stop_text(void **state)
{
    (void)state;
    static const char text[] = "She had a big, fluffy tail, a big, big tail. Luna\n\nlll";
    const size_t size = strlen(text);
    tiny_record record = { .n_tokens = 0 };
    int n_tried = 0;
    for (int in_bytes = 0; in_bytes < 2; in_bytes++) {
        clear();
        if (in_bytes)
            add_bytes(text);
        else
            add_text(text);
        size_t ends[MAX_SCRIPT], at = 0; /* of the tokens, in the text */
        for (size_t i = 0; i < play.n; i++) {
            size_t n;
            cera_vocab_piece(cera_engine_vocab(engine), play.ids[i], &n);
            ends[i] = at += n;
        }
        assert_int_equal(at, size);
        for (size_t begin = 0; begin < size; begin++) {
            for (size_t n = 1; begin + n <= size; n++, n_tried++) {
                char stop[sizeof text] = { 0 };
                memcpy(stop, text + begin, n);
                size_t expected = (size_t)(strstr(text, stop) - text);
                int n_tokens = 1;
                while (ends[n_tokens - 1] < expected + n)
                    n_tokens++;

                cera_summary summary =
                    generate_until(&record, (const char *const[]){ "zebra", stop, NULL });
                assert_int_equal(summary.finish, CERA_FINISH_STOP);
                assert_int_equal(record.size, expected);
                assert_memory_equal(record.text, text, expected);
                assert_int_equal(record.n_tokens, n_tokens);
                size_t n_history;
                cr_session_history(play.session, &n_history);
                assert_int_equal(n_history, 1 + n_tokens);
            }
        }
    }
    assert_true(n_tried > 2000);
}

/* Text that was held back and turned out to be nothing comes out once, in whatever way it ends. */
static void held_text_comes_out_once(void **state)
{
    (void)state;
    tiny_record record = { .n_tokens = 0 };
    clear();
    add_bytes(" Bob!");
    generate_until(&record, (const char *const[]){ "\n", "Bob:", NULL });
    assert_string_equal(record.text, " Bob!");

    clear();
    add_bytes("END");
    cera_summary summary = generate_until(&record, (const char *const[]){ "ENDX", NULL });
    assert_int_equal(summary.finish, CERA_FINISH_STOP); /* by the end token */
    assert_string_equal(record.text, "END");

    clear();
    add_bytes("aab aabaa");
    generate_until(&record, (const char *const[]){ "aabaac", "aabb", NULL });
    assert_string_equal(record.text, "aab aabaa");

    /* max_tokens, a stop id, the context's end, a cancel: in the middle of what may be a stop. */
    clear();
    add_bytes("say ENDINGS");
    const char *const stop[] = { "ENDINGS!" };
    for (int n = 1; n <= 11; n++) {
        cera_generate_options options = greedy(n);
        options.stop = stop;
        options.n_stop = 1;
        summary = generate(&options, &record);
        assert_int_equal(summary.finish, CERA_FINISH_LENGTH);
        assert_int_equal(record.size, n);
        assert_memory_equal(record.text, "say ENDINGS", (size_t)n);
    }
    cera_generate_options options = greedy(-1);
    options.stop = stop;
    options.n_stop = 1;
    options.stop_ids = &play.ids[9];
    options.n_stop_ids = 1;
    summary = generate(&options, &record);
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    assert_string_equal(record.text, "say ENDIN");
}

static void a_sink_that_ends_gets_no_more(void **state)
{
    (void)state;
    clear();
    add_bytes("abcEND");
    tiny_record record = { .stop_at_token = 5 };
    cera_summary summary = generate_until(&record, (const char *const[]){ "ENDX", NULL });
    assert_int_equal(summary.finish, CERA_FINISH_SINK);
    assert_string_equal(record.text, "abc");

    record = (tiny_record){ .stop_at_text = 2 };
    summary = generate_until(&record, (const char *const[]){ "ENDX", NULL });
    assert_int_equal(summary.finish, CERA_FINISH_SINK);
    assert_string_equal(record.text, "ab");
}

/* The first one to be complete wins; of several that end together, the longest. */
static void several_stop_texts(void **state)
{
    (void)state;
    static const struct {
        const char *stop[4];
        const char *expected;
    } rows[] = {
        { { "three", "two", NULL }, "one " },
        { { "o th", "two three", NULL }, "one tw" },
        { { "three", "two three", NULL }, "one " },
        { { "two threex", "hree", NULL }, "one two t" },
        { { "e", NULL }, "on" },
        { { "one two three", NULL }, "" },
        { { "One", "two ", NULL }, "one " }, /* letters count */
        { { "four", NULL }, "one two three" },
    };
    tiny_record record = { .n_tokens = 0 };
    for (int in_bytes = 0; in_bytes < 2; in_bytes++) {
        for (size_t i = 0; i < CR_COUNT(rows); i++) {
            clear();
            if (in_bytes)
                add_bytes("one two three");
            else
                add_text("one two three");
            cera_summary summary = generate_until(&record, rows[i].stop);
            assert_int_equal(summary.finish, CERA_FINISH_STOP);
            assert_string_equal(record.text, rows[i].expected);
        }
    }
}

/* A control token that does not end the generation has its text; one that does, has not. */
static void control_tokens_and_stop_texts(void **state)
{
    (void)state;
    tiny_record record = { .n_tokens = 0 };
    clear();
    add_text("Hi");
    add_id(TINY_IM_START);
    add_text("user");
    cera_summary summary = generate_until(&record, (const char *const[]){ "<|im_start|>", NULL });
    assert_int_equal(summary.finish, CERA_FINISH_STOP);
    assert_string_equal(record.text, "Hi");
    generate_until(&record, (const char *const[]){ "Z", NULL });
    assert_string_equal(record.text, "Hi<|im_start|>user");

    static const int32_t ends[] = { TINY_EOS, TINY_IM_END };
    for (size_t i = 0; i < CR_COUNT(ends); i++) {
        clear();
        add_text("Hi");
        size_t n_before = play.n;
        add_id(ends[i]);
        add_text(" there");
        summary = generate_until(&record, (const char *const[]){ "<|im_end|>", NULL });
        assert_int_equal(summary.finish, CERA_FINISH_STOP);
        assert_string_equal(record.text, "Hi");
        assert_int_equal(summary.n_generated, n_before);
        size_t n;
        cr_session_history(play.session, &n);
        assert_int_equal(n, 1 + n_before); /* BOS, Hi */
    }
}

/* ---- characters -------------------------------------------------------------------------- */

/* tiny_sink checks that each piece is whole; here, that nothing is lost or made up. */
static void characters_over_several_tokens(void **state)
{
    (void)state;
    static const char text[] = "Hello \xf0\x9f\xa6\x99 \xe6\x97\xa5\xe6\x9c\xac d\xc3\xa9j\xc3\xa0 "
                               "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9!";
    const size_t size = strlen(text);
    tiny_record record = { .n_tokens = 0 };
    clear();
    add_text(text);
    generate_until(&record, (const char *const[]){ NULL });
    assert_string_equal(record.text, text);

    clear();
    add_bytes(text);
    assert_int_equal(play.n, size);
    generate_until(&record, (const char *const[]){ NULL });
    assert_string_equal(record.text, text);

    /* A limit within a character drops its beginning. */
    for (size_t n = 1; n <= size; n++) {
        cera_generate_options options = greedy((int)n);
        generate(&options, &record);
        size_t whole = n;
        while (whole < size && ((unsigned char)text[whole] & 0xc0) == 0x80)
            whole--;
        assert_int_equal(record.size, whole);
        assert_memory_equal(record.text, text, whole);
    }
    /* A stop text of several bytes, and one in the middle of the last character. */
    generate_until(&record, (const char *const[]){ "\xe6\x9c\xac", NULL });
    assert_string_equal(record.text, "Hello \xf0\x9f\xa6\x99 \xe6\x97\xa5");
}

static void bytes_that_are_no_characters(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *expected;
    } rows[] = {
        { "a\xff"
          "b",
          "a\xef\xbf\xbd"
          "b" },
        { "a\xc3"
          "b",
          "a\xef\xbf\xbd"
          "b" },
        { "\xe6\x97"
          "b",
          "\xef\xbf\xbd"
          "b" }, /* one for the part of a character */
        { "\xf0\x9f\xa6"
          "\xc3\xa9",
          "\xef\xbf\xbd\xc3\xa9" },
        { "\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* a surrogate */
        { "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },                 /* an overlong form */
        { "ok\xf0\x9f", "ok" },                                     /* still open at the end */
    };
    tiny_record record = { .n_tokens = 0 };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        clear();
        add_bytes(rows[i].bytes);
        generate_until(&record, (const char *const[]){ NULL });
        assert_string_equal(record.text, rows[i].expected);
    }
}

/* A character may be cut between two calls as well; text that is appended ends it. */
static void characters_over_several_calls(void **state)
{
    (void)state;
    static const char text[] = "d\xc3\xa9j\xc3\xa0 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82.";
    tiny_record record = { .n_tokens = 0 };
    cera_sink sink = tiny_sink(&record);
    cera_generate_options one = greedy(1);
    clear();
    add_bytes(text);
    cr_session_reset(play.session);
    assert_int_equal(cr_session_append_ids(play.session, (int32_t[]){ TINY_BOS }, 1, NULL),
                     CERA_OK);
    for (size_t i = 0; i < play.n; i++)
        assert_int_equal(cr_session_generate(play.session, &one, NULL, &sink, NULL, NULL), CERA_OK);
    assert_false(record.broken);
    assert_string_equal(record.text, text);

    /* "d", half of a character, then a turn of somebody else. */
    for (int by_reset = 0; by_reset < 2; by_reset++) {
        cera_generate_options two = greedy(2);
        generate(&two, &record);
        assert_string_equal(record.text, "d");
        if (by_reset) {
            generate(&one, &record);
            assert_string_equal(record.text, "d");
            continue;
        }
        int32_t a = play.ids[0];
        assert_int_equal(cr_session_append_ids(play.session, &a, 1, NULL), CERA_OK);
        record = (tiny_record){ .n_tokens = 0 };
        assert_int_equal(cr_session_generate(play.session, &one, NULL, &sink, NULL, NULL), CERA_OK);
        assert_string_equal(record.text, "j"); /* the script at this position */
    }
}

/* Without on_text or on_token, and without any sink, the tokens are the same. */
static void callbacks_are_optional(void **state)
{
    (void)state;
    clear();
    add_text("one two three four");
    cera_generate_options options = greedy(-1);
    options.stop = (const char *const[]){ "four" };
    options.n_stop = 1;
    tiny_record record = { .n_tokens = 0 };
    cera_summary all = generate(&options, &record);
    assert_string_equal(record.text, "one two three ");
    for (int mask = 0; mask < 4; mask++) {
        tiny_record part = { .n_tokens = 0 };
        cera_sink sink = tiny_sink(&part);
        if (!(mask & 1))
            sink.on_text = NULL;
        if (!(mask & 2))
            sink.on_token = NULL;
        cr_session_reset(play.session);
        assert_int_equal(cr_session_append_ids(play.session, (int32_t[]){ TINY_BOS }, 1, NULL),
                         CERA_OK);
        cera_summary summary;
        assert_int_equal(
            cr_session_generate(play.session, &options, NULL, mask ? &sink : NULL, &summary, NULL),
            CERA_OK);
        assert_int_equal(summary.n_generated, all.n_generated);
        assert_string_equal(part.text, mask & 1 ? record.text : "");
        assert_int_equal(part.n_tokens, mask & 2 ? record.n_tokens : 0);
    }
}

/* ---- logits that are no numbers ---------------------------------------------------------- */

static cera_status run_broken(void *ctx, cr_seat *seat, const cr_batch_seq *seq, cera_error *err)
{
    (void)seat;
    (void)err;
    for (int i = 0; seq->n_logits > 0 && i < TINY_VOCAB; i++)
        seq->logits[i] = *(const float *)ctx;
    return CERA_OK;
}

/* Broken weights: an error, for this call only; no token is made up. */
static void logits_that_are_no_numbers(void **state)
{
    (void)state;
    static const float values[] = { NAN, -INFINITY, INFINITY };
    for (size_t i = 0; i < CR_COUNT(values); i++) {
        float value = values[i];
        cr_session_env env = tiny_env(engine);
        env.run = run_broken;
        env.ctx = &value;
        cr_session *s = NULL;
        assert_int_equal(cr_session_new(&env, 0, &s, NULL), CERA_OK);
        assert_int_equal(cr_session_append_ids(s, (int32_t[]){ TINY_BOS }, 1, NULL), CERA_OK);
        for (int sampled = 0; sampled < 2; sampled++) {
            cera_generate_options options = greedy(4);
            options.temperature = (float)sampled;
            tiny_record record = { .n_tokens = 0 };
            cera_sink sink = tiny_sink(&record);
            cera_error err;
            assert_int_equal(cr_session_generate(s, &options, NULL, &sink, NULL, &err),
                             CERA_E_FORMAT);
            assert_non_null(strstr(err.message, "logits"));
            assert_int_equal(record.n_tokens, 0);
        }
        cr_session_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_as_stop_text),
        cmocka_unit_test(held_text_comes_out_once),
        cmocka_unit_test(a_sink_that_ends_gets_no_more),
        cmocka_unit_test(several_stop_texts),
        cmocka_unit_test(control_tokens_and_stop_texts),
        cmocka_unit_test(characters_over_several_tokens),
        cmocka_unit_test(characters_over_several_calls),
        cmocka_unit_test(bytes_that_are_no_characters),
        cmocka_unit_test(callbacks_are_optional),
        cmocka_unit_test(logits_that_are_no_numbers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
