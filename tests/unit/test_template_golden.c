/* Templates against Jinja2 as transformers sets it up (scripts/make-golden-templates): small ones
 * for each feature, our own with whole conversations, and public ones that are not in the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "template/template.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static cr_host host;

static json_t *load(const char *name)
{
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", CERA_TEST_DATA, name);
    json_t *root = json_load_file(path, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (root == NULL)
        fail_msg("%s: %s", path, error.text);
    return root;
}

/* The rendered text, or NULL and the error. Free it with free(). */
static char *render(cr_str source, const cr_template_input *input, size_t *n, cera_error *err)
{
    cr_template *tmpl;
    cr_buf text, spans;
    if (cr_template_new(source, &host, &tmpl, err) != CERA_OK)
        return NULL;
    cr_buf_init(&text, &host, CR_MEM_OBJECT);
    cr_buf_init(&spans, &host, CR_MEM_OBJECT);
    char *copy = NULL;
    if (cr_template_render(tmpl, input, &text, &spans, err) == CERA_OK) {
        copy = malloc(text.size + 1);
        assert_non_null(copy);
        if (text.size > 0)
            memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
        *n = text.size;
    }
    cr_buf_done(&text);
    cr_buf_done(&spans);
    cr_template_free(tmpl);
    return copy;
}

static const cr_template_time now = { 2024, 7, 4, 9, 5, 3 };

static int n_wrong;

/* Compares with what is expected; NULL: an error. */
static void check(const char *name, const char *source, const char *got, size_t n_got,
                  const json_t *expected, const cera_error *err)
{
    const char *want = json_string_value(expected);
    size_t n_want = json_string_length(expected);
    bool same = got == NULL ? want == NULL
                            : want != NULL && n_got == n_want && memcmp(got, want, n_got) == 0;
    if (same)
        return;
    if (n_wrong++ < 40)
        print_error("%s: %s\n  got      %s\n  expected %s\n", name, source,
                    got != NULL ? got : err->message, want != NULL ? want : "(an error)");
}

