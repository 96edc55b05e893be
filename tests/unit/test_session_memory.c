/* Sessions and memory: a token allocates nothing, a failed allocation changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fault_host.h"
#include "support/tiny.h"

#include <string.h>

/* An engine on a host that counts and fails. */
typedef struct fixture {
    fault_host f;
    cera_engine *engine;
} fixture;

static void begin(fixture *x)
{
    fault_init(&x->f);
    cera_engine_options options;
    cera_engine_options_init(&options);
    options.host = &x->f.host;
    options.n_threads = 1;
    x->engine = tiny_open(&options);
}

static void end(fixture *x)
{
    cera_engine_close(x->engine);
    assert_null(fault_check(&x->f));
    fault_done(&x->f);
}

/* ---- the budget -------------------------------------------------------------------------- */

enum { N_COUNTED = 100 };

typedef struct counter {
    fault_host *f;
    int n_tokens;
    size_t calls_at_first, calls_at_last;
} counter;

static int count_text(void *user, const char *text, size_t n)
{
    (void)user;
    (void)text;
    (void)n;
    return 0;
}

static int count_token(void *user, const cera_token_info *token)
{
    (void)token;
    counter *c = user;
    size_t calls = fault_calls(c->f, FAULT_ALLOC);
    c->n_tokens++;
    if (c->n_tokens == 1)
        c->calls_at_first = calls;
    c->calls_at_last = calls;
    return 0;
}

/* With all that may cost memory: sampling, penalty, log-probabilities, stop texts; across the end
 * of a page. A second prompt in pages that are there costs nothing either. */
static void tokens_allocate_nothing(void **state)
{
    (void)state;
    fixture x;
    begin(&x);
    cera_session *s = tiny_new(x.engine, 0);
    tiny_append(s, tiny_prompt);

    cera_generate_options options = tiny_greedy(1 + N_COUNTED);
    options.temperature = 1.0f;
    options.n_logprobs = 20;
    options.stop = (const char *const[]){ "no such text", "\x01" };
    options.n_stop = 2;
    options.bias = &(cera_logit_bias){ 9, -5 };
    options.n_bias = 1;
    counter c = { .f = &x.f };
    cera_sink sink = { .on_text = count_text, .on_token = count_token, .user = &c };
    cera_summary summary;
    options.max_tokens = 1; /* takes the room for logits */
    assert_int_equal(cera_session_generate(s, &options, NULL, &summary, NULL), CERA_OK);
    options.max_tokens = N_COUNTED;
    size_t pieces = fault_live_pieces(&x.f), bytes = fault_live_bytes(&x.f);
    assert_int_equal(cera_session_generate(s, &options, &sink, &summary, NULL), CERA_OK);
    assert_int_equal(summary.n_generated, N_COUNTED);
    assert_int_equal(c.calls_at_last - c.calls_at_first, 0);
    /* What the call took for itself is back; the page of positions 64 to 127 is not. */
    assert_int_equal(fault_live_pieces(&x.f), pieces + 2);
    size_t page_bytes = tiny_env(x.engine).pages->bytes[0] + sizeof(cr_page);
    assert_int_equal(fault_live_bytes(&x.f), bytes + page_bytes);

    /* A prompt in pages that are there. */
    cera_session_reset(s);
    int32_t ids[N_COUNTED];
    tiny_ids(1, ids, N_COUNTED);
    size_t calls = fault_calls(&x.f, FAULT_ALLOC);
    assert_int_equal(cera_session_append_ids(s, ids, N_COUNTED, NULL), CERA_OK);
    assert_int_equal(fault_calls(&x.f, FAULT_ALLOC), calls);

    /* The next page costs two calls, one of them for the few bytes that know it. */
    assert_int_equal(cera_session_append_ids(s, ids, 128 - N_COUNTED, NULL), CERA_OK);
    assert_int_equal(fault_calls(&x.f, FAULT_ALLOC), calls);
    assert_int_equal(cera_session_append_ids(s, ids, 1, NULL), CERA_OK);
    assert_int_equal(fault_calls(&x.f, FAULT_ALLOC), calls + 2);
    cera_session_free(s);
    end(&x);
}

/* Bytes of pages that sessions hold. Others wait for their next use, and a session keeps room for
 * the next state. */
static uint64_t used_bytes(const fixture *x)
{
    cera_engine_stats stats;
    cera_engine_get_stats(x->engine, &stats);
    return stats.page_bytes_used;
}

/* What the engine says it holds is what the allocator gave. */
static void the_bill_is_right(void **state)
{
    (void)state;
    fixture x;
    begin(&x);
    cera_engine_info info;
    cera_engine_get_info(x.engine, &info);
    assert_int_equal(info.memory_bytes, fault_live_bytes(&x.f));
    cera_session *s = tiny_new(x.engine, 0);
    tiny_append(s, tiny_prompt);
    cera_engine_get_info(x.engine, &info);
    assert_int_equal(info.memory_bytes, fault_live_bytes(&x.f));
    cera_session_free(s);
    end(&x);
}

/* ---- all or nothing ---------------------------------------------------------------------- */

/* One call on a session that takes memory. */
typedef cera_status step(cera_session *s, cera_error *err);

static cera_status append_ids(cera_session *s, cera_error *err)
{
    int32_t ids[150]; /* two pages more */
    tiny_ids(2, ids, 150);
    return cera_session_append_ids(s, ids, 150, err);
}

