/* Patterns of modules' names: what fits is what Python's re.match(r"(.*\.)?(KEY)$", name) says,
 * which PEFT asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "convert/name_pattern.h"
#include "support/fault_host.h"

#include <stdio.h>
#include <string.h>

static cr_host host;

static const cr_json *parse(cr_folder *folder, const char *text)
{
    static const cr_json_rules rules = { .max_bytes = 1 << 16, .max_values = 1000, .max_depth = 9 };
    const cr_json *out = NULL;
    assert_int_equal(cr_json_parse(cr_str_from(text), "config", &rules, &folder->arena, &out, NULL),
                     CERA_OK);
    return out;
}

/* The key that fits a name; "" for none. */
static void check(const char *keys, const char *name, const char *wanted)
{
    cr_folder folder = { .host = &host, .path = "f" };
    cr_arena_init(&folder.arena, &host, CR_MEM_SCRATCH);
    char config[512];
    snprintf(config, sizeof config, "{\"p\": {%s}}", keys);
    cr_name_patterns patterns;
    const cr_json *found = NULL;
    cera_error err = { 0 };
    if (cr_name_patterns_init(&patterns, &folder, parse(&folder, config), "p", &err) != CERA_OK ||
        cr_name_patterns_find(&patterns, cr_str_from(name), &found, &err) != CERA_OK)
        fail_msg("%s: %s", keys, err.message);
    char key[64] = "";
    if (found != NULL)
        snprintf(key, sizeof key, "%.*s", (int)found->key.size, found->key.data);
    assert_string_equal(key, wanted);
    cr_name_patterns_done(&patterns);
    cr_arena_done(&folder.arena);
    assert_int_equal(cr_host_live(&host), 0);
}

static void patterns_fit_as_pythons_do(void **state)
{
    (void)state;
    static const char name[] = "model.layers.12.self_attn.q_proj";
    check("\"q_proj\": 1", name, "q_proj");
    check("\"_proj\": 1", name, ""); /* no point before it */
    check("\"q_pro\": 1", name, ""); /* not to the end */
    check("\"self_attn.q_proj\": 1", name, "self_attn.q_proj");
    check("\"self_attnXq_proj\": 1", name, "");
    check("\"k_proj\": 1, \"q_proj\": 2, \".*\": 3", name, "q_proj"); /* the first one */
    check("\"k_proj|q_proj\": 1", name, "k_proj|q_proj");
    check("\"^q_proj\": 1", name, "");
    check("\"^model\\\\..*\": 1", name, "^model\\..*");
    check("\"layers\\\\.(1|2)\\\\..*\": 1", name, "");
    check("\"layers\\\\.\\\\d+\\\\.(self_attn|mlp)\\\\.[qk]_proj\": 1", name,
          "layers\\.\\d+\\.(self_attn|mlp)\\.[qk]_proj");
    check("\"(?!layers\\\\.1)\\\\w+\\\\.1[0-4]\\\\..*\": 1", name, "");
    check("\"a)|(.*\": 1", name, "a)|(.*"); /* the groups around it are text, as there */
    check("\"layers.(\\\\d)\\\\d.*\": 1", name, "layers.(\\d)\\d.*");
    check("\"(.)\\\\3.*\": 1", "a.bbc", "(.)\\3.*"); /* groups of the pattern begin with 3 */
    check("", name, "");
    check("\"\": 1", name, "");
    check("\"lm_head\": 1", "lm_head", "lm_head");
}

static void faults_are_told(void **state)
{
    (void)state;
    cr_folder folder = { .host = &host, .path = "f" };
    cr_arena_init(&folder.arena, &host, CR_MEM_SCRATCH);
    cr_name_patterns patterns;
    cera_error err = { 0 };
    assert_int_equal(cr_name_patterns_init(&patterns, &folder,
                                           parse(&folder, "{\"p\": {\"a\": 1, \"(\": 2}}"), "p",
                                           &err),
                     CERA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "f: p: \"(\": expected a regular expression"));
    cr_name_patterns_done(&patterns);
    /* One that tries every way to cut a name ends, and says so. */
    const cr_json *found;
    assert_int_equal(cr_name_patterns_init(&patterns, &folder,
                                           parse(&folder, "{\"p\": {\"(a|aa|a.|.a)*[bc]\": 1}}"),
                                           "p", &err),
                     CERA_OK);
    assert_int_equal(cr_name_patterns_find(
                         &patterns,
                         cr_str_from("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
                         &found, &err),
                     CERA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "f: p: \"(a|aa|a.|.a)*[bc]\": it cannot be matched"));
    cr_name_patterns_done(&patterns);
    cr_arena_done(&folder.arena);
    assert_int_equal(cr_host_live(&host), 0);
}

static int make_host(void **state)
{
    (void)state;
    return cr_host_set(&host, NULL, NULL) == CERA_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_fit_as_pythons_do),
        cmocka_unit_test(faults_are_told),
    };
    return cmocka_run_group_tests_name("name_pattern", tests, make_host, NULL);
}