static void test_cases(void **state)
{
    (void)state;
    json_t *cases = load("template_cases.json"), *vars = load("template_vars.json");
    char *extra = json_dumps(vars, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_t *one;
    size_t i;
    n_wrong = 0;
    json_array_foreach (cases, i, one) {
        const json_t *source = json_array_get(one, 0);
        cr_template_input input = { .extra = cr_str_from(extra), .now = &now };
        cera_error err = { .message = "" };
        size_t n = 0;
        char *got = render((cr_str){ json_string_value(source), json_string_length(source) },
                           &input, &n, &err);
        check("case", json_string_value(source), got, n, json_array_get(one, 1), &err);
        if (got == NULL)
            assert_int_not_equal(err.status, CERA_OK);
        free(got);
    }
    print_message("%zu cases\n", json_array_size(cases));
    free(extra);
    json_decref(cases);
    json_decref(vars);
    assert_int_equal(n_wrong, 0);
}

/* A conversation as variables. Texts are kept in `kept` until it is freed. */
static char *render_chat(cr_str source, const json_t *chat, bool parse, size_t *n, cera_error *err)
{
    char *messages = json_dumps(json_object_get(chat, "messages"), JSON_REAL_PRECISION(17));
    json_t *tools = json_object_get(chat, "tools"), *extra = json_object_get(chat, "variables");
    char *tools_text = tools != NULL ? json_dumps(tools, JSON_REAL_PRECISION(17)) : NULL;
    char *extra_text = extra != NULL ? json_dumps(extra, JSON_REAL_PRECISION(17)) : NULL;
    bool prompt = !json_is_false(json_object_get(chat, "add_generation_prompt"));
    cr_template_var vars[] = {
        { "messages", cr_str_from(messages), false, false },
        { "tools", cr_str_from(tools_text != NULL ? tools_text : "null"), false, false },
        { "add_generation_prompt", cr_str_from(prompt ? "true" : "false"), false, false },
        { "bos_token", cr_str_from("<s>"), true, false },
        { "eos_token", cr_str_from("</s>"), true, false },
    };
    cr_template_input input = { .vars = vars,
                                .n_vars = 5,
                                .extra = cr_str_from(extra_text != NULL ? extra_text : ""),
                                .now = &now,
                                .parse_arguments = parse };
    char *got = render(source, &input, n, err);
    free(messages);
    free(tools_text);
    free(extra_text);
    return got;
}

static char *read_file(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *n = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

static void test_own(void **state)
{
    (void)state;
    json_t *chats = load("template_chats.json"), *chat;
    DIR *folder = opendir(CERA_TEST_DATA "/templates");
    assert_non_null(folder);
    int n_templates = 0, n_texts = 0;
    n_wrong = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const char *dot = strstr(entry->d_name, ".jinja");
        if (dot == NULL)
            continue;
        char path[1024], golden[512];
        snprintf(path, sizeof path, "%s/templates/%s", CERA_TEST_DATA, entry->d_name);
        snprintf(golden, sizeof golden, "templates/%.*s.json", (int)(dot - entry->d_name),
                 entry->d_name);
        json_t *expected = load(golden);
        size_t i, n_source, n = 0;
        char *source = read_file(path, &n_source);
        assert_non_null(source);
        json_array_foreach (chats, i, chat) {
            const char *name = json_string_value(json_object_get(chat, "name"));
            cera_error err = { .message = "" };
            char *got = render_chat((cr_str){ source, n_source }, chat, false, &n, &err);
            check(entry->d_name, name, got, n, json_object_get(expected, name), &err);
            free(got);
            n_texts++;
        }
        free(source);
        json_decref(expected);
        n_templates++;
    }
    closedir(folder);
    print_message("%d templates, %d renderings\n", n_templates, n_texts);
    json_decref(chats);
    assert_int_equal(n_wrong, 0);
    assert_true(n_templates >= 3);
}

static uint64_t hash_of(const char *text, size_t n)
{
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        value = (value ^ (unsigned char)text[i]) * 0x100000001b3u;
    return value;
}

static const json_t *find_chat(const json_t *chats, const char *name)
{
    const json_t *chat;
    size_t i;
    json_array_foreach (chats, i, chat)
        if (strcmp(json_string_value(json_object_get(chat, "name")), name) == 0)
            return chat;
    return NULL;
}

static void test_public(void **state)
{
    (void)state;
    const char *folder = getenv("CERA_TEST_TEMPLATES");
    if (folder == NULL) {
        print_message("set CERA_TEST_TEMPLATES to llama.cpp's models/templates folder\n");
        skip();
    }
    json_t *chats = load("template_chats.json");
    FILE *lines = fopen(CERA_TEST_DATA "/template_hashes.txt", "r");
    assert_non_null(lines);
    char line[512], name[256], chat_name[64], result[64], current[256] = "";
    char *source = NULL;
    size_t n_source = 0;
    int n_texts = 0, n_missing = 0, n_templates = 0;
    n_wrong = 0;
    while (fgets(line, sizeof line, lines) != NULL) {
        char *blank = strrchr(line, '\n');
        if (blank != NULL)
            *blank = '\0';
        char *first = strchr(line, ' '), *second = first != NULL ? strchr(first + 1, ' ') : NULL;
        assert_non_null(second);
        snprintf(name, sizeof name, "%.*s", (int)(first - line), line);
        snprintf(chat_name, sizeof chat_name, "%.*s", (int)(second - first - 1), first + 1);
        if (strcmp(name, current) != 0) {
            char path[1024];
            free(source);
            snprintf(path, sizeof path, "%s/%s", folder, name);
            source = read_file(path, &n_source);
            snprintf(current, sizeof current, "%s", name);
            n_missing += source == NULL;
            n_templates += source != NULL;
        }
        if (source == NULL)
            continue;
        const json_t *chat = find_chat(chats, chat_name);
        assert_non_null(chat);
        size_t n = 0;
        cera_error err = { .message = "" };
        char *got = render_chat((cr_str){ source, n_source }, chat, false, &n, &err);
        if (got == NULL)
            snprintf(result, sizeof result, "error");
        else
            snprintf(result, sizeof result, "%zu %016llx", n, (unsigned long long)hash_of(got, n));
        if (strcmp(result, second + 1) != 0 && n_wrong++ < 40) {
            print_error("%s, %s: got %s, expected %s: %s\n", name, chat_name, result, second + 1,
                        err.message);
            const char *dump = getenv("CERA_DUMP");
            if (dump != NULL && got != NULL) {
                char path[1024];
                snprintf(path, sizeof path, "%s/%s.%s", dump, name, chat_name);
                FILE *file = fopen(path, "wb");
                if (file != NULL) {
                    fwrite(got, 1, n, file);
                    fclose(file);
                }
            }
        }
        free(got);
        n_texts++;
    }
    free(source);
    fclose(lines);
    json_decref(chats);
    print_message("%d templates, %d renderings, %d mismatches\n", n_templates, n_texts, n_wrong);
    assert_int_equal(n_wrong, 0);
    assert_int_equal(n_missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_public),
    };
    cr_host_set(&host, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
