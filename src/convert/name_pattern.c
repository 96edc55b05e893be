#include "convert/name_pattern.h"

#include "base/compiler.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* What PEFT has around a pattern, groups and all, which a pattern may refer to. */
static const char BEFORE[] = "(.*\\.)?(", BEHIND[] = ")$";

/* Names are short; a pattern that tries more ways than that through one is exponential. */
enum { MAX_STEPS = 1 << 20 };

static cera_status fail(const cr_name_patterns *patterns, cr_str key, const char *why, int code,
                        cera_error *err)
{
    return cr_fail(err, CERA_E_UNSUPPORTED, "%s: %s: \"%.*s\": %s (PCRE2 error %d)", patterns->path,
                   patterns->name, (int)CR_MIN(key.size, (size_t)64), key.data, why, code);
}

static cera_status add(cr_name_patterns *patterns, const cr_json *member,
                       pcre2_compile_context *context, cr_arena *arena, cera_error *err)
{
    const cr_str key = member->key;
    const size_t n_before = sizeof BEFORE - 1, n_behind = sizeof BEHIND - 1;
    char *text = cr_arena_array(arena, n_before + key.size + n_behind, 1);
    if (text == NULL)
        return cr_fail_nomem(err, key.size, "a pattern of names");
    memcpy(text, BEFORE, n_before);
    memcpy(text + n_before, key.data, key.size);
    memcpy(text + n_before + key.size, BEHIND, n_behind);
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, n_before + key.size + n_behind,
                                     PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP, &error, &at, context);
    if (code == NULL && patterns->refused)
        return cr_fail_nomem(err, key.size, "a pattern of names");
    if (code == NULL)
        return fail(patterns, key, "expected a regular expression", error, err);
    patterns->codes[patterns->n] = code;
    patterns->members[patterns->n++] = member;
    return CERA_OK;
}

cera_status cr_name_patterns_init(cr_name_patterns *patterns, cr_folder *folder,
                                  const cr_json *config, const char *name, cera_error *err)
{
    *patterns = (cr_name_patterns){ .path = folder->path, .name = name };
    cr_arena *arena = &folder->arena;
    const cr_json *object = cr_json_get(config, name);
    if (object != NULL && object->kind != CR_JSON_OBJECT && object->kind != CR_JSON_NULL)
        return cr_fail(err, CERA_E_FORMAT, "%s: %s: expected an object", folder->path, name);
    const size_t n = cr_json_count(object, CR_JSON_OBJECT);
    if (n == 0)
        return CERA_OK;
    patterns->memory = (cr_pcre_memory){ folder->host, CR_MEM_SCRATCH, &patterns->refused };
    patterns->codes = cr_arena_array(arena, n, sizeof *patterns->codes);
    patterns->members = cr_arena_array(arena, n, sizeof *patterns->members);
    pcre2_general_context *general =
        pcre2_general_context_create(cr_pcre_get, cr_pcre_release, &patterns->memory);
    pcre2_compile_context *context = NULL;
    if (general != NULL) {
        context = pcre2_compile_context_create(general);
        patterns->context = pcre2_match_context_create(general);
        patterns->match = pcre2_match_data_create(1, general);
    }
    pcre2_general_context_free(general); /* each has a copy of what it says */
    cera_status status = CERA_OK;
    if (patterns->codes == NULL || patterns->members == NULL || context == NULL ||
        patterns->context == NULL || patterns->match == NULL)
        status = cr_fail_nomem(err, n, "the patterns of names");
    else
        pcre2_set_match_limit(patterns->context, MAX_STEPS);
    const cr_json *member = cr_json_first(object, CR_JSON_OBJECT);
    for (; status == CERA_OK && member != NULL; member = member->next)
        status = add(patterns, member, context, arena, err);
    pcre2_compile_context_free(context);
    return status;
}

void cr_name_patterns_done(cr_name_patterns *patterns)
{
    for (size_t i = 0; i < patterns->n; i++)
        pcre2_code_free(patterns->codes[i]);
    pcre2_match_data_free(patterns->match);
    pcre2_match_context_free(patterns->context);
    *patterns = (cr_name_patterns){ .n = 0 };
}

cera_status cr_name_patterns_find(cr_name_patterns *patterns, cr_str module, const cr_json **out,
                                  cera_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < patterns->n && *out == NULL; i++) {
        const int result = pcre2_match(patterns->codes[i], (PCRE2_SPTR)module.data, module.size, 0,
                                       0, patterns->match, patterns->context);
        if (result == PCRE2_ERROR_NOMEMORY)
            return cr_fail_nomem(err, module.size, "matching a name");
        if (result < 0 && result != PCRE2_ERROR_NOMATCH)
            return fail(patterns, patterns->members[i]->key, "it cannot be matched", result, err);
        if (result >= 0)
            *out = patterns->members[i];
    }
    return CERA_OK;
}