static cera_status append_text(cera_session *s, cera_error *err)
{
    cera_input input = { .text = " It was na\xc3\xafve.<|im_end|>\n<|im_start|>user\nMore, "
                                 "more, more, and a little more of it, please, if you can!\xff",
                         .parse_special = true };
    return cera_session_append(s, &input, err);
}

static tiny_record shown;

static cera_status generate(cera_session *s, cera_error *err)
{
    memset(&shown, 0, sizeof shown);
    cera_generate_options options = tiny_greedy(45); /* a page more */
    options.stop = (const char *const[]){ "no such text" };
    options.n_stop = 1;
    cera_sink sink = tiny_sink(&shown);
    return cera_session_generate(s, &options, &sink, NULL, err);
}

/* Fails each allocation of the call in turn. Returns how many there are. */
static size_t fail_each(step *call, fault_mode mode)
{
    fixture x;
    begin(&x);
    cera_session *twin = tiny_new(x.engine, 0), *s = tiny_new(x.engine, 0);
    tiny_append(twin, tiny_prompt);
    tiny_append(s, tiny_prompt);
    tiny_snapshot before, after;
    tiny_take(twin, &before);
    cera_error err;
    assert_int_equal(call(twin, &err), CERA_OK);
    tiny_take(twin, &after);
    static tiny_record expected;
    expected = shown;

    size_t n = 0;
    for (;; n++) {
        uint64_t used = used_bytes(&x);
        size_t hits = fault_hits(&x.f);
        fault_allocs(&x.f, n + 1, mode);
        memset(&err, 0, sizeof err);
        cera_status status = call(s, &err);
        fault_allocs(&x.f, 0, FAULT_NEVER);
        assert_null(fault_misuse(&x.f));
        if (fault_hits(&x.f) == hits) {
            assert_int_equal(status, CERA_OK);
            break;
        }
        assert_int_equal(status, CERA_E_NOMEM);
        assert_int_equal(err.status, CERA_E_NOMEM);
        assert_true(err.message[0] != '\0');
        assert_int_equal(shown.n_tokens + shown.n_texts, 0);
        tiny_assert_at(s, &before);
        assert_int_equal(used_bytes(&x), used);
    }
    /* The last try, in which nothing failed, is what it would have been at first. */
    tiny_assert_at(s, &after);
    if (call == generate)
        assert_string_equal(shown.text, expected.text);
    tiny_assert_twins(s, twin);
    cera_session_free(s);
    cera_session_free(twin);
    end(&x);
    return n;
}

static void a_failed_allocation_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        step *call;
    } rows[] = {
        { "append of ids", append_ids },
        { "append of text", append_text },
        { "generate", generate },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        memset(&shown, 0, sizeof shown);
        size_t once = fail_each(rows[i].call, FAULT_ONCE);
        memset(&shown, 0, sizeof shown);
        size_t sticky = fail_each(rows[i].call, FAULT_STICKY);
        assert_true(once >= 2);
        assert_int_equal(once, sticky);
        print_message("%s: %zu allocations, each failed once and from there on\n", rows[i].name,
                      once);
    }
}

static void a_session_that_could_not_be_made(void **state)
{
    (void)state;
    fixture x;
    begin(&x);
    size_t bytes = fault_live_bytes(&x.f), n = 0;
    for (;; n++) {
        cera_session *s = NULL;
        size_t hits = fault_hits(&x.f);
        fault_allocs(&x.f, n + 1, FAULT_ONCE);
        cera_status status = cera_session_new(x.engine, NULL, &s, NULL);
        fault_allocs(&x.f, 0, FAULT_NEVER);
        if (fault_hits(&x.f) == hits) {
            assert_int_equal(status, CERA_OK);
            cera_session_free(s);
            break;
        }
        assert_int_equal(status, CERA_E_NOMEM);
        assert_null(s);
        assert_int_equal(fault_live_bytes(&x.f), bytes);
    }
    assert_true(n >= 5);

    /* Embedding makes a timeline of its own. */
    static float rows[TINY_PROMPT][128], again[TINY_PROMPT][128];
    assert_int_equal(
        cera_engine_embed(x.engine, tiny_prompt_ids, TINY_PROMPT, CERA_POOLING_NONE, rows[0], NULL),
        CERA_OK);
    for (n = 0;; n++) {
        size_t hits = fault_hits(&x.f);
        memset(again, 0, sizeof again);
        fault_allocs(&x.f, n + 1, FAULT_ONCE);
        cera_status status = cera_engine_embed(x.engine, tiny_prompt_ids, TINY_PROMPT,
                                               CERA_POOLING_NONE, again[0], NULL);
        fault_allocs(&x.f, 0, FAULT_NEVER);
        assert_int_equal(used_bytes(&x), 0);
        if (fault_hits(&x.f) == hits) {
            assert_int_equal(status, CERA_OK);
            break;
        }
        assert_int_equal(status, CERA_E_NOMEM);
        assert_true(again[0][0] == 0); /* outputs are written only on success */
    }
    assert_memory_equal(rows, again, sizeof rows);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_allocate_nothing),
        cmocka_unit_test(the_bill_is_right),
        cmocka_unit_test(a_failed_allocation_changes_nothing),
        cmocka_unit_test(a_session_that_could_not_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
