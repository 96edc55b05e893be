/* Masks: the tokens that a state allows are those whose bytes the automaton accepts, one by one;
 * whatever was cached, forgotten or cut off before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "grammar/gbnf.h"
#include "grammar/matcher.h"
#include "support/fault_host.h"
#include "support/scored_build.h"

#include "base/compiler.h"
#include "file/gguf.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cr_host host;
static cr_vocab *tiny, *spm;
static cr_token_table *tiny_table, *spm_table;
static json_t *data;

static cr_vocab *open_vocab(cr_gguf *file)
{
    cr_vocab *vocab;
    assert_int_equal(cr_vocab_new(file, NULL, &host, &vocab, NULL), CERA_OK);
    cr_gguf_close(file);
    return vocab;
}

static int open_vocabs(void **state)
{
    (void)state;
    cr_host_set(&host, NULL, NULL);
    cr_gguf *file;
    cera_source source = { .path = CERA_TEST_MODELS "/tiny.gguf" };
    assert_int_equal(cr_gguf_open(&source, &host, &file, NULL), CERA_OK);
    tiny = open_vocab(file);
    static scored_token tokens[SPM_N];
    static char byte_texts[256][8];
    make_spm_tokens(tokens, byte_texts);
    scored_build v = { .model = "llama", .tokens = tokens, .n_tokens = SPM_N };
    gguf_build b;
    build_scored(&b, &v);
    source = (cera_source){ .data = b.data, .n_data = b.size };
    assert_int_equal(cr_gguf_open(&source, &host, &file, NULL), CERA_OK);
    spm = open_vocab(file);
    build_done(&b);
    assert_int_equal(cr_token_table_new(tiny, &host, &tiny_table, NULL), CERA_OK);
    assert_int_equal(cr_token_table_new(spm, &host, &spm_table, NULL), CERA_OK);
    data = json_load_file(CERA_TEST_DATA "/gbnf_cases.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(data);
    return 0;
}

static int close_vocabs(void **state)
{
    (void)state;
    cr_token_table_free(tiny_table);
    cr_token_table_free(spm_table);
    cr_vocab_free(tiny);
    cr_vocab_free(spm);
    json_decref(data);
    return cr_host_live(&host) != 0;
}

static const char *a_grammar = ""; /* the last one, for messages */

static cr_automaton *compile(cr_str text, const cr_vocab *vocab)
{
    a_grammar = text.data;
    cr_gbnf_source source = { .text = text, .max_size = CR_GBNF_MAX_TEXT, .vocab = vocab };
    cr_automaton *a;
    cera_error err;
    if (cr_gbnf_compile(&source, &host, &a, &err) != CERA_OK)
        fail_msg("%s", err.message);
    return a;
}

/* Token by token, from the definition, with a matcher that never makes a mask. */
static void compare_mask(cr_matcher *m, cr_matcher *probe, const cr_token_table *t,
                         int32_t previous)
{
    const uint64_t *bits;
    cera_error err;
    if (cr_matcher_mask(m, previous, &bits, &err) != CERA_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < t->n_tokens; i++) {
        int32_t id = (int32_t)i;
        cr_str piece = cr_vocab_piece_after(t->vocab, previous, id);
        bool expected = false;
        if (cr_vocab_is_end(t->vocab, id)) {
            expected = cr_matcher_is_complete(m);
        } else if (cr_vocab_is_text(t->vocab, id) && piece.size > 0) {
            assert_int_equal(cr_matcher_move(probe, m, NULL), CERA_OK);
            expected = cr_matcher_read_text(probe, piece, NULL) == CERA_OK;
        }
        if (cr_bit_get(bits, (uint32_t)i) != expected)
            fail_msg("token %zu \"%.*s\": expected %d, with %s", i, (int)piece.size, piece.data,
                     expected, a_grammar);
    }
}

/* Walks at random along allowed tokens, comparing each mask. False when there are too many readings
 * of a text side by side. */
static bool try_walk(cr_str grammar, const cr_token_table *t, uint32_t seed, int n_steps)
{
    cr_automaton *a = compile(grammar, t->vocab);
    cr_matcher *m, *probe;
    assert_int_equal(cr_matcher_new(a, t, &host, &m, NULL), CERA_OK);
    assert_int_equal(cr_matcher_new(a, NULL, &host, &probe, NULL), CERA_OK);
    int32_t previous = -1;
    bool is_wide = false;
    for (int step = 0; step < n_steps && !is_wide; step++) {
        const uint64_t *bits;
        is_wide = cr_matcher_mask(m, previous, &bits, NULL) == CERA_E_LIMIT;
        if (is_wide)
            break;
        compare_mask(m, probe, t, previous);
        assert_int_equal(cr_matcher_mask(m, previous, &bits, NULL), CERA_OK);
        int32_t chosen = -1;
        uint32_t n_allowed = 0;
        for (size_t i = 0; i < t->n_tokens; i++) {
            seed = seed * 1664525 + 1013904223;
            if (cr_bit_get(bits, (uint32_t)i) && !cr_vocab_is_end(t->vocab, (int32_t)i) &&
                (seed >> 8) % ++n_allowed == 0)
                chosen = (int32_t)i;
        }
        if (chosen < 0 || step % 40 == 39) {
            assert_true(chosen >= 0 || cr_matcher_is_at_end(m));
            assert_int_equal(cr_matcher_reset(m, NULL), CERA_OK);
            previous = -1;
            continue;
        }
        assert_int_equal(cr_matcher_read_token(m, previous, chosen, NULL), CERA_OK);
        previous = chosen;
    }
    cr_matcher_free(m);
    cr_matcher_free(probe);
    cr_automaton_free(a);
    return !is_wide;
}

static void walk(cr_str grammar, const cr_token_table *t, uint32_t seed, int n_steps)
{
    assert_true(try_walk(grammar, t, seed, n_steps));
}

static void masks_are_what_the_automaton_accepts(void **state)
{
    (void)state;
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(data, "cases"), i, entry) {
        const json_t *text = json_object_get(entry, "grammar");
        cr_str grammar = { json_string_value(text), json_string_length(text) };
        walk(grammar, tiny_table, (uint32_t)i,
             i + 1 == json_array_size(json_object_get(data, "cases")) ? 400 : 24);
        walk(grammar, spm_table, (uint32_t)i, 24);
    }
}

/* Counted characters: runs of every length, also those shorter than a token. */
static void masks_count(void **state)
{
    (void)state;
    static const char *const grammars[] = {
        "root ::= [^\"\\\\\\x00-\\x1f]{0,40} \"\\\"\"",
        "root ::= \"\\\"\" c{3,21} \"\\\"\" root?\nc ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" [nt\"]",
        "root ::= .{5} | [a-z ]{9}",
        "root ::= ([^\"\\\\\\x00-\\x1f]{2} \"-\"){30}",
        "root ::= ([^\\n]* \"\\n\"){3}",
    };
    for (size_t i = 0; i < CR_COUNT(grammars); i++) {
        walk(cr_str_from(grammars[i]), tiny_table, (uint32_t)i + 5, 120);
        walk(cr_str_from(grammars[i]), spm_table, (uint32_t)i + 5, 60);
    }
}

/* ---- random grammars --------------------------------------------------------------------- */

typedef struct making {
    char text[4096];
    size_t n;
    uint32_t seed;
} making;

static uint32_t below(making *g, uint32_t n)
{
    g->seed = g->seed * 1664525 + 1013904223;
    return (g->seed >> 8) % n;
}

static void put(making *g, const char *text)
{
    size_t n = strlen(text);
    assert_true(g->n + n < sizeof g->text);
    memcpy(g->text + g->n, text, n + 1);
    g->n += n;
}

static void put_alternatives(making *g, int rule, int depth);

/* What reads something. Classes end inside, at and outside the characters of one byte, and have all
 * others, some or none. */
static void put_element(making *g, int rule, int depth)
{
    static const char *const atoms[] = {
        ".",
        "[^\"\\\\]",
        "[a-z]",
        "[^a-z]",
        "[A-Za-z0-9_]",
        "[ -~]",
        "[^\\x00-\\x1f\"]",
        "[à-ÿ]",
        "[a-é]",
        "[^é]",
        "[\\u0080-\\uFFFF]",
        "[\\u0080-\\U0010FFFF]",
        "[^\\U0001F600]",
        "[\\n ]",
        "\" \"",
        "\"the\"",
        "\"é\"",
        "\"\\\"\"",
        "\"😀\"",
        "[,;.]",
        "[0-9]",
    };
    /* The long ones only where no others are around them: that has too many readings. */
    static const char *const counts[] = { "", "", "", "", "?", "*", "{1,3}", "{3,40}", "{5,}" };
    if (depth < 2 && below(g, 5) == 0) {
        put(g, "(");
        put_alternatives(g, rule, depth + 1);
        put(g, ")");
    } else if (rule < 2 && below(g, 4) == 0) {
        put(g, rule == 0 && below(g, 2) == 0 ? "r1" : "r2");
    } else {
        put(g, atoms[below(g, CR_COUNT(atoms))]);
    }
    put(g, counts[below(g, depth > 0 ? 5 : rule < 2 ? 7 : CR_COUNT(counts))]);
    put(g, " ");
}

static void put_alternatives(making *g, int rule, int depth)
{
    for (uint32_t i = 0, n = 1 + below(g, 3); i < n; i++) {
        put(g, i > 0 ? "| " : "");
        /* So that nothing is empty, which a repetition may not hold many times. */
        put(g, below(g, 2) == 0 ? "[a-m] " : "[^a-m] ");
        for (uint32_t k = below(g, 3); k > 0; k--)
            put_element(g, rule, depth);
        /* Stacks that grow. */
        if (depth == 0 && rule < 2 && below(g, 4) == 0)
            put(g, rule == 0 ? "(\"(\" root \")\")? " : "(\"[\" r1 [,\\]])? ");
    }
}

static void masks_of_random_grammars(void **state)
{
    (void)state;
    int n_whole = 0;
    for (uint32_t seed = 1; seed <= 120; seed++) {
        static making g;
        g = (making){ .seed = seed * 7919 };
        put(&g, "root ::= ");
        put_alternatives(&g, 0, 0);
        put(&g, "\nr1 ::= ");
        put_alternatives(&g, 1, 0);
        put(&g, "\nr2 ::= ");
        put_alternatives(&g, 2, 0);
        n_whole += try_walk(cr_str_from(g.text), tiny_table, seed, 40) ? 1 : 0;
        n_whole += try_walk(cr_str_from(g.text), spm_table, seed, 20) ? 1 : 0;
    }
    assert_true(n_whole >= 220);
}

/* States whose masks differ only because of what is steps ahead: none may take the other's. Each
 * grammar is walked from both, in one matcher. */
static void masks_are_shared_where_they_are_equal(void **state)
{
    (void)state;
    static const char *const grammars[] = {
        "root ::= (\"3\" [io] [n] | \"2\" (\"i\" [n] | \"o\" [m]) | \"1\" [io] [nm])*",
        "root ::= (\"1\" \" \" [a-z]{2} | \"2\" \" \" [a-z]{5} | \"3\" \" \" [a-z]{1})*",
        "root ::= (\"1\" \" \" [a-z]{9} | \"2\" \" \" [a-z]{3} | \"3\" \" \" [a-z]{5})*",
        "root ::= (\"3\" [a-z]{1,20} \".\" | \"2\" [a-z ]{4,9} | \"1\" [a-z]{1,20} [.,])*",
        "root ::= (\"1\" [^\\\"]{3,30} \"\\\"\" | \"2\" [^\\\"]{3,30} [\\\".] \"x\")*",
        "root ::= (\"1\" w | \"2\" w \"s\" | \"3\" w w)* w ::= [A-Za-z] [a-z0-9_]{0,18} \" \"?",
        /* Runs of different lengths behind the same step, in subtrees that are taken whole. */
        "root ::= (\"1\" [rt] [a-z]{9} | \"2\" [rt] [a-z]{2} | \"3\" [rt] [a-z]{4} \".\")*",
        "root ::= (\"1\" [a-z] | \"2\" [a-z]{3} [a-z.] | \"3\" [a-z]{2} [^a-z] \"\\n\")*",
    };
    /* Which state is met first is up to the seed. */
    for (uint32_t seed = 0; seed < 8; seed++) {
        for (size_t i = 0; i < CR_COUNT(grammars); i++) {
            walk(cr_str_from(grammars[i]), tiny_table, seed * 7919 + 13, 120);
            walk(cr_str_from(grammars[i]), spm_table, seed * 7919 + 13, 30);
        }
    }
}

/* Deep stacks: what is beyond the cut comes from a different place at each depth. */
static void masks_escape_to_the_right_place(void **state)
{
    (void)state;
    const char *text =
        "root ::= v\nv ::= \"[\" (v (\",\" v)*)? \"]\" | \"(\" (v (\";\" v)*)? \")\" | s\n"
        "s ::= \"\\\"\" [^\"\\\\\\x00-\\x1f]* \"\\\"\"";
    cr_automaton *a = compile(cr_str_from(text), tiny);
    cr_matcher *m, *probe;
    assert_int_equal(cr_matcher_new(a, tiny_table, &host, &m, NULL), CERA_OK);
    assert_int_equal(cr_matcher_new(a, NULL, &host, &probe, NULL), CERA_OK);
    static const char *const starts[] = { "",
                                          "[",
                                          "(",
                                          "[[",
                                          "((",
                                          "[(\"a\"",
                                          "([\"a\";",
                                          "([\"a\"",
                                          "[(\"",
                                          "([\"",
                                          "((([[[\"a\",(\"",
                                          "\"" };
    for (size_t i = 0; i < 3 * CR_COUNT(starts); i++) {
        assert_int_equal(cr_matcher_reset(m, NULL), CERA_OK);
        const char *start = starts[i % CR_COUNT(starts)];
        if (cr_matcher_read_text(m, cr_str_from(start), NULL) != CERA_OK)
            continue;
        compare_mask(m, probe, tiny_table, 300);
    }
    cr_matcher_stats stats;
    cr_matcher_get_stats(m, &stats);
    /* Inside a string the walk was done once, though the strings were at four places. */
    assert_true(stats.n_walks < stats.n_masks);
    cr_matcher_free(m);
    cr_matcher_free(probe);
    cr_automaton_free(a);
}

static uint32_t id_of(const cr_vocab *vocab, const char *text)
{
    cera_encode_options options = { .size = sizeof options, .parse_special = true };
    cr_buf ids;
    cr_buf_init(&ids, &host, CR_MEM_SCRATCH);
    assert_int_equal(cr_vocab_encode(vocab, cr_str_from(text), &options, &ids, NULL), CERA_OK);
    int32_t id;
    assert_int_equal(ids.size, sizeof id);
    memcpy(&id, ids.data, sizeof id);
    cr_buf_done(&ids);
    return (uint32_t)id;
}

/* Token references read control tokens, which texts never do. */
static void reads_token_references(void **state)
{
    (void)state;
    uint32_t start = id_of(tiny, "<|im_start|>"), end = id_of(tiny, "<|im_end|>");
    cr_automaton *a = compile(
        cr_str_from("root ::= <|im_start|> !<|im_start|>* <|im_start|> \"<|im_end|>\" <[5]>?"),
        tiny);
    cr_matcher *m;
    assert_int_equal(cr_matcher_new(a, tiny_table, &host, &m, NULL), CERA_OK);
    const uint64_t *bits;
    assert_int_equal(cr_matcher_mask(m, -1, &bits, NULL), CERA_OK);
    for (uint32_t i = 0; i < tiny_table->n_tokens; i++)
        assert_int_equal(cr_bit_get(bits, i), i == start);
    assert_int_equal(cr_matcher_read_text(m, cr_str_from("<|im_start|>"), NULL), CERA_E_ARG);
    assert_int_equal(cr_matcher_read_token(m, -1, (int32_t)end, NULL), CERA_E_ARG);
    assert_int_equal(cr_matcher_read_token(m, -1, (int32_t)start, NULL), CERA_OK);
    assert_int_equal(cr_matcher_mask(m, (int32_t)start, &bits, NULL), CERA_OK);
    for (uint32_t i = 0; i < tiny_table->n_tokens; i++) {
        bool is_text = cr_vocab_is_text(tiny, (int32_t)i) && !cr_vocab_is_end(tiny, (int32_t)i);
        assert_int_equal(cr_bit_get(bits, i), is_text || i == start);
    }
    assert_int_equal(cr_matcher_read_token(m, -1, 400, NULL), CERA_OK);
    assert_int_equal(cr_matcher_read_token(m, -1, 500, NULL), CERA_OK);
    assert_int_equal(cr_matcher_read_token(m, -1, (int32_t)end, NULL), CERA_E_ARG);
    assert_int_equal(cr_matcher_read_token(m, -1, (int32_t)start, NULL), CERA_OK);
    assert_int_equal(cr_matcher_read_token(m, -1, (int32_t)end, NULL), CERA_E_ARG);
    assert_int_equal(cr_matcher_read_text(m, cr_str_from("<|im_end|>"), NULL), CERA_OK);
    assert_true(cr_matcher_is_complete(m));
    assert_false(cr_matcher_is_at_end(m));
    assert_int_equal(cr_matcher_read_token(m, -1, 5, NULL), CERA_OK);
    assert_true(cr_matcher_is_at_end(m));
    cr_matcher_free(m);
    cr_automaton_free(a);

    cr_automaton *none;
    cera_error err;
    cr_gbnf_source source = { .text = cr_str_from("root ::= <no such token>"),
                              .max_size = CR_GBNF_MAX_TEXT,
                              .vocab = tiny };
    assert_int_equal(cr_gbnf_compile(&source, &host, &none, &err), CERA_E_ARG);
    assert_non_null(strstr(err.message, "expected the text of one token"));
    source.text = cr_str_from("root ::= <[1024]>");
    assert_int_equal(cr_gbnf_compile(&source, &host, &none, &err), CERA_E_ARG);
}

/* A token that ends a generation may stand where the text may end behind it, and nowhere else. */
static void refuses_what_follows_an_end(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *place; /* of the token that is refused; NULL: none */
    } cases[] = {
        { "root ::= \"a\" <|im_end|>", NULL },
        { "root ::= <|im_end|> | \"a\"", NULL },
        { "root ::= \"a\" <|im_end|> \"b\"?", NULL },
        { "root ::= \"a\" <|im_end|> none none\nnone ::= \"\" | \"b\"", NULL },
        { "root ::= (\"a\" <|im_end|>)*", NULL },
        { "root ::= (\"a\" <|im_end|>?){0,9}", NULL },
        { "root ::= \"a\" root | x\nx ::= <|im_end|>", NULL },
        { "root ::= \"a\" !<|im_end|> \"b\"", NULL },
        { "root ::= \"a\" <|im_start|> \"b\"", NULL },
        { "root ::= \"a\"\nother ::= <|im_end|> \"b\"", NULL },
        { "root ::= \"a\" <|im_end|> \"b\"", "line 1, column 14, rule \"root\"" },
        { "root ::= \"a\" <[4]> \"b\"", "line 1, column 14, rule \"root\"" },
        { "root ::= \"a\" (<|im_end|> \"b\")?", "line 1, column 15, rule \"root\"" },
        { "root ::= (\"a\" <|im_end|>){2}", "line 1, column 15, rule \"root\"" },
        { "root ::= \"a\" <|im_end|> <|im_end|>", "line 1, column 14, rule \"root\"" },
        { "root ::= \"a\" y \"b\" | x\ny ::= \"c\" | x\nx ::= <|im_end|>",
          "line 3, column 7, rule \"x\"" },
        { "root ::= \"(\" root \")\" | <|im_end|>", "line 1, column 25, rule \"root\"" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cr_automaton *a = NULL;
        cera_error err = { 0 };
        a_grammar = cases[i].grammar;
        cr_gbnf_source source = { .text = cr_str_from(cases[i].grammar),
                                  .max_size = CR_GBNF_MAX_TEXT,
                                  .vocab = tiny };
        const cera_status status = cr_gbnf_compile(&source, &host, &a, &err);
        cr_automaton_free(a);
        char wanted[256];
        snprintf(wanted, sizeof wanted,
                 "grammar: %s: expected the end behind a token that ends a generation, found more "
                 "that must follow",
                 cases[i].place ? cases[i].place : "");
        if (status != (cases[i].place ? CERA_E_ARG : CERA_OK) ||
            (cases[i].place && strcmp(err.message, wanted) != 0))
            fail_msg("%s: %s", cases[i].grammar, err.message);
    }
}

static void fails_without_memory(void **state)
{
    (void)state;
    for (size_t i = 1;; i++) {
        fault_host f;
        fault_init(&f);
        cr_host failing;
        assert_int_equal(cr_host_set(&failing, &f.host, NULL), CERA_OK);
        fault_allocs(&f, i, FAULT_ONCE);
        cr_token_table *t = NULL;
        cera_status status = cr_token_table_new(tiny, &failing, &t, NULL);
        cr_token_table_free(t);
        const cr_gbnf_source source = { .text = cr_str_from("root ::= \"a\" <|im_end|>"),
                                        .max_size = CR_GBNF_MAX_TEXT,
                                        .vocab = tiny };
        cr_automaton *a = NULL;
        if (status == CERA_OK)
            status = cr_gbnf_compile(&source, &failing, &a, NULL);
        cr_automaton_free(a);
        assert_null(fault_check(&f));
        bool reached = fault_hits(&f) > 0;
        fault_done(&f);
        if (!reached) {
            assert_int_equal(status, CERA_OK);
            break;
        }
        assert_int_equal(status, CERA_E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_what_the_automaton_accepts),
        cmocka_unit_test(masks_count),
        cmocka_unit_test(masks_of_random_grammars),
        cmocka_unit_test(masks_are_shared_where_they_are_equal),
        cmocka_unit_test(masks_escape_to_the_right_place),
        cmocka_unit_test(reads_token_references),
        cmocka_unit_test(refuses_what_follows_an_end),
        cmocka_unit_test(fails_without_memory),
    };
    return cmocka_run_group_tests(tests, open_vocabs, close_vocabs);
}
